"""Makes pictures small: fewer colours, no transparency. `python docs/small.py FILE.png …` writes over the files."""

import sys
from pathlib import Path

from PIL import Image

ENOUGH = 62_000  # bytes
SHADES = (128, 64, 32, 20, 12)


def shrink(path: Path) -> None:
    """As many colours as the size allows; wide pictures lose width before they lose the last colours."""
    if path.stat().st_size <= ENOUGH:
        return
    shown = Image.open(path).convert("RGBA")
    paper = Image.new("RGBA", shown.size, "white")
    paper.alpha_composite(shown)
    whole = paper.convert("RGB")
    for width in (whole.width, 1200, 1000, 850, 700):
        if width > whole.width:
            continue
        size = (width, round(whole.height * width / whole.width))
        scaled = whole if width == whole.width else whole.resize(size, Image.Resampling.LANCZOS)
        for shades in SHADES[:-1] if width > 700 else SHADES:
            scaled.quantize(shades, method=Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE).save(
                path, optimize=True
            )
            if path.stat().st_size <= ENOUGH:
                return


if __name__ == "__main__":
    for name in sys.argv[1:]:
        shrink(Path(name))
