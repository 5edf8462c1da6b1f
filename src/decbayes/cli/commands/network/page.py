"""`decbayes page`: a recorded page, shown again or saved as one file."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from cyclopts.types import PositiveFloat

from decbayes.base.extras import require_extra
from decbayes.base.writing import write_whole
from decbayes.cli.shared.common_options import linger
from decbayes.cli.shared.outputs import check_output
from decbayes.cli.shared.terminal import messages, print_written


def page(
    recording: Annotated[
        Path, Parameter(help="What `--page --record FILE` of an agent, demo or simulation has written.")
    ],
    /,
    *,
    speed: Annotated[PositiveFloat, Parameter(help="How many times as fast as it happened.")] = 1.0,
    out: Annotated[
        Path | None,
        Parameter(name=["--out", "-o"], help="Write the last state as one HTML file instead of showing it again."),
    ] = None,
    port: Annotated[int, Parameter(help="The port of 127.0.0.1 to show it at; 0 is any free one.")] = 0,
) -> None:
    """Show a recorded page again, or save its last state."""
    require_extra("page", task="decbayes page")
    from decbayes.page import PageAddress
    from decbayes.page.replaying import LAST, Replay, last_state

    check_output(out, recording)
    if out is not None:
        write_whole(out, last_state(recording).encode())
        print_written(out, "the last state of the page")
        return
    replay = Replay(recording, PageAddress(port=port), speed)
    console = messages()
    console.print(f"Page: {replay.page.url}")
    try:
        replay.run()
        linger(replay.page, console, LAST)
    finally:
        replay.page.close()
