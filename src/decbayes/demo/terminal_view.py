"""The present state of the group: a live table in a terminal, plain lines elsewhere."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from decbayes.demo.digits import SITES
from decbayes.demo.events import Events, Watched

STYLES = {"up": "green", "killed": "red", "starting": "yellow"}
BAR = 24


@contextmanager
def show_live(events: Events, console: Console) -> Iterator[None]:
    """Show the events while they happen."""
    if not console.is_terminal:
        events.show = plain_lines(events, console)
        yield
        return
    with Live(console=console, auto_refresh=False) as live:
        events.show = lambda: live.update(live_table(events), refresh=True)
        yield


def plain_lines(events: Events, console: Console) -> Callable[[], None]:
    """A function that prints what is new since its last call, one line each."""
    last_counts: dict[str, int] = {}
    printed = 0

    def show() -> None:
        nonlocal printed
        for event in events.story.events[printed:]:
            console.print(f"{event.seconds:5.1f} s  {event.text}")
        printed = len(events.story.events)
        for agent in events.live:
            if agent.score is not None and last_counts.get(agent.site) != len(agent.heard):
                last_counts[agent.site] = len(agent.heard)
                count = f"{len(agent.heard)} of {len(SITES)}"
                console.print(f"{events.story.seconds:5.1f} s  {agent.site} has heard of {count}: {agent.score:.2f}")

    return show


def live_table(events: Events) -> Group:
    """One row per site: its state, the sites it has heard of, and the score of its merged posterior."""
    story = events.story
    table = Table(title=f"{story.seconds:4.0f} s", title_justify="left", box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("site")
    table.add_column("state", width=13)
    table.add_column("has heard of", width=2 * len(SITES))
    table.add_column("log density of a held-out image", no_wrap=True)
    lowest = min((point.score for point in story.points), default=0.0)
    for agent in events.watched.values():
        table.add_row(
            agent.site, Text(agent.state, STYLES.get(agent.state, "dim")), heard_dots(agent), bar(agent, lowest, events)
        )
    table.add_row("batch", Text("in one place", "dim"), "", Text(f"{'━' * BAR} {story.digits.batch_score:.2f}", "dim"))
    recent = [Text(f"{event.seconds:5.1f} s  {event.text}", "dim") for event in story.events[-4:]]
    return Group(table, "", *recent)


def heard_dots(agent: Watched) -> Text:
    dots = Text()
    for site in SITES:
        dots.append("● " if site in agent.heard else "· ", "green" if site in agent.heard else "dim")
    return dots


def bar(agent: Watched, lowest: float, events: Events) -> Text:
    """How far the score has come from the group's worst towards the batch posterior's."""
    if agent.score is None:
        return Text("")
    share = (agent.score - lowest) / max(events.story.digits.batch_score - lowest, 1e-9)
    length = round(BAR * min(max(share, 0.02), 1.0))
    style = "dim" if agent.inquiry is None else "blue"
    return Text("━" * length + " " * (BAR - length) + f" {agent.score:.2f}", style)
