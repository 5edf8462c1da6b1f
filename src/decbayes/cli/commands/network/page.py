"""`decbayes page`: show a recorded page again, or save it as one file."""

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
        Path, Parameter(help="The file written by `--page --record FILE` of an agent, demo or simulation.")
    ],
    /,
    *,
    speed: Annotated[PositiveFloat, Parameter(help="Speed relative to the recording.")] = 1.0,
    out: Annotated[
        Path | None,
        Parameter(name=["--out", "-o"], help="Write the last state as one HTML file instead of showing it again."),
    ] = None,
    port: Annotated[int, Parameter(help="The port of 127.0.0.1; 0 for any free port.")] = 0,
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
