"""`decbayes fit --prior … --forgetting …`: another day of a world that changes."""

from pathlib import Path
from typing import Any

import numpy as np

from decbayes.cli.running import WrongArgument
from decbayes.cli.terminal import messages
from decbayes.files import save
from decbayes.models.model import Model
from decbayes.streaming import epochs
from decbayes.updates.forgetting import Forgetting, checked_forgetting
from decbayes.updates.rounds import Sent


def another_day(model: Model, observations: Any, before: Sent, forgetting: Forgetting, output: Path, seed: int) -> None:
    """Write the posterior of the new data and of what is left of the earlier ones; interrupted, it writes nothing."""
    try:
        forgets = checked_forgetting(forgetting)
    except ValueError as error:
        raise WrongArgument(str(error)) from None
    rng = np.random.default_rng(seed)
    with messages().status("fitting, and finding out what still holds" if forgets == "learn" else "fitting"):
        found = next(epochs(model, [[observations]], start=before.posterior, forgetting=forgets, rng=rng))
    save(found, output, note={"holds": sorted(before.data)})
    what = "what still holds" if forgets == "learn" else f"{1.0 - float(forgets or 0.0):.0%}"
    messages().print(f"{output}: {model.count(observations):,} new observations on top of {what} of the earlier data")
