"""StepMix's mixtures of mixed columns as posteriors of `LatentClasses`.

StepMix maximises the likelihood; it has no prior and no posterior. But given its class memberships, the posterior is
exact.
"""

from typing import Any

from decbayes.base.extras import require
from decbayes.errors import NotConvertible
from decbayes.models.tables.latent_classes import LatentClasses
from decbayes.posterior import Posterior

# StepMix's names for the factors of columns, in the order in which it expects them here.
FACTORS = {"categorical": "categorical_nan", "yes_no": "binary_nan", "real": "continuous_nan"}


def from_stepmix(estimator: Any, model: LatentClasses, data: Any) -> Posterior:
    """The posterior of the data, with the classes of a fitted StepMix: λ0 + Σ_n r_n t(x_n), r from `predict_proba`.

    `estimator` must have been fitted to `stepmix_data(model, data)`; `model` must have as many classes.

    >>> from stepmix.stepmix import StepMix
    >>> rng = np.random.default_rng(0)
    >>> data = {"age": rng.normal(np.repeat([30.0, 80.0], 50), 5.0)}
    >>> model = db.LatentClasses.from_frame(data, components=2)
    >>> frame, measurement = db.interop.stepmix_data(model, data)
    >>> estimator = StepMix(2, measurement=measurement, n_init=5, random_state=0, progress_bar=0).fit(frame)
    >>> posterior = db.interop.from_stepmix(estimator, model, data)
    >>> sorted(round(row["mean"]) for row in model.profiles(posterior))
    [31, 80]
    """
    if estimator.n_components != model.components:
        raise NotConvertible(f"StepMix has {estimator.n_components} classes, the model {model.components}.")
    return model.from_assignments(data, estimator.predict_proba(stepmix_data(model, data)[0]))


def stepmix_data(model: LatentClasses, data: Any) -> tuple[Any, dict[str, Any]]:
    """The data as StepMix takes them, and its description of the columns: `StepMix(…, measurement=…)`.

    `model` has the kinds of the columns of `data`. Categories are numbers; columns of one kind are next to each other.

    >>> import stepmix
    >>> data = {"ward": ["a", "b", "a"], "age": [30.5, 80.5, 20.5]}
    >>> frame, measurement = db.interop.stepmix_data(db.LatentClasses.from_frame(data, components=2), data)
    >>> measurement["continuous_nan"]
    {'model': 'continuous_nan', 'n_columns': 1}
    """
    pandas = require("pandas", extra="stepmix", task="StepMix")
    frame, columns_by_kind = pandas.DataFrame(model.points(data), columns=list(model.columns)), columns_by_factor(model)
    measurement = {kind: {"model": kind, "n_columns": len(names)} for kind, names in columns_by_kind.items()}
    return frame[[name for names in columns_by_kind.values() for name in names]], measurement


def columns_by_factor(model: LatentClasses) -> dict[str, list[str]]:
    """The columns of each factor, by StepMix's name for it."""
    factors = {name: column.factor for name, column in model.columns.items()}
    others = [name for name, factor in factors.items() if factor not in FACTORS]
    if others:
        raise NotConvertible(f"StepMix does not support counts: {', '.join(others)}.")
    columns_by_factor = {kind: [name for name, factor in factors.items() if factor == kind] for kind in FACTORS}
    return {FACTORS[kind]: names for kind, names in columns_by_factor.items() if names}
