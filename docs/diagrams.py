"""Draws the diagrams at the top of pages into docs/pictures/diagrams: `python docs/diagrams.py [NAME …]`."""

import sys
from collections.abc import Callable, Sequence
from html import escape
from pathlib import Path

from commands import below as commands_below
from commands import groups

from decbayes.plot.style import COLOURS, GREY, INK, PALE, SHADES

FOLDER = Path(__file__).parent / "pictures" / "diagrams"
BLUE, ORANGE, GREEN, _, GOLD, *_ = COLOURS
TINT = "#eef4f9"
WIDTH = 720


class Sketch:
    """A drawing on a white card, so that it reads in light and in dark."""

    def __init__(self, height: int = 170) -> None:
        self.height, self.parts = height, list[str]()

    def text(
        self,
        x: float,
        y: float,
        words: str,
        *,
        size: float = 13,
        colour: str = INK,
        anchor: str = "middle",
        bold: bool = False,
    ) -> None:
        """Lines of text, centred around y."""
        lines = words.split("\n")
        top = y - (len(lines) - 1) * size * 0.62 + size * 0.35
        for number, line in enumerate(lines):
            weight = ' font-weight="600"' if bold else ""
            self.parts.append(
                f'<text x="{x:g}" y="{top + number * size * 1.24:g}" font-size="{size:g}" fill="{colour}" '
                f'text-anchor="{anchor}"{weight}>{escape(line)}</text>'
            )

    def box(
        self,
        x: float,
        y: float,
        w: float,
        h: float,
        words: str = "",
        *,
        fill: str = TINT,
        line: str = BLUE,
        size: float = 13,
        dashed: bool = False,
    ) -> None:
        """A box around its centre."""
        dash = ' stroke-dasharray="4 3"' if dashed else ""
        self.parts.append(
            f'<rect x="{x - w / 2:g}" y="{y - h / 2:g}" width="{w:g}" height="{h:g}" rx="6" '
            f'fill="{fill}" stroke="{line}"{dash}/>'
        )
        if words:
            self.text(x, y, words, size=size, colour="white" if fill in (BLUE, INK, ORANGE) else INK)

    def arrow(
        self,
        x: float,
        y: float,
        to_x: float,
        to_y: float,
        words: str = "",
        *,
        colour: str = GREY,
        dashed: bool = False,
        both: bool = False,
    ) -> None:
        dash = ' stroke-dasharray="4 3"' if dashed else ""
        start = ' marker-start="url(#a)"' if both else ""
        self.parts.append(
            f'<path d="M{x:g} {y:g}L{to_x:g} {to_y:g}" stroke="{colour}" stroke-width="1.5"{dash} '
            f'marker-end="url(#a)"{start} fill="none"/>'
        )
        if words:
            self.text((x + to_x) / 2, (y + to_y) / 2 - 10, words, size=11.5, colour=GREY)

    def dot(self, x: float, y: float, colour: str, radius: float = 6) -> None:
        self.parts.append(f'<circle cx="{x:g}" cy="{y:g}" r="{radius:g}" fill="{colour}"/>')

    def site(
        self,
        x: float,
        y: float,
        name: str,
        colours: Sequence[str] = (),
        *,
        line: str = BLUE,
        w: float = 110,
        h: float = 44,
    ) -> None:
        """A site with its components as dots."""
        self.box(x, y, w, h, line=line, fill=TINT if line == BLUE else "#fdf1ec")
        self.text(x, y - (9 if colours else 0), name)
        for number, colour in enumerate(colours):
            self.dot(x + (number - (len(colours) - 1) / 2) * 16, y + 10, colour, 5)

    def file(self, x: float, y: float, name: str = "", *, colours: Sequence[str] = ()) -> None:
        """A sheet with a folded corner."""
        self.parts.append(
            f'<path d="M{x - 14:g} {y - 19:g}h19l9 9v29h-28z" fill="white" stroke="{INK}"/>'
            f'<path d="M{x + 5:g} {y - 19:g}v9h9" fill="none" stroke="{INK}"/>'
        )
        for number, colour in enumerate(colours):
            self.dot(x + (number - (len(colours) - 1) / 2) * 9, y + 4, colour, 3.5)
        if name:
            self.text(x, y + 31, name, size=11.5)

    def bars(
        self,
        x: float,
        y: float,
        values: Sequence[float],
        colours: Sequence[str],
        *,
        width: float = 14,
        scale: float = 60,
    ) -> None:
        """Bars that stand on y."""
        for number, (value, colour) in enumerate(zip(values, colours, strict=True)):
            height = value * scale
            self.parts.append(
                f'<rect x="{x + number * (width + 4):g}" y="{y - height:g}" width="{width:g}" '
                f'height="{height:g}" fill="{colour}"/>'
            )

    def svg(self) -> str:
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {self.height}" '
            f'width="{WIDTH}" height="{self.height}" '
            'font-family="system-ui,Segoe UI,Helvetica,Arial,sans-serif">'
            '<defs><marker id="a" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
            'orient="auto-start-reverse">'
            f'<path d="M0 0.5L7 4L0 7.5z" fill="{GREY}"/></marker></defs>'
            f'<rect x="0.5" y="0.5" width="{WIDTH - 1}" height="{self.height - 1}" rx="8" '
            f'fill="white" stroke="{PALE}"/>' + "".join(self.parts) + "</svg>\n"
        )


DRAWINGS: dict[str, Callable[[], Sketch]] = {}


def drawing(make: Callable[[], Sketch]) -> Callable[[], Sketch]:
    DRAWINGS[make.__name__.replace("_", "-")] = make
    return make


def chain(steps: Sequence[str], *, height: int = 110, last: bool = True, notes: Sequence[str] = ()) -> Sketch:
    """Boxes in a row, joined by arrows; the last one is filled."""
    sketch, count = Sketch(height), len(steps)
    pitch = (WIDTH - 30) / count
    width, y = pitch - 26, height / 2 - (12 if notes else 0)
    for number, words in enumerate(steps):
        x = 15 + pitch * (number + 0.5)
        end = last and number == count - 1
        sketch.box(x, y, width, 52, words, fill=BLUE if end else TINT, size=12.5)
        if number:
            sketch.arrow(x - pitch + width / 2 + 2, y, x - width / 2 - 2, y)
        if notes and notes[number]:
            sketch.text(x, y + 46, notes[number], size=11.5, colour=GREY)
    return sketch


def table(rows: Sequence[Sequence[str]], widths: Sequence[float], *, head: bool = True) -> Sketch:
    """A small table: its first row is a heading."""
    sketch = Sketch(34 + 25 * len(rows))
    left = (WIDTH - sum(widths)) / 2
    for number, row in enumerate(rows):
        y, x = 30 + 25 * number, left
        for words, width in zip(row, widths, strict=True):
            bold = head and number == 0
            sketch.text(x + 6, y, words, size=12.5, anchor="start", bold=bold, colour=INK if not bold else BLUE)
            x += width
        if number == 0:
            sketch.parts.append(f'<path d="M{left:g} {y + 12}h{sum(widths):g}" stroke="{PALE}"/>')
    return sketch


@drawing
def tutorial() -> Sketch:
    """Three hospitals, three files, one result."""
    sketch = Sketch(196)
    for y, name in ((40, "north"), (95, "south"), (150, "west")):
        sketch.site(85, y, name)
        sketch.arrow(142, y, 218, y, "fit")
        sketch.file(245, y)
        sketch.arrow(266, y, 382, 95 + (y - 95) * 0.25)
    sketch.text(85, 181, "rows stay on site", size=11, colour=GREY)
    sketch.box(440, 95, 110, 46, "merge", fill=BLUE)
    sketch.arrow(497, 95, 560, 95)
    sketch.file(585, 95, "report")
    sketch.text(660, 80, "odds ratios\nwith intervals", size=12)
    sketch.text(660, 118, "which sites differ", size=12)
    return sketch


@drawing
def study() -> Sketch:
    return chain(
        ["new\nplan", "check\nfit", "preview\nrelease", "merge\nround", "report"],
        height=130,
        notes=["whoever leads", "each site", "each site", "whoever merges", "everybody"],
    )


@drawing
def rounds() -> Sketch:
    """A site refits against all others."""
    sketch = Sketch(160)
    sketch.box(110, 80, 130, 60, "own data")
    sketch.file(270, 45, "")
    sketch.file(305, 45, "")
    sketch.text(245, 16, "what the others have sent", size=11.5)
    sketch.arrow(330, 50, 392, 72)
    sketch.arrow(178, 92, 392, 92)
    sketch.box(450, 82, 110, 52, "refine", fill=BLUE)
    sketch.arrow(507, 82, 572, 82)
    sketch.file(600, 82, "new contribution")
    sketch.text(360, 142, "each round replaces what a site has sent: nothing counts twice", size=12, colour=GREY)
    return sketch


@drawing
def texts() -> Sketch:
    return chain(
        ["texts", "words of\neach office", "one list\nof words", "topics of\neach office", "topics of all"],
        notes=["stay on site", "5 documents or more", "agreed", "a file each", "merged"],
        height=130,
    )


@drawing
def secure_sums() -> Sketch:
    """Masks cancel in the sum."""
    sketch = Sketch(180)
    for y, name, mask in ((40, "north", "a + r − s"), (90, "south", "b − r + t"), (140, "west", "c + s − t")):
        sketch.site(85, y, name, h=36)
        sketch.arrow(142, y, 250, y)
        sketch.box(320, y, 130, 34, mask, fill="#fdf1ec", line=ORANGE, size=14)
        sketch.arrow(388, y, 490, 90 + (y - 90) * 0.3)
    sketch.box(560, 90, 130, 46, "a + b + c", fill=BLUE, size=15)
    sketch.text(320, 14, "masked: looks random", size=11.5, colour=GREY)
    sketch.text(560, 132, "only the sum opens", size=12, colour=GREY)
    return sketch


@drawing
def secure_network() -> Sketch:
    return chain(
        ["keys", "masked\ncontributions", "parts of the\nopening", "the sum", "anchor of\nthe next round"],
        notes=["each agent", "look random", "each agent", "all agents", "a merge"],
        height=130,
    )


@drawing
def certificates() -> Sketch:
    """One authority, a certificate per agent, a gate in front."""
    sketch = Sketch(170)
    sketch.box(360, 34, 130, 38, "authority", fill=BLUE)
    for x, name in ((120, "agent a"), (600, "agent b")):
        sketch.site(x, 120, name)
        sketch.arrow(360 + (x - 360) * 0.28, 46, x + (40 if x < 360 else -40), 95, "signs")
    sketch.box(240, 120, 60, 44, "gate", line=GREY, fill="white")
    sketch.box(480, 120, 60, 44, "gate", line=GREY, fill="white")
    sketch.arrow(272, 120, 448, 120, "TLS, both show certificates", both=True)
    sketch.arrow(240, 164, 240, 146, dashed=True)
    sketch.text(250, 158, "strangers wait here", size=11.5, colour=GREY, anchor="start")
    return sketch


@drawing
def decisions() -> Sketch:
    return chain(
        ["motion:\nremove c", "vote of a", "vote of b", "settled:\nmore than half"],
        notes=["signed by a member", "1 of 3", "2 of 3", "permanent, everywhere"],
        height=130,
    )


@drawing
def deployment() -> Sketch:
    """What an agent needs on a machine."""
    sketch = Sketch(160)
    sketch.box(360, 80, 150, 60, "decbayes agent", fill=BLUE)
    for x, y, words in (
        (110, 40, "group.toml\nthe charter"),
        (110, 118, "a.key\nback it up"),
        (610, 40, "a.store\nneeds no backup"),
        (610, 118, "log, /health, /metrics"),
    ):
        sketch.box(x, y, 160, 46, words, size=12.5)
        inward = x < 360
        start, end = ((192, y), (283, 80 + (y - 80) * 0.4)) if inward else ((437, 80 + (y - 80) * 0.4), (528, y))
        sketch.arrow(*start, *end)
    sketch.text(360, 134, "systemd or a container starts it again", size=12, colour=GREY)
    return sketch


@drawing
def monitoring() -> Sketch:
    return chain(
        ["agents", "/metrics", "Prometheus", "alerts", "Grafana"],
        notes=["one per site", "no data in it", "asks", "alerts.yml", "grafana.json"],
        height=130,
    )


@drawing
def charter() -> Sketch:
    """What is in a charter."""
    return table(
        [
            ["in the charter", "says", "an example"],
            ["members", "who takes part, by public key", "a, b, c"],
            ["model", "what everybody fits", "GaussianMixture, components = 3"],
            ["rules", "how members count", "robust = true"],
            ["limits", "what members may send", "observations = 100000"],
            ["disclosure", "what may leave a site", "least_cell = 5"],
        ],
        [130, 250, 260],
    )


@drawing
def libraries() -> Sketch:
    """Models of other libraries become posteriors, and go back."""
    sketch = Sketch(180)
    names = ("scikit-learn", "gensim", "tomotopy", "hmmlearn", "StepMix", "NumPyro")
    for number, name in enumerate(names):
        x, y = (100 if number < 3 else 620), 40 + 50 * (number % 3)
        sketch.box(x, y, 130, 36, name, fill="white", line=GREY)
        side = 1 if x < 360 else -1
        sketch.arrow(
            x + side * 68, y, 360 - side * 72, 90 + (y - 90) * 0.35, both=name != "NumPyro" and name != "StepMix"
        )
    sketch.box(360, 90, 138, 56, "Posterior", fill=BLUE, size=15)
    sketch.text(360, 140, "merge, refine, report", size=12, colour=GREY)
    return sketch


@drawing
def scikit_learn() -> Sketch:
    return chain(
        ["fit(X)", "posterior_", "merge", "transform(X)\npredict(X)"],
        notes=["pandas or NumPy", "a small file", "of several sites", "as usual"],
        height=130,
    )


@drawing
def your_own_model() -> Sketch:
    return chain(
        [
            "your update\nequations",
            "structure:\nfamilies, prior",
            "natural\nparameters",
            "merge, files,\nnetwork, reports",
        ],
        notes=["you write", "you write", "a fit returns", "come for free"],
        height=130,
    )


@drawing
def your_own_command() -> Sketch:
    sketch = Sketch(120)
    sketch.box(360, 60, 640, 84, "", fill=INK, line=INK)
    for y, words, colour in (
        (36, "$ pip install your-package", "#a9cbe6"),
        (60, "$ decbayes your-command data.csv", "#a9cbe6"),
        (84, "found by its entry point; --help lists it", "white"),
    ):
        sketch.parts.append(
            f'<text x="60" y="{y + 4}" font-size="13" fill="{colour}" font-family="ui-monospace,monospace">'
            f"{words}</text>"
        )
    return sketch


@drawing
def troubleshooting() -> Sketch:
    return chain(["what you see", "likely cause", "how to check", "what to do"], height=90)


@drawing
def stability() -> Sketch:
    """What an upgrade keeps."""
    sketch = Sketch(140)
    for x, name in ((130, "1.0"), (360, "1.1"), (590, "2.0")):
        sketch.box(x, 40, 90, 36, name, fill=BLUE if name != "2.0" else ORANGE)
    sketch.arrow(177, 40, 313, 40)
    sketch.arrow(407, 40, 543, 40)
    sketch.text(245, 92, "minor: names, options\nand files stay", size=12)
    sketch.text(475, 92, "major: removes only names\nthat a warning announced", size=12)
    return sketch


@drawing
def choose() -> Sketch:
    """Questions that lead to a model."""
    sketch = Sketch(190)
    sketch.box(95, 95, 130, 50, "What do your\ndata look like?", fill=BLUE)
    for y, kind, model in (
        (30, "a table, one outcome", "regression"),
        (73, "a table, no outcome", "latent classes"),
        (116, "texts", "topics"),
        (159, "steps in time", "hidden Markov model"),
    ):
        sketch.arrow(162, 95 + (y - 95) * 0.25, 252, y)
        sketch.box(345, y, 180, 32, kind, fill="white", line=GREY)
        sketch.arrow(437, y, 508, y)
        sketch.box(600, y, 176, 32, model)
    return sketch


@drawing
def promises() -> Sketch:
    """Who can do what."""
    sketch = Sketch(190)
    for radius, tint in ((90, "#f6f6f6"), (64, "#e9f1f8"), (38, SHADES[1])):
        sketch.parts.append(f'<circle cx="170" cy="95" r="{radius}" fill="{tint}" stroke="{GREY}" stroke-width="0.6"/>')
    sketch.text(170, 95, "member", size=12)
    sketch.text(170, 44, "neighbour", size=12)
    sketch.text(170, 16, "stranger", size=12)
    for y, words in (
        (40, "a stranger is kept out, and cannot keep members out"),
        (78, "a neighbour cannot freeze others or read sealed messages"),
        (116, "a member cannot count twice, or beyond the charter"),
        (154, "plausible fake data cannot be detected"),
    ):
        sketch.dot(292, y, BLUE if y < 150 else ORANGE, 5)
        sketch.text(306, y, words, size=12.5, anchor="start")
    return sketch


@drawing
def rare_words() -> Sketch:
    """Counts of rare words are shared out."""
    sketch = Sketch(180)
    frequent, rare = [1.3, 1.0, 0.8], [0.35, 0, 0.28, 0, 0, 0.3]
    for x, tail, words in ((70, rare, "counts at the site"), (420, [0.155] * 6, "counts in the file")):
        sketch.bars(x, 130, [*frequent, *tail], [BLUE] * 3 + [ORANGE] * 6, width=20)
        sketch.text(x + 108, 158, words, size=12.5)
        sketch.parts.append(f'<path d="M{x} 130h212" stroke="{GREY}"/>')
    sketch.text(170, 50, "rare words", size=11.5, colour=ORANGE, anchor="start")
    sketch.text(520, 50, "all rare and absent words alike", size=11.5, colour=ORANGE, anchor="start")
    sketch.arrow(305, 90, 400, 90, "shared out")
    return sketch


@drawing
def compared() -> Sketch:
    return table(
        [
            ["", "rounds", "server", "labels", "result"],
            ["decbayes", "one, or more", "none", "aligned", "posterior"],
            ["consensus Monte Carlo", "one", "at the end", "mixed up", "draws"],
            ["partitioned VI", "several", "yes", "by rounds", "posterior"],
            ["federated averaging", "many", "yes", "mixed up", "weights"],
        ],
        [180, 120, 110, 110, 100],
    )


@drawing
def architecture() -> Sketch:
    return chain(
        ["data", "model.fit", "disclosure", "file or\nrecord", "align", "merge", "views"],
        height=130,
        last=False,
        notes=["a site", "a posterior", "what may leave", "signed", "slots", "add up", "reports, plots"],
    )


@drawing
def api() -> Sketch:
    """The parts of the package that people type."""
    sketch = Sketch(170)
    sketch.box(360, 32, 170, 36, "import decbayes as db", fill=BLUE, size=12.5)
    for x, title, names in (
        (100, "fit", "models\ncolumns, texts"),
        (230, "share", "disclosure\nsecure, study"),
        (360, "merge", "merging\nsolvers, streams"),
        (490, "trust", "checking\nintervals"),
        (620, "look", "plot, sklearn\ninterop, network"),
    ):
        sketch.arrow(360 + (x - 360) * 0.3, 51, x, 76)
        sketch.box(x, 116, 118, 76)
        sketch.text(x, 94, title, bold=True, colour=BLUE)
        sketch.text(x, 126, names, size=12)
    return sketch


@drawing
def formats() -> Sketch:
    """A posterior file, from its first byte to its last."""
    sketch = Sketch(130)
    x = 30.0
    for width, words, fill, below in (
        (90, "8 bytes", TINT, "header\nlength"),
        (250, "JSON header", SHADES[1], "names, shapes, places; the key “decbayes”"),
        (160, "contribution", TINT, "numbers, little-endian"),
        (160, "contribution", TINT, "one array per factor"),
    ):
        sketch.box(x + width / 2, 52, width, 48, words, fill=fill)
        sketch.text(x + width / 2, 94, below, size=11)
        x += width
    return sketch


@drawing
def attacks() -> Sketch:
    return chain(["an attack\nthat worked", "a test\nthat fails", "the code\nis fixed", "the test stays"], height=90)


@drawing
def symbols() -> Sketch:
    """The one formula."""
    sketch = Sketch(130)
    for x, words, below in (
        (130, "λ", "merged\nposterior"),
        (290, "λ₀", "shared\nprior"),
        (460, "Σᵢ", "over all\nsites"),
        (590, "(λᵢ − λ₀)", "a site's\ncontribution"),
    ):
        sketch.text(x, 42, words, size=30, colour=BLUE)
        sketch.text(x, 94, below, size=12.5)
    for x, sign in ((210, "="), (375, "+")):
        sketch.text(x, 42, sign, size=26, colour=GREY)
    return sketch


@drawing
def benchmark_data() -> Sketch:
    return chain(
        ["DECBAYES_DATA\na folder", "20news, mnist,\nfaces", "benchmarks,\npaper", "figures"],
        notes=["or --data", "you download them", "read it", "on these pages"],
        height=130,
    )


@drawing
def merging() -> Sketch:
    """Labels differ; slots do not."""
    sketch = Sketch(190)
    orders = {"site 1": (BLUE, ORANGE, GREEN), "site 2": (GREEN, BLUE, ORANGE), "site 3": (ORANGE, GREEN, BLUE)}
    for number, (name, order) in enumerate(orders.items()):
        y = 40 + 55 * number
        sketch.site(80, y, name, order)
        sketch.arrow(138, y, 200, y, "align")
        for slot, shade in enumerate((BLUE, ORANGE, GREEN)):
            sketch.dot(240 + 60 * slot, y, shade, 9)
    for slot, words in enumerate(("slot 0", "slot 1", "slot 2")):
        sketch.text(240 + 60 * slot, 14, words, size=11.5, colour=GREY)
    sketch.arrow(400, 95, 480, 95, "add")
    for slot, shade in enumerate((BLUE, ORANGE, GREEN)):
        sketch.dot(520 + 60 * slot, 95, shade, 16)
    sketch.text(580, 138, "merged: prior + all contributions", size=12.5)
    return sketch


@drawing
def robust() -> Sketch:
    """Sites that disagree are left out."""
    sketch = Sketch(170)
    for number, (name, bad) in enumerate(
        (("site 1", False), ("site 2", False), ("site 3: ×10", True), ("site 4", False))
    ):
        x = 90 + 125 * number
        sketch.site(x, 40, name, (BLUE, GREEN) if not bad else (ORANGE, ORANGE), line=ORANGE if bad else BLUE)
        sketch.arrow(x, 64, 330 + (x - 277) * 0.35, 112, dashed=bad)
    sketch.box(320, 132, 170, 40, "robust merge", fill=BLUE)
    sketch.text(640, 40, "site 3 is named\nin the remarks", size=12, colour=ORANGE)
    sketch.arrow(408, 132, 520, 132)
    sketch.text(610, 132, "close to the merge\nof the honest sites", size=12.5)
    return sketch


@drawing
def streaming() -> Sketch:
    return chain(
        ["Monday", "Tuesday", "Wednesday", "one posterior\nof all days"],
        notes=["fit", "on top of it", "on top of it", "forgetting, if days differ"],
        height=130,
    )


@drawing
def large() -> Sketch:
    """From one core to a cluster: the same bits."""
    return chain(
        ["one core", "all cores", "files larger\nthan memory", "a cluster", "a GPU"],
        height=130,
        last=False,
        notes=["", "the same bits", "the same bits", "the same bits", "to seven digits"],
    )


def command_group(names: Sequence[str]) -> Sketch:
    """The commands of a group, as chips."""
    sketch = Sketch(30 + 40 * -(-len(names) // 4))
    for number, name in enumerate(names):
        x, y = 96 + 176 * (number % 4), 36 + 40 * (number // 4)
        sketch.box(x, y, 166, 30, name, size=13 if len(name) < 22 else 11)
    return sketch


# Three sites that have linked up: the mark of the live page, in shades that read on white and on black.
LOGO = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32">'
    '<path d="M8 9 24 9 16 25Z" fill="none" stroke="#3f8fcb" stroke-width="2"/>'
    '<circle cx="8" cy="9" r="5" fill="#3f8fcb"/><circle cx="24" cy="9" r="5" fill="#d9603b"/>'
    '<circle cx="16" cy="25" r="5" fill="#c79100"/></svg>\n'
)


def write(names: Sequence[str]) -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name in names or DRAWINGS:
        (FOLDER / f"{name}.svg").write_text(DRAWINGS[name]().svg(), encoding="utf-8")
    if not names:
        for title, (_, commands) in groups().items():
            (first, *_), alone = commands, len(commands) == 1
            drawn = command_group([words[-1] for words in commands_below(first)] if alone else commands).svg()
            (FOLDER / f"commands-{title.lower()}.svg").write_text(drawn, encoding="utf-8")
    (FOLDER.parent / "logo.svg").write_text(LOGO, encoding="utf-8")


if __name__ == "__main__":
    write(sys.argv[1:])
