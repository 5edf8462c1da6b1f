"""The terminal: consoles for results and messages, and progress bars."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from decbayes.cli.shared.running import STANDARD_OUTPUT
from decbayes.errors import printable
from decbayes.kernels import announced

if TYPE_CHECKING:  # NumPy and SciPy take longer to load than all that help and errors need
    from decbayes.models.core.ascent import Pass

COMPILING = "compiling, once"
# Text that somebody else wrote, without control characters.
plain = printable


class Output(Console):
    """A console that leaves broken pipes to `main`; rich's would exit with status 1."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


class Messages(Console):
    """A console for texts that may quote others: names of files, columns and members."""

    def print(self, *objects: Any, **options: Any) -> None:
        super().print(*(plain_lines(text) if isinstance(text, str) else text for text in objects), **options)


def plain_lines(text: str) -> str:
    return "\n".join(map(plain, text.split("\n")))


def output() -> Console:
    return Output(markup=False, highlight=False, soft_wrap=True)


def messages() -> Console:
    """The console for everything else, on standard error, so that results can be piped."""
    return Messages(stderr=True, markup=False, highlight=False, soft_wrap=True)


def print_written(path: Path, text: str) -> None:
    """Print one line about a result that was written."""
    messages().print(f"{'standard output' if str(path) == STANDARD_OUTPUT else plain(str(path))}: {text}")


def plural(number: int, one: str, several: str = "") -> str:
    return f"{number:,} {one if number == 1 else several or f'{one}s'}"


class FitBar:
    """Shows a fit's start, pass and bound, the progress of the pass, and the time left."""

    def __init__(self, bar: Progress, starts: int, passes: int) -> None:
        self._bar, self._starts, self._passes = bar, starts, passes
        self._task, self._begun = bar.add_task("fitting", total=starts), monotonic()

    def __call__(self, state: "Pass") -> None:
        now = monotonic()
        most = timedelta(seconds=round((now - self._begun) * max(0, self._passes - state.number)))
        text = f"start {state.restart + 1}, pass {state.number}, bound {state.bound:,.1f}, at most {most} left"
        self._begun = now
        self._bar.update(self._task, completed=min(state.restart, self._starts), total=self._starts, description=text)

    def within(self, done: int, total: int) -> None:
        """Show how many observations this pass has processed."""
        self._bar.update(self._task, completed=done, total=total)

    def compiling(self) -> None:
        """Say so until the next pass ends."""
        self._bar.update(self._task, description=COMPILING)


@contextmanager
def fit_progress(starts: int, passes: int) -> Iterator[FitBar]:
    """A progress bar for a fit, removed at its end."""
    with progress_bar(MofNCompleteColumn(), TimeRemainingColumn()) as bar:
        fit_bar = FitBar(bar, starts, passes)
        with announced(fit_bar.compiling):
            yield fit_bar


@contextmanager
def alignment_progress(sites: int) -> Iterator[Callable[[], None]]:
    """A progress bar that counts matched posteriors, and grows by a round when the last one changed something."""
    with progress_bar() as bar:
        text = f"aligning {sites:,} posteriors"
        task = bar.add_task(text, total=2 * sites)

        def report() -> None:
            bar.update(task, advance=1, description=text)
            (state,) = bar.tasks
            if state.finished:
                bar.update(task, total=state.completed + sites)

        with announced(lambda: bar.update(task, description=COMPILING)):
            yield report


def progress_bar(*further: ProgressColumn) -> Progress:
    """A progress bar on standard error that leaves nothing behind and is silent without a terminal."""
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), *further, TimeElapsedColumn())
    console = messages()
    console.quiet = not console.is_terminal  # some versions of rich end a disabled bar with an empty line
    return Progress(*columns, console=console, transient=True, disable=console.quiet)
