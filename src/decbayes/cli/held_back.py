"""How well posteriors predict data that an agent's site holds back."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from decbayes.cli.running import WrongArgument
from decbayes.cli.terminal import messages
from decbayes.models.holdback import hold_back
from decbayes.models.holdout import hold_out
from decbayes.models.registry import model_for
from decbayes.page.describing import LEAST

if TYPE_CHECKING:
    from decbayes.network import Charter
    from decbayes.network.runtime.watching import Score


def scorer(charter: "Charter", shards: Sequence[Any], path: Path | None, seed: int) -> "Score | None":
    """The mean log density of a file's observations, or of those that the charter has every site hold back.

    None where there are none, or so few that a score would tell about single ones.
    """
    model, share = charter.model, charter.rules.validation
    if path is None and not (share and shards):
        return None
    if path is not None:
        observations = model.read(path, report=messages().print)
    else:
        observations = model.joined([hold_back(model, shard, share=share)[1] for shard in shards])
    if model.count(observations) < LEAST:
        if path is not None:
            raise WrongArgument(f"{path} holds too few observations to tell their score; give {LEAST:.0f} or more.")
        return None
    held = None
    if model.in_parts:
        observations, held = hold_out(observations, share=0.1, rng=np.random.default_rng(seed))
    return lambda posterior: model_for(posterior.structure).score(posterior, observations, held)
