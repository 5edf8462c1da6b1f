"""The base of all estimators: rows go to their sites, sites are fitted on their own, and posteriors are merged."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, column_or_1d

from decbayes.base.arguments import check_kind, check_whole
from decbayes.errors import InvalidData
from decbayes.merging import merge
from decbayes.merging.base.problem import Number
from decbayes.models.core.ascent import Ascent, Fit
from decbayes.models.core.model import Model
from decbayes.models.core.points import check_structure
from decbayes.models.core.settings import number_of
from decbayes.posterior import Posterior
from decbayes.streams import epochs, refine
from decbayes.updates.forgetting import Forgetting, checked_forgetting

ONE_SITE = "all"
"""The site of rows without a label."""


@dataclass(eq=False, repr=False)
class Sited(BaseEstimator, ABC):  # type: ignore[misc]
    """An estimator of rows from several sites.

    A subclass turns rows into the data of its model (`_read`), and makes this model (`_make_model`).

    Fitted: `posterior_`, the merged posterior; `posteriors_`, that of each site by its label; `model_`, their model;
    `n_iter_`, the largest number of passes at a site; `converged_`, whether all sites converged.
    """

    _: KW_ONLY
    max_iter: int
    tol: float
    rounds: int = 0
    forgetting: Forgetting = None
    random_state: Any = None
    model_: Model = field(init=False)

    def fit(self, X: Any, y: Any = None, sites: Any = None) -> Self:
        """Fit the rows of each site on their own, and merge the posteriors.

        `sites` has a label per row, or is one label for all; without it all rows are of one site. With `rounds`, each
        site is then refitted that many times, with the contributions of the others as its prior.
        """
        check_whole(0, rounds=self.rounds)
        given = self._read(X, y, reset=True)
        self.model_ = self._make_model(given)
        return self._learn(self._as_data(given), sites, {})

    def partial_fit(self, X: Any, y: Any = None, sites: Any = None) -> Self:
        """Add rows, to their site or, with a new label, as a new site.

        Components keep their numbers, as far as they can be followed. Nothing is refined, because earlier rows are not
        kept. With `forgetting`, each call is a new epoch that forgets this share of what was learned before, or, with
        "learn", what the new rows contradict. `posteriors_` then has one posterior, that of all epochs.
        """
        if not hasattr(self, "posteriors_"):
            return self.fit(X, y, sites)
        data = self._as_data(self._read(X, y, reset=False))
        if checked_forgetting(self.forgetting) is not None:
            return self._new_epoch(data, sites)
        return self._learn(data, sites, self.posteriors_)

    def holding(self, posterior: Posterior) -> Self:
        """A fitted copy with another posterior of the same model, such as a merge with those of other places."""
        check_is_fitted(self)
        check_kind(Posterior, posterior=posterior)
        model = self.model_
        check_structure(posterior, model.structure_for(posterior) if model.auto else model.structure, "posterior")
        other = copy(self)
        other.posterior_, other.posteriors_ = posterior, {ONE_SITE: posterior}
        return other

    @abstractmethod
    def _read(self, X: Any, y: Any, *, reset: bool) -> Any:
        """Checked rows; with `reset` they define what later rows must look like."""

    @abstractmethod
    def _make_model(self, given: Any) -> Model:
        """The model for such rows."""

    def _as_data(self, given: Any) -> Any:
        """Rows as `model_` takes them."""
        return given

    def _ascent(self, **settings: Any) -> Ascent:
        return Ascent(self.max_iter, self.tol, **settings)

    def _new_rows(self, X: Any) -> Any:
        """New rows for a fitted model, with an unknown target."""
        check_is_fitted(self)
        return self._as_data(self._read(X, None, reset=False))

    def _learn(self, data: Any, sites: Any, earlier: Mapping[Any, Posterior]) -> Self:
        shards, rng = by_site(data, sites), generator(self.random_state)
        fits = fits_of(self.model_, shards, earlier, rng)
        posteriors = self._with_common_prior({**earlier, **{site: fit.posterior for site, fit in fits.items()}})
        if self.rounds and not earlier:
            posteriors = dict(zip(posteriors, self._refine(shards, list(posteriors.values()), rng), strict=True))
        self.posterior_ = self._merge(list(posteriors.values()), getattr(self, "posterior_", None) if earlier else None)
        self.posteriors_ = posteriors
        self.n_iter_ = max(len(fit.bound) for fit in fits.values())
        self.converged_ = all(fit.converged for fit in fits.values())
        return self

    def _with_common_prior(self, posteriors: dict[Any, Posterior]) -> dict[Any, Posterior]:
        """The posteriors of sites, on a common prior; most models have a fixed one."""
        return posteriors

    def _new_epoch(self, data: Any, sites: Any) -> Self:
        shards, model = list(by_site(data, sites).values()), self.model_
        sized = model.sized(number_of(self.posterior_.structure)) if model.auto else model
        epoch_posteriors = epochs(
            sized, [shards], start=self.posterior_, forgetting=self.forgetting, rng=generator(self.random_state)
        )
        self.posterior_ = next(epoch_posteriors)
        self.posteriors_ = {ONE_SITE: self.posterior_}
        return self

    def _merge(self, posteriors: Sequence[Posterior], since: Posterior | None) -> Posterior:
        components: Number = "auto" if self.model_.auto and len(posteriors) > 1 else "largest"
        followed = since if self.model_.structure.symmetry else None
        return merge(posteriors, components=components, since=followed, duplicates="allow")

    def _refine(
        self, shards: Mapping[Any, Any], posteriors: Sequence[Posterior], rng: np.random.Generator
    ) -> Sequence[Posterior]:
        if len(posteriors) == 1:
            return posteriors
        return refine(self.model_, shards.values(), posteriors, rounds=self.rounds, rng=rng).posteriors


def broadcasts(model: Model) -> bool:
    """Whether a site's first broadcast differs from its fit."""
    return type(model).fit_site is not Model.fit_site


def fits_of(
    model: Model, shards: Mapping[Any, Any], earlier: Mapping[Any, Posterior], rng: np.random.Generator
) -> dict[Any, Fit]:
    """Fit each site's rows, on top of what the site has learned before."""
    new = [site for site in shards if site not in earlier]
    if broadcasts(model) and len({*shards, *earlier}) > 1:
        fits = {site: model.fit_site(shards[site], rng=rng) for site in new}
    else:
        fits = dict(zip(new, model.fit_many([shards[site] for site in new], rng=rng), strict=True))
    for site in shards.keys() & earlier.keys():
        fits[site] = model.fit(shards[site], prior=earlier[site], start=earlier[site], rng=rng)
    return fits


def by_site(data: Any, sites: Any) -> dict[Any, Any]:
    """The rows of each label, in the order of labels."""
    count = data.shape[0]
    if sites is None or np.ndim(sites) == 0:
        return {ONE_SITE if sites is None else sites: data}
    labels = column_or_1d(sites)
    if len(labels) != count:
        raise ValueError(f"There are {count} rows and {len(labels)} sites; each row needs the label of its site.")
    return {label: data[np.flatnonzero(labels == label)] for label in distinct_labels(labels)}


def distinct_labels(labels: Any) -> list[Any]:
    try:
        missing = any(label is None or bool(label != label) for label in labels)
        names: list[Any] = np.unique(labels[:0] if missing else labels).tolist()
    except TypeError:  # pandas.NA has no truth value, and strings and numbers have no order
        names = []
    if not names:
        raise InvalidData("Each row needs the label of its site: all strings or all numbers, and none missing.")
    return names


def generator(random_state: Any) -> np.random.Generator:
    """A NumPy generator, seeded by scikit-learn's `random_state`."""
    return np.random.default_rng(check_random_state(random_state).randint(2**31 - 1, size=4))
