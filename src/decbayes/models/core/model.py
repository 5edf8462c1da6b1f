"""The protocol of a model: everything that streams, the network, the command line and other libraries need."""

import csv
from abc import abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Self

import numpy as np
from numpy.typing import NDArray

from decbayes.base.arguments import Above, Seed, children
from decbayes.columns import Column
from decbayes.errors import CannotDraw, NotCalibrated, NotPrivate, StructureMismatch
from decbayes.families import Array
from decbayes.inputs.chunks import check_again
from decbayes.inputs.large import read_points
from decbayes.inputs.tables import Report
from decbayes.models.core.ascent import Ascent, Fit, OnPass
from decbayes.models.core.information import Tally, nudged_information
from decbayes.models.core.persons import EACH, Persons
from decbayes.models.core.settings import Settings, number_of
from decbayes.models.core.transforms import Observed, Transform, count, in_slices, joined, taken
from decbayes.posterior import Posterior
from decbayes.structure import Structure

if TYPE_CHECKING:
    from decbayes.privacy.accounting import Privacy
    from decbayes.privacy.mechanism import Mechanism, PrivateMerge
    from decbayes.privacy.releasing import Books, Release

Columns = Annotated[str, "Columns to use, separated by commas; all of them if not given."]

Row = Mapping[str, Any]
"""One component in plain values: integers, floats, strings, tuples of strings, vectors."""


def ignore(text: str) -> None:
    """Discard messages."""


@dataclass(frozen=True)
class Model(Settings):
    """Data → posterior → prediction. An immutable value that holds its structure.

    A model is a frozen dataclass whose fields are its settings. `decbayes fit` offers each number or string among them
    as an option, and a charter sets them by name. A subclass must define `described`, `fit`, `log_predictive` and
    `assign`. The rest has defaults that suit models of points.

    `agreed` is the structure of another site's posterior. It replaces the structure that the settings describe, and may
    differ from it only in the prior.

    >>> class Heights(db.models.GaussianMean):
    ...     noun = "height"
    >>> isinstance(Heights(variance=50.0, prior_mean=170.0), db.extending.Model)
    True
    >>> Heights(variance=50.0, prior_mean=170.0).fit([[182.0], [164.0], [175.0]]).posterior.mean("mean").round(1)
    array([[170.2]])
    """

    def for_data(self, data: Any) -> Self:
        """This model, with open settings such as the number of columns taken from the data."""
        return self

    def for_posterior(self, posterior: Posterior) -> Self:
        """This model, with open settings taken from a posterior."""
        return self

    @abstractmethod
    def fit(
        self,
        data: Any,
        *,
        rng: Seed | None = None,
        prior: Posterior | None = None,
        start: Posterior | None = None,
        progress: OnPass | None = None,
    ) -> Fit:
        """Fit the data, on top of `prior` and starting from `start` if given.

        `rng` is a generator or a seed, optional where the result does not depend on it, for example with `start`.
        """

    def fit_site(self, data: Any, *, rng: Seed | None = None, progress: OnPass | None = None) -> Fit:
        """The best posterior to broadcast before a site knows of others: `fit`, for most models."""
        return self.fit(data, rng=rng, progress=progress)

    def site_beliefs(self, posterior: Posterior) -> list[Posterior]:
        """The posterior that a site may have held when it computed its contribution in `fit_site`; usually its own."""
        return [posterior]

    def recentred(self, posteriors: Sequence[Posterior]) -> list[Posterior]:
        """Evaluate first broadcasts where all of them together are, as far as they determine their values there."""
        return list(posteriors)

    def compared(self, posteriors: Sequence[Posterior]) -> list[Posterior]:
        """The posteriors without that in which the model lets sites differ, to see which of them disagree."""
        return list(posteriors)

    def other_units(self, posteriors: Sequence[Posterior]) -> list[tuple[int, str, float]]:
        """Sites that seem to have a column in another unit, that column, and how many times as large its values are."""
        return []

    def sums(self, data: Any, *, least: int, persons: Persons = EACH) -> Mapping[str, Column]:
        """Sums over a site's rows for its list of columns, by name: cells of at least `least` persons."""
        return {}

    def unsettled(self, stated: Collection[str]) -> Self:
        """This model without settings that only the site's data suggest: not `stated`, and to be settled by sums."""
        return self

    def settled(self, sums: Mapping[str, Column]) -> Self:
        """This model with the `summed_settings` that follow from the sums of all sites."""
        return self

    def fit_many(
        self,
        shards: Sequence[Any],
        *,
        rng: Seed | None = None,
        priors: Sequence[Posterior] | None = None,
        starts: Sequence[Posterior] | None = None,
    ) -> list[Fit]:
        """Fit each shard, in parallel as `joblib.parallel_config` says."""
        from joblib import Parallel, delayed

        from decbayes.base.workers import jobs

        none = [None] * len(shards)
        tasks = zip(shards, priors or none, starts or none, children(rng, len(shards)), strict=True)
        fits = (delayed(self.fit)(shard, prior=prior, start=start, rng=child) for shard, prior, start, child in tasks)
        return list(Parallel(n_jobs=jobs(), prefer="threads")(fits))

    @abstractmethod
    def log_predictive(self, posterior: Posterior, data: Any, held: Any = None) -> Array:
        """log p(held | data, posterior), or log p(data | posterior) if nothing is held out: per observation."""

    @abstractmethod
    def assign(self, posterior: Posterior, data: Any) -> Array:
        """(observations, components): how much of each observation each component accounts for."""

    def responsibilities(self, posterior: Posterior, data: Any) -> tuple[Array, Array]:
        """(parts, components) and (parts,): the share of each component in each part of the data, and the weight of a
        part.

        Parts are observations, or words or steps where each of these has its own component.
        """
        shares = self.assign(posterior, data)
        return shares, np.ones(len(shares))

    def draw(self, parameters: Mapping[str, Any], size: int, rng: np.random.Generator) -> tuple[Any, Any]:
        """Draw `size` observations given parameters, and their hidden variables.

        `simulate` draws the parameters, too. Further keyword arguments with explanations become options of `decbayes
        plan` and `decbayes simulate`: `length: Annotated[float, "Mean length of documents."] = 100.0`.
        """
        raise CannotDraw(f"{type(self).__name__} does not say how to draw observations.")

    def with_gaps(self, data: Any, hidden: Any, source: Posterior, rng: np.random.Generator) -> Any:
        """What `draw` returned, with as many missing values as the contribution of a posterior shows.

        Values are missing at random within a column and a component; which ones are missing together is not known.
        """
        return data

    def score(self, posterior: Posterior, data: Any, held: Any = None) -> float:
        """The mean log predictive density, per observation or per held-out word or value."""
        check_again(data)
        return float(np.sum(self.log_predictive(posterior, data, held)) / np.sum(self.units(data, held)))

    def units(self, data: Any, held: Any = None) -> Array:
        """What each observation's log predictive density covers: 1, or the number of held-out words or values."""
        if held is None:
            return np.ones(self.count(data))
        return np.asarray(np.isfinite(held).reshape(len(held), -1).sum(axis=1), dtype=np.float64)

    def describe(self, posterior: Posterior, *, top: int = 10) -> list[Row]:
        """Each component in plain values, most informative first; long rows keep their largest `top` entries."""
        return [*posterior.summary(top=top)]

    @classmethod
    def from_file(
        cls, path: Path, *, columns: Columns = "", report: Report = ignore, **settings: Any
    ) -> tuple[Self, Any]:
        """The model of a file's observations, and the observations."""
        table = read_points(path, split_names(columns))
        names: dict[str, Any] = {"columns": table.columns} if "columns" in cls.__dataclass_fields__ else {}
        return cls(**settings, **names).for_data(table.values), table.values

    @classmethod
    def without_data(
        cls, *, dimension: Annotated[int, "Dimensions of a point.", Above(0)] = 2, **settings: Any
    ) -> Self:
        """The model before there are data, for plans and simulations.

        Keyword arguments replace what data would show; they are options of `decbayes plan` and `decbayes simulate`.
        `dimension` is used only if the model has that setting.
        """
        if "dimension" in cls.__dataclass_fields__:
            settings["dimension"] = dimension
        return cls(**settings)

    def with_words(self, words: Sequence[str]) -> Self:
        """The model over a larger vocabulary, where columns are words."""
        raise ValueError(f"{type(self).__name__} has no vocabulary that could grow.")

    def read(self, path: Path, *, columns: str = "", report: Report = ignore) -> Any:
        """Read the observations of a file in the form this model needs."""
        agreed = getattr(self, "columns", ())
        table = read_points(path, split_names(columns), agreed)
        if agreed and table.columns and table.columns != tuple(agreed):
            raise StructureMismatch(
                f"{path} has the columns {', '.join(table.columns)}; the model has {', '.join(agreed)}."
            )
        return table.values

    def persons(self, path: Any, column: str, **reading_options: Any) -> Persons:
        """The person behind each observation, by a column of the file; `reading_options` are those of `read`."""
        from decbayes.inputs.mixed_tables import read_frame

        return Persons.of(read_frame(path, [column])[column])

    def stream(self, path: Any, *, report: Report = ignore, **reading_options: Any) -> Iterator[Observed]:
        """The observations of a file in blocks; `reading_options` are those of `read`."""
        return in_slices(self.read(path, report=report, **reading_options))

    def transform(self, posterior: Posterior) -> Transform:
        """What `db.models.transform` computes for each observation; by default `assign`."""
        names = tuple(f"{self.noun}_{k}" for k in range(number_of(posterior.structure)))
        return Transform(names, partial(self.assign, posterior))

    def opened(self, data: Any) -> Any:
        """Data, read from a file if a path is given."""
        return self.read(data) if isinstance(data, Path) else data

    def count(self, data: Any) -> int:
        """The number of observations."""
        return count(self.opened(data))

    def restricted(self, data: Any, structure: Structure) -> Any:
        """The data over a structure with fewer columns; only vocabularies can grow."""
        return data

    def taken(self, data: Any, rows: NDArray[np.intp]) -> Any:
        """Selected observations, in that order."""
        return taken(self.opened(data), rows)

    def joined(self, shards: Sequence[Any]) -> Any:
        """Concatenate several shards."""
        return joined([self.opened(shard) for shard in shards])

    def units_of_one(self, most: int) -> tuple[int, int]:
        """The fewest and the most units of one observation, if at most `most` are allowed."""
        return (1, 1) if self.unit == "observation" else (0, most)

    @property
    def terms_to_learn(self) -> int:
        """The number of regression coefficients estimated from the same rows; 0 for other models."""
        return 0

    def pooled(
        self, data: Any, least: int, least_outcome: int, *, agreed: bool, persons: Persons = EACH
    ) -> tuple[Self, Any, list[str]]:
        """Remove values that fewer than `least` persons have from the model and the data; also say what was changed.

        With a yes/no outcome, categories are also rare if fewer than `least_outcome` persons of one outcome have them.
        Columns that are `agreed` keep their categories. `persons` says whom observations are about.
        """
        return self, data, []

    def are_pieces(self, data: Any, persons: Persons) -> bool:
        """Whether a person's observations are pieces of one follow-up: these are independent, given the model."""
        return False

    def presence(self, posterior: Posterior, data: Any, persons: Persons = EACH) -> Array:
        """How many persons each component rests on, each with one observation, document or sequence, or more."""
        return persons.present(self.assign(posterior, data))

    def cells_hidden(
        self, posterior: Posterior, belief: Posterior, data: Any, slots: NDArray[np.intp], least: int, persons: Persons
    ) -> Posterior:
        """Hide counts between components that fewer than `least` persons have.

        `belief` assigns observations to components; `slots` maps its components to those of the posterior.
        """
        return posterior

    def rare_hidden(
        self,
        posterior: Posterior,
        data: Any,
        least: int,
        frequency: Any = (),
        others: Posterior | None = None,
        persons: Persons = EACH,
    ) -> Posterior:
        """Hide what the posterior says about words that occur in fewer than `least` documents.

        `frequency` is the public frequency of each word, if known; `others` is what all other sites have sent.
        """
        return posterior

    def rare_unnamed(self, data: Any, least: int, persons: Persons = EACH) -> Any:
        """Make words that occur in fewer than `least` documents indistinguishable in the data, before a fit."""
        return data

    def rare_evened(
        self, posteriors: Sequence[Posterior], data: Any, least: int, persons: Persons = EACH
    ) -> list[Posterior]:
        """Make words that occur in fewer than `least` documents indistinguishable in the posteriors of all sites."""
        return list(posteriors)

    def tally(self, posterior: Posterior) -> Tally | None:
        """The number of observations in a contribution, by its own numbers; None if the model cannot tell.

        Agents refuse records that contradict it: nobody can claim more evidence than the record states.
        """
        return None

    def contributed(self, posterior: Posterior, data: Any) -> Posterior:
        """λ0 + c(λ): what the data contribute, given a posterior of more data.

        The sum of all sites' contributions at a converged posterior is that posterior.
        """
        # Callers that ask repeatedly pass a one-pass model: another one would describe its structure again each time.
        once: Model = self if self.ascent == Ascent(passes=1) else replace(self, ascent=Ascent(passes=1))
        nothing = Posterior.of_prior(posterior.structure)
        return once.fit(data, prior=nothing, start=posterior).posterior

    def first_refit(self, data: Any, others: Posterior, merged: Posterior) -> tuple[Self, Posterior]:
        """The model for the first refit after a merge, and the posterior it takes from the others; here unchanged."""
        return self, others

    def overstepped(self, before: Posterior, after: Posterior) -> Posterior:
        """What a site publishes in the first round, given its first contribution and its refit; here the refit."""
        return after

    def information(self, posterior: Posterior, data: Any) -> Array:
        """∂c / ∂E[T], (n, n): how the contribution of the data depends on the posterior.

        Rows and columns are the natural parameters of all factors in the structure's order, row by row. Matrices of
        sites add up. They measure the cost of hidden variables: zero where data determine their contribution. This
        default takes differences of `contributed`; models with a formula override it.
        """
        return nudged_information(lambda nudged: self.contributed(nudged, data), posterior)

    def mechanism(self) -> "Mechanism":
        """The private release of this model; raises NotPrivate if there is none.

        >>> db.models.GaussianMean(variance=1.0).mechanism()
        Traceback (most recent call last):
        decbayes.errors.NotPrivate: GaussianMean has no private release: nobody has bounded ...
        """
        raise NotPrivate(
            f"{type(self).__name__} has no private release: nobody has bounded what one record adds to its statistics. "
            "Regressions have one, and mixtures of yes/no and categorical columns, or of one or two columns of numbers."
        )

    def release(
        self,
        anchor: "Posterior | PrivateMerge",
        data: Any,
        privacy: "Privacy",
        *,
        ledger: "Books",
        site: str = "",
        data_set: str = "data",
        persons: Any = None,
    ) -> "Release":
        """This site's private release for the next round; the ledger records its cost before this returns.

        Args:
            anchor: the prior in the first round, then the `private_merge` of all releases so far.
            privacy: the guarantee for each person, over all rounds.
            ledger: the site's record of what has left it, `db.disclosure.Ledger`.
            data_set: whose privacy is spent: each name has its own budget. Use different names for different persons.
            persons: the person behind each row, by name or number, if persons may have several rows.

        >>> columns = {"age": db.columns.Gaussian(centre=50, scale=20), "ill": db.columns.YesNo()}
        >>> model = db.LogisticRegression("ill", columns=columns)
        >>> rng = np.random.default_rng(0)
        >>> patients = {"age": rng.normal(50, 20, 500), "ill": rng.random(500) < 0.3}
        >>> privacy, ledger = db.Privacy(epsilon=1.0, delta=1e-6), db.disclosure.Ledger("site.ledger")
        >>> prior = db.Posterior.of_prior(model.structure)
        >>> release = model.release(prior, patients, privacy, ledger=ledger)
        >>> release.round, len(release.values)
        (0, 5)
        """
        from decbayes.privacy.releasing import released

        Persons.of(persons).check_most(self.count(data), privacy.rows_per_person)
        return released(
            self.structure, self.mechanism(), anchor, self.opened(data), privacy,
            ledger=ledger, model=type(self).__name__, site=site, data_set=data_set,
        )  # fmt: skip

    def risks(self, posterior: Posterior, data: Any) -> Any:
        """Risks, outcomes and expectations, from which `db.checking.Accuracy` is computed."""
        raise NotCalibrated(f"Concordance and calibration are for regressions, not for {type(self).__name__}.")

    def log_likelihoods(self, parameters: Mapping[str, Any], data: Any) -> Iterator[Array]:
        """(draws, observations): log p(x | parameters) for several draws of all parameters, by blocks."""
        raise NotCalibrated(f"{type(self).__name__} does not say how probable data are, given its parameters.")

    @classmethod
    def remedy(cls, first: Structure, second: Structure) -> str:
        """How to make posteriors with these different structures mergeable, as `decbayes merge` prints it.

        Empty if only a new fit helps.
        """
        return ""

    def largest_contribution(self, value: float) -> Mapping[str, Array]:
        """The most that one unit can add to each column of a factor, (1, d), if all numbers are within ±`value`.

        Factors without a known bound are left out.
        """
        return {}


def split_names(text: str) -> list[str]:
    """Names separated by commas; one that has commas itself is in double quotes."""
    rows = csv.reader(text.splitlines(), skipinitialspace=True)
    return [name for row in rows for name in map(str.strip, row) if name]
