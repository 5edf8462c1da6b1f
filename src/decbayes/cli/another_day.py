"""`decbayes fit --prior … --forgetting …`: another day of a world that changes."""

from typing import Any

import numpy as np

from decbayes.cli.terminal import many, messages
from decbayes.models.model import Model
from decbayes.posterior import Posterior
from decbayes.streaming import epochs
from decbayes.updates.forgetting import Forgetting
from decbayes.updates.rounds import Sent


def another_day(
    model: Model, observations: Any, before: Sent, forgetting: Forgetting, seed: int
) -> tuple[Posterior | None, str]:
    """The posterior of the new data and of what is left of the earlier ones, if there are any, and what that is."""
    if not np.sum(model.units(observations)):
        return None, ""
    rng = np.random.default_rng(seed)
    with messages().status("fitting, and finding out what still holds" if forgetting == "learn" else "fitting"):
        found = next(epochs(model, [[observations]], start=before.posterior, forgetting=forgetting, rng=rng))
    what = "what still holds" if forgetting == "learn" else f"{1.0 - float(forgetting or 0.0):.0%}"
    return found, f"{many(model.count(observations), 'new observation')} on top of {what} of the earlier data"
