"""What a model is: everything that streaming, the network, the command line and other libraries need of one."""

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
    """Nobody wants to know."""


@dataclass(frozen=True)
class Model(Settings):
    """Data → posterior → prediction. An immutable value that holds its structure.

    A model is a frozen dataclass whose fields are its settings: `decbayes fit` offers each that is a number or a string
    as an option, and a charter sets them by name. What a subclass must say is `agreement`, `fit`, `log_predictive` and
    `assign`. The rest has defaults that suit models of points.

    `agreed` is the structure of somebody else's posterior. It takes the place of the one that the settings describe,
    and may differ from it in the prior alone.

    >>> class Heights(db.models.GaussianMean):
    ...     noun = "height"
    >>> isinstance(Heights(variance=50.0, prior_mean=170.0), db.extending.Model)
    True
    >>> Heights(variance=50.0, prior_mean=170.0).fit([[182.0], [164.0], [175.0]]).posterior.mean("mean").round(1)
    array([[170.2]])
    """

    def for_data(self, data: Any) -> Self:
        """This model, with whatever it leaves open taken from the data, such as the number of columns."""
        return self

    def for_posterior(self, posterior: Posterior) -> Self:
        """The same, taken from a posterior."""
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
        """The posterior of the data, on top of `prior` if given, starting from `start` if given.

        `rng` is a generator or a seed; it may be left out where the result does not depend on it, as with `start`.
        """

    def fit_site(self, data: Any, *, rng: Seed | None = None, progress: OnPass | None = None) -> Fit:
        """The posterior of a site's data that is best to broadcast, before it knows of others: of most models `fit`."""
        return self.fit(data, rng=rng, progress=progress)

    def site_beliefs(self, posterior: Posterior) -> list[Posterior]:
        """What a site may have believed when it computed its contribution in `fit_site`: mostly itself."""
        return [posterior]

    def recentred(self, posteriors: Sequence[Posterior]) -> list[Posterior]:
        """First broadcasts, each moved to where all of them together are, as far as they tell what they are there."""
        return list(posteriors)

    def sums(self, data: Any, *, least: int, persons: Persons = EACH) -> Mapping[str, Column]:
        """Sums over a site's rows for its list of columns, by name: cells of at least `least` persons."""
        return {}

    def unsettled(self, stated: Collection[str]) -> Self:
        """This model without what a site's data alone suggest, where nobody has `stated` it and sums will settle it."""
        return self

    def settled(self, sums: Mapping[str, Column]) -> Self:
        """This model, with the `summed_settings` that the sums of all sites make."""
        return self

    def fit_many(
        self,
        shards: Sequence[Any],
        *,
        rng: Seed | None = None,
        priors: Sequence[Posterior] | None = None,
        starts: Sequence[Posterior] | None = None,
    ) -> list[Fit]:
        """A fit of each shard, as many at a time as `joblib.parallel_config` says."""
        from joblib import Parallel, delayed

        from decbayes.base.workers import jobs

        tasks = zip(shards, each(priors, shards), each(starts, shards), children(rng, len(shards)), strict=True)
        fits = (delayed(self.fit)(shard, prior=prior, start=start, rng=child) for shard, prior, start, child in tasks)
        return list(Parallel(n_jobs=jobs(), prefer="threads")(fits))

    @abstractmethod
    def log_predictive(self, posterior: Posterior, data: Any, held: Any = None) -> Array:
        """log p(held | data, posterior), or log p(data | posterior) where nothing is held out: per observation."""

    @abstractmethod
    def assign(self, posterior: Posterior, data: Any) -> Array:
        """(observations, components): how much of each observation each component accounts for."""

    def responsibilities(self, posterior: Posterior, data: Any) -> tuple[Array, Array]:
        """(parts, components) and (parts,): which component accounts for each part of the data, and what a part counts.

        Parts are observations, or what these consist of where each has a component of its own: words, steps.
        """
        shares = self.assign(posterior, data)
        return shares, np.ones(len(shares))

    def draw(self, parameters: Mapping[str, Any], size: int, rng: np.random.Generator) -> tuple[Any, Any]:
        """So many observations, given parameters as the families draw them, and what is hidden behind each.

        `simulate` draws the parameters, too. Further keyword arguments are options of `decbayes plan` and `decbayes
        simulate` if their annotations explain them: `length: Annotated[float, "Mean length of documents."] = 100.0`.
        """
        raise CannotDraw(f"{type(self).__name__} does not say how to draw observations.")

    def score(self, posterior: Posterior, data: Any, held: Any = None) -> float:
        """The mean log predictive density: per observation, or per word or value that was held out."""
        check_again(data)
        return float(np.sum(self.log_predictive(posterior, data, held)) / np.sum(self.units(data, held)))

    def units(self, data: Any, held: Any = None) -> Array:
        """How much each observation's log predictive density is about: 1, or the words or values that are held out."""
        if held is None:
            return np.ones(self.count(data))
        return np.asarray(np.isfinite(held).reshape(len(held), -1).sum(axis=1), dtype=np.float64)

    def describe(self, posterior: Posterior, *, top: int = 10) -> list[Row]:
        """Each component in plain values, the most informative first; of long rows only the largest `top` entries."""
        return [*posterior.summary(top=top)]

    @classmethod
    def from_file(
        cls, path: Path, *, columns: Columns = "", report: Report = ignore, **settings: Any
    ) -> tuple[Self, Any]:
        """The model of a file's observations, and these."""
        table = read_points(path, split_names(columns))
        names: dict[str, Any] = {"columns": table.columns} if "columns" in cls.__dataclass_fields__ else {}
        return cls(**settings, **names).for_data(table.values), table.values

    @classmethod
    def without_data(
        cls, *, dimension: Annotated[int, "Dimensions of a point.", Above(0)] = 2, **settings: Any
    ) -> Self:
        """The model before there are data, for plans and simulations: what data would show is given instead.

        Its keyword arguments are options of `decbayes plan` and `decbayes simulate`; `dimension` only where the model
        has a setting of that name.
        """
        if "dimension" in cls.__dataclass_fields__:
            settings["dimension"] = dimension
        return cls(**settings)

    def with_words(self, words: Sequence[str]) -> Self:
        """The model over more words than it counts, where columns are words."""
        raise ValueError(f"{type(self).__name__} has no vocabulary that could grow.")

    def read(self, path: Path, *, columns: str = "", report: Report = ignore) -> Any:
        """The observations of a file, as this model needs them."""
        agreed = getattr(self, "columns", ())
        table = read_points(path, split_names(columns), agreed)
        if agreed and table.columns and table.columns != tuple(agreed):
            raise StructureMismatch(
                f"{path} has the columns {', '.join(table.columns)}; the model has {', '.join(agreed)}."
            )
        return table.values

    def persons(self, path: Any, column: str, **reading_options: Any) -> Persons:
        """Whom each observation of a file is about, by a column of the file; `reading_options` are those of `read`."""
        from decbayes.inputs.mixed_tables import read_frame

        return Persons.of(read_frame(path, [column])[column])

    def stream(self, path: Any, *, report: Report = ignore, **reading_options: Any) -> Iterator[Observed]:
        """The observations of a file, some at a time; `reading_options` are those of `read`."""
        return in_slices(self.read(path, report=report, **reading_options))

    def transform(self, posterior: Posterior) -> Transform:
        """What the posterior says of each observation, for `db.models.transform`: by default what `assign` does."""
        names = tuple(f"{self.noun}_{k}" for k in range(number_of(posterior.structure)))
        return Transform(names, partial(self.assign, posterior))

    def opened(self, data: Any) -> Any:
        """Data, or those of the file that a path names."""
        return self.read(data) if isinstance(data, Path) else data

    def count(self, data: Any) -> int:
        """How many observations there are."""
        return count(data)

    def restricted(self, data: Any, structure: Structure) -> Any:
        """The data as a structure with fewer columns has them; words are the only columns that sites may add."""
        return data

    def taken(self, data: Any, rows: NDArray[np.intp]) -> Any:
        """Some of the observations, in that order."""
        return taken(data, rows)

    def joined(self, shards: Sequence[Any]) -> Any:
        """The observations of several shards."""
        return joined(shards)

    def units_of_one(self, most: int) -> tuple[int, int]:
        """The fewest and the most units of one observation, if no more than so many are allowed."""
        return (1, 1) if self.unit == "observation" else (0, most)

    @property
    def terms_to_learn(self) -> int:
        """How many numbers are estimated from the same rows: those of a regression, else none."""
        return 0

    def pooled(
        self, data: Any, least: int, least_outcome: int, *, agreed: bool, persons: Persons = EACH
    ) -> tuple[Self, Any, list[str]]:
        """The model and the data without values that fewer than `least` persons have; and what was changed.

        Where rows have an outcome of yes or no, categories that fewer than `least_outcome` persons of one outcome have
        are rare as well. Columns that are `agreed` keep their categories. `persons` says whom observations are about.
        """
        return self, data, []

    def presence(self, posterior: Posterior, data: Any, persons: Persons = EACH) -> Array:
        """How many persons each component rests on: observations, documents, sequences, or those behind them."""
        return persons.present(self.assign(posterior, data))

    def cells_hidden(
        self, posterior: Posterior, belief: Posterior, data: Any, slots: NDArray[np.intp], least: int, persons: Persons
    ) -> Posterior:
        """The posterior of the data without counts between components that fewer than `least` persons have.

        `belief` says who belongs to which component, and `slots` where the components of it are in the posterior.
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
        """The posterior of the data without what it says about words that fewer than `least` documents have.

        `frequency` is how frequent each word is everywhere, as far as that is public; `others` is what all other sites
        have sent.
        """
        return posterior

    def rare_unnamed(self, data: Any, least: int, persons: Persons = EACH) -> Any:
        """The data, the same whichever words occur in fewer than `least` documents: for a fit that cannot tell."""
        return data

    def rare_evened(
        self, posteriors: Sequence[Posterior], data: Any, least: int, persons: Persons = EACH
    ) -> list[Posterior]:
        """Posteriors of all sites, for a fit that cannot tell words of fewer than `least` documents apart."""
        return list(posteriors)

    def tally(self, posterior: Posterior) -> Tally | None:
        """How many observations the contribution holds, as its own numbers tell; None if the model cannot say.

        Agents refuse a record that says otherwise of itself: nobody can claim more evidence than it states.
        """
        return None

    def contributed(self, posterior: Posterior, data: Any) -> Posterior:
        """λ0 + c(λ): what the data contribute, given what a posterior of more data believes.

        The sum of all sites' contributions at a converged posterior is that posterior.
        """
        # Whoever asks again and again asks a model of one pass: the structure of another would be described each time.
        once: Model = self if self.ascent == Ascent(passes=1) else replace(self, ascent=Ascent(passes=1))
        nothing = Posterior.of_prior(posterior.structure)
        return once.fit(data, prior=nothing, start=posterior).posterior

    def first_refit(self, data: Any, others: Posterior, merged: Posterior) -> tuple[Self, Posterior]:
        """The model as it refits data in the first round after a merge, and what it takes from the others; here all."""
        return self, others

    def overstepped(self, before: Posterior, after: Posterior) -> Posterior:
        """What a site publishes in the first round, given its first contribution and its refit; here the refit."""
        return after

    def information(self, posterior: Posterior, data: Any) -> Array:
        """∂c / ∂E[T], (n, n): how what the data contribute depends on what the posterior believes.

        Rows and columns are the natural parameters of all factors in the structure's order, row after row. Sites'
        matrices add up. It is what hidden variables cost: zero where data alone say what they contribute. Here it is
        found by differences of `contributed`; a model that has a formula says so.
        """
        return nudged_information(lambda nudged: self.contributed(nudged, data), posterior)

    def mechanism(self) -> "Mechanism":
        """How the model is released with differential privacy; NotPrivate says why it cannot be.

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
        """One site's private release in the next round; the ledger records what it spends before this returns.

        Args:
            anchor: the prior in the first round, then what `private_merge` made of all releases so far.
            data: this site's data.
            privacy: what is promised to each person, over all rounds.
            ledger: the site's record of what has left it, `db.disclosure.Ledger`.
            site: the name that the site goes by.
            data_set: whose privacy is spent: each name has a budget of its own. Different names are for different
                persons.
            persons: whom each row is about, by name or number, where a person may have several.

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
        """What accuracy is computed from (`db.checking.Accuracy`): risks, outcomes and what was expected."""
        raise NotCalibrated(f"Concordance and calibration are for regressions, not for {type(self).__name__}.")

    def log_likelihoods(self, parameters: Mapping[str, Any], data: Any) -> Iterator[Array]:
        """(draws, observations): log p(x | parameters) for several draws of all parameters, some observations at a
        time.
        """
        raise NotCalibrated(f"{type(self).__name__} does not say how probable data are, given its parameters.")

    @classmethod
    def remedy(cls, first: Structure, second: Structure) -> str:
        """What makes posteriors of this model merge although their structures differ, as `decbayes merge` prints it.

        Empty if nothing but a new fit does.
        """
        return ""

    def largest_contribution(self, value: float) -> Mapping[str, Array]:
        """What one unit adds at most to each column of a factor, (1, d), if no number in the data is beyond ±`value`.

        Factors of which the model knows no such bound are left out.
        """
        return {}


def split_names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def each(values: Sequence[Posterior] | None, shards: Sequence[Any]) -> Sequence[Posterior | None]:
    """One value per shard, or none at all."""
    return [None] * len(shards) if values is None else values
