"""`decbayes score`: how well posteriors predict data that they have not seen."""

from pathlib import Path
from typing import Annotated, Any

import numpy as np
from cyclopts import Parameter
from cyclopts.validators import Number
from rich.table import Table

from decbayes.cli.documents import read_documents
from decbayes.cli.fit import points
from decbayes.cli.terminal import messages, output
from decbayes.errors import InvalidData
from decbayes.files import load
from decbayes.models.holdout import hold_out
from decbayes.models.lda import LatentDirichletAllocation
from decbayes.models.mean import GaussianMean
from decbayes.models.mixture import GaussianMixture
from decbayes.models.registry import Shipped, model_for
from decbayes.posterior import Posterior


def score(
    data: Annotated[Path, Parameter(help="Data of the kind that was fitted, in any of its formats.")],
    posteriors: Annotated[list[Path], Parameter(negative="", help="The posterior files to compare.")],
    /,
    *,
    columns: Annotated[
        str, Parameter(help="Columns to use, separated by commas; the posterior's if it names them.")
    ] = "",
    held_out: Annotated[float, Parameter(help="Topics, features: the share of each observation to predict.")] = 0.1,
    seed: Annotated[int, Parameter(validator=Number(gte=0), help="Topics, features: which part that is.")] = 0,
) -> None:
    """Print each posterior's mean log predictive density of held-out data; higher is better."""
    if not posteriors:
        raise InvalidData("Name the posteriors to score after the data.")
    table = Table("posterior", "log predictive", box=None)
    for path in posteriors:
        posterior = load(path)
        model = model_for(posterior.structure)
        with messages().status(f"scoring {path}"):
            value = predictive(model, posterior, data, columns, held_out, np.random.default_rng(seed))
        table.add_row(str(path), f"{value:.4f}")
    output().print(table)


def predictive(
    model: Shipped, posterior: Posterior, data: Path, columns: str, share: float, rng: np.random.Generator
) -> float:
    if isinstance(model, LatentDirichletAllocation):
        observed, held = hold_out(read_documents(data, model.vocabulary).counts, share=checked(share), rng=rng)
        return model.log_predictive(posterior, observed, held)
    values: Any = points(data, columns, posterior.structure.labels.get("components", ())).values
    if isinstance(model, GaussianMean | GaussianMixture):
        return float(model.log_predictive(posterior, values).mean())
    observed, held = hold_out(values, share=checked(share), rng=rng)
    return model.log_predictive(posterior, observed, held)


def checked(share: float) -> float:
    if not 0.0 < share < 1.0:
        raise InvalidData(f"--held-out is a share between 0 and 1, not {share:g}.")
    return share
