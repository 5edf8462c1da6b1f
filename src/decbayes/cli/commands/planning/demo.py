"""`decbayes demo`: eight agents learn handwritten digits; one is killed, one joins late, and all agree."""

import signal
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter
from cyclopts.types import NonNegativeInt

from decbayes.base.extras import require_extra
from decbayes.cli.shared.common_options import PageOption, Record, linger, live_page
from decbayes.cli.shared.standard_streams import json_option, print_json

if TYPE_CHECKING:
    from decbayes.cli.shared.terminal import Output
    from decbayes.demo.events import Events


def demo(
    *,
    seed: Annotated[NonNegativeInt, Parameter(help="Random seed: decides which images each site has.")] = 0,
    out: Annotated[Path, Parameter(help="Folder for the picture.")] = Path("demo"),
    page: PageOption = None,
    record: Record = None,
    as_json: Annotated[bool, json_option("demonstration", "scores", "picture")] = False,
) -> None:
    """Run the agents, show them, and draw the result."""
    require_extra(*(["demo"] if page is None else ["demo", "page"]), task="decbayes demo")
    from decbayes.cli.shared.terminal import Output
    from decbayes.demo.digits import Digits, Story
    from decbayes.demo.events import Events, prepare
    from decbayes.demo.picture import draw

    out.mkdir(parents=True, exist_ok=True)
    # SIGTERM cleans up like Ctrl-C; the agents end with this process anyway.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    console = Output(highlight=False, stderr=as_json)
    console.print("Eight sites hold 100 handwritten digits each. They share posteriors, never images.")
    digits = Digits.load(seed)
    _ = digits.batch_score
    target = out / "digits.png"
    with TemporaryDirectory(prefix="decbayes-demo-") as folder, prepare(Path(folder), digits) as party:
        story = Story(digits)
        play(Events(party, story), page, record, console)
    scores = draw(story, target)
    if as_json:
        print_json({"scores": scores, "picture": target})
    else:
        print_scores(scores, target, console)


def play(events: "Events", page: list[str] | None, record: Path | None, console: "Output") -> None:
    """Run the agents, shown in the terminal and on a page if there is one."""
    from decbayes.demo.page import Broadcast
    from decbayes.demo.terminal_view import show_live

    try:
        with show_live(events, console), live_page(page, console, record) as live:
            if live is not None:
                in_terminal, on_page = events.show, Broadcast(live, events)

                def show() -> None:
                    in_terminal()
                    on_page()

                events.show = show
            events.run()
            if live is not None:
                linger(live, console, "Finished: all sites agree.")
    finally:
        events.close()


def print_scores(scores: Mapping[str, float], target: Path, console: "Output") -> None:
    console.print("\nMean log density per held-out image:")
    for name, score in scores.items():
        console.print(f"  {name:<22} {score:9.2f}")
    console.print("AMPS merges the first broadcasts; refined is the posterior that the sites agree on in the end.")
    console.print(f"\nPicture: {target}")
