"""`decbayes bench`: the benchmarks of a checkout."""

import subprocess
import sys
from pathlib import Path

RUNNER = Path("benchmarks") / "run_all.py"


def bench(*, only: str = "", quick: bool = False, checkout: Path = Path()) -> None:
    """Run the benchmarks.

    Parameters
    ----------
    only:
        Benchmarks whose name contains this.
    quick:
        Small sizes, under a minute each.
    checkout:
        A clone of the repository; benchmarks are not part of the installed library.
    """
    if not (checkout / RUNNER).is_file():
        raise FileNotFoundError(
            f"There is no {checkout / RUNNER}. Benchmarks are in the repository, not in the installed library: "
            "run this in a clone of it, or name one with --checkout."
        )
    words = [sys.executable, str(RUNNER), *(["--quick"] if quick else []), *(["--only", only] if only else [])]
    sys.exit(subprocess.run(words, cwd=checkout, check=False).returncode)
