"""What commands share of the terminal: two consoles, and bars for fits and alignments."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from decbayes.models.ascent import OnPass, Pass


class Output(Console):
    """A console that leaves it to `main` what happens when the reader has had enough; rich's exits with status 1."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


def output() -> Console:
    """Results, on standard output."""
    return Output(markup=False, highlight=False, soft_wrap=True)


def messages() -> Console:
    """Everything else, on standard error, so that results can be piped."""
    return Console(stderr=True, markup=False, highlight=False, soft_wrap=True)


def plain(text: str) -> str:
    """Text from a file that somebody else wrote, without the characters that steer a terminal."""
    return text if text.isprintable() else ascii(text)


@contextmanager
def fitting(starts: int) -> Iterator[OnPass]:
    """A bar over the starts of a fit, which shows the pass and the bound; it is gone when the fit ends."""
    with progress_bar() as bar:
        task = bar.add_task("fitting", total=starts)

        def report(state: Pass) -> None:
            text = f"start {state.restart + 1}, pass {state.number}, bound {state.bound:,.1f}"
            bar.update(task, completed=min(state.restart, starts), description=text)

        yield report


@contextmanager
def aligning(sites: int) -> Iterator[Callable[[], None]]:
    """A bar that counts how often a posterior was matched, and grows by a round when the last one changed something."""
    with progress_bar() as bar:
        task = bar.add_task(f"aligning {sites:,} posteriors", total=2 * sites)

        def report() -> None:
            bar.advance(task)
            (state,) = bar.tasks
            if state.finished:
                bar.update(task, total=state.completed + sites)

        yield report


def progress_bar() -> Progress:
    """A bar on standard error that leaves nothing behind, and prints nothing where there is no terminal."""
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    console = messages()
    console.quiet = not console.is_terminal  # some versions of rich end a disabled bar with an empty line
    return Progress(*columns, console=console, transient=True, disable=console.quiet)
