"""What a view is, and views by name."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeVar

import numpy as np

from decbayes.base.registering import Registry
from decbayes.errors import InvalidData, StructureMismatch
from decbayes.families import Array
from decbayes.models.core.model import Model
from decbayes.models.core.points import as_numbers
from decbayes.models.core.registry import model_for
from decbayes.posterior import Posterior
from decbayes.remarks import Remark
from decbayes.structure import Structure
from decbayes.views.values import (
    MOST_NUMBERS,
    Curve,
    Difference,
    Entries,
    Estimate,
    Image,
    Interval,
    Matrix,
    Part,
    Profile,
    Row,
    Shape,
    Shares,
    Trace,
    number,
    value_text,
)

if TYPE_CHECKING:
    from decbayes.merging import Alignment
    from decbayes.models.core.information import Tally
    from decbayes.models.topics.quality import CoOccurrence, Quality

LEVEL = 0.9
INTERVAL = f"{LEVEL:.0%} interval"
TOP = 10  # words, or other entries of long rows
MOST_COLUMNS = 64  # of components that are described in sentences


class Notes(NamedTuple):
    """Remarks on all components together, and on each."""

    summary: str = ""
    parts: Sequence[str] = ()


@dataclass(frozen=True)
class View:
    """How to show the components of a model. This one shows `Model.describe` as a table.

    Your own view overrides some methods, most often `parts`, and is registered by its `name`. Models ask
    for it with `view = "name"`.

    >>> from decbayes import views
    >>> model = db.PoissonMixture(2, 1)
    >>> view = views.view_of(model)
    >>> [part.facts["weight"] for part in view.parts(db.Posterior.of_prior(model.structure))]
    [0.5, 0.5]
    """

    name: ClassVar[str] = "table"
    frequency: ClassVar[str] = "weights"
    """The factor that says how frequent each component is."""
    occurs: ClassVar[str] = "makes up"
    """What a component does to a share of all observations."""
    by_column: ClassVar[bool] = False
    """Whether a table has one line per column of the data: tables are often wider than a terminal."""

    model: Any

    @property
    def title(self) -> str:
        """The usual name of the model."""
        return type(self.model).__name__

    @property
    def usual_name(self) -> str:
        """What people call such a model."""
        return str(self.model.usual_name)

    @property
    def noun(self) -> str:
        """What a component is called."""
        return str(self.model.noun)

    @property
    def unit(self) -> str:
        """What contributions count."""
        return str(self.model.unit)

    @property
    def counted(self) -> str:
        """The same where it is counted: words may be different words, occurrences are not."""
        return "occurrence" if self.unit == "word" else self.unit

    @property
    def modelled(self) -> str:
        """What is modelled, in words, if the title does not say it."""
        return str(self.model.modelled)

    @property
    def record(self) -> str:
        """What one person's data are called."""
        return str(self.model.record)

    def rows(self, posterior: Posterior, *, top: int = TOP) -> list[Row]:
        """Each component as plain values; only the largest `top` entries of long rows."""
        return list(self.model.describe(posterior, top=top))

    def tables(self, posterior: Posterior) -> Mapping[str, Sequence[Row]]:
        """Further tables by their titles."""
        return {}

    def parameters(self, posterior: Posterior, *, top: int = TOP, level: float = LEVEL) -> list[Row]:
        """Every parameter with its standard deviation and interval, for spreadsheets and other programs.

        As `Posterior.summary`, but in the units of the data.
        """
        return [self.in_units(row) for row in posterior.summary(top=top, level=level)]

    def names(self, posterior: Posterior) -> Sequence[str]:
        """The name of each component, as people have given it; empty where nobody has."""
        return posterior.names or ("",) * len(self.rows(posterior, top=1))

    def captions(
        self, posterior: Posterior, *, top: int = 4, write: Any = number, most: int = MOST_NUMBERS
    ) -> list[str]:
        """A few words on each component: its name, its top words, what sets it apart, or its mean."""
        rows = self.rows(posterior, top=top)
        title = self.model.caption or list(rows[0])[-1]
        pairs = zip(self.names(posterior), rows, strict=True)
        return [name or value_text(row[title], write, most) for name, row in pairs]

    def parts(
        self, posterior: Posterior, *, shape: Shape | None = None, top: int = TOP, level: float = LEVEL
    ) -> Sequence[Part]:
        """Each component in the form to draw it.

        Means are images of that `shape`, if one is given. `top` limits long rows, and `level` is that of intervals.
        """
        rows = self.rows(posterior, top=top)
        return [Entries(facts=self.facts(row)) for row in rows] if shape is None else self.pictures(rows, shape)

    def profiles(self, posterior: Posterior, *, level: float = LEVEL) -> Sequence[Profile]:
        """What each component is like in each column, for sentences; nothing if that would take too many numbers."""
        if type(self).rows is not View.rows:  # they are described in words of the view's own
            return ()
        rows = self.parameters(posterior, top=MOST_COLUMNS + 1, level=level)
        first = next(((row["factor"], row["quantity"]) for row in rows if row["factor"] != self.frequency), None)
        cells: dict[int, list[Row]] = {}
        for row in rows:
            if (row["factor"], row["quantity"]) == first:
                cells.setdefault(row["component"], []).append(row)
        if not all(len(few) <= MOST_COLUMNS for few in cells.values()):
            return ()
        return [Profile(profile_of((*self.entry(row["entry"]), row) for row in few)) for few in cells.values()]

    def entry(self, label: str) -> tuple[str, str]:
        """The column that a number of a component is about, and the category that it is the share of, if it is one."""
        return f"x{label}" if label.isdigit() else label, ""

    def frequencies(self, posterior: Posterior, *, level: float = LEVEL) -> Sequence[Interval]:
        """How frequent each component is; nothing if the posterior does not say it."""
        if self.frequency not in posterior.structure.families:
            return ()
        rows = posterior.summary(top=1, level=level)
        return [interval_of(row) for row in rows if row["factor"] == self.frequency]

    def in_units(self, row: Row) -> Row:
        """A row of a summary in the units of the data, where sites have agreed on others."""
        return row

    def facts(self, row: Row, *without: str) -> Row:
        """A row without the component's number, and without other entries."""
        return {key: value for key, value in row.items() if key not in ("component", self.noun, *without)}

    def pictures(self, rows: Sequence[Row], shape: Shape) -> list[Part]:
        """Means as images, each with its own contrast, and other facts about them."""
        drawn = as_images(np.array([np.ravel(row["mean"]) for row in rows]), shape)
        signed = bool((drawn < 0).any())
        return [
            Image(picture, *contrast(picture, signed=signed), facts=self.facts(row, "mean"))
            for row, picture in zip(rows, drawn, strict=True)
        ]

    def pixels(self, posterior: Posterior) -> int:
        """How many numbers of a component may be pixels; 0 if its numbers are not an image."""
        return 0

    def shape(self, posterior: Posterior, *, guess: bool = False) -> Shape | None:
        """The height and width of components that are images; with `guess`, also if they only look like images."""
        return None

    def tally(self, posterior: Posterior) -> "Tally | None":
        """What a posterior's own numbers say about how much data is behind it."""
        tally: Tally | None = self.model.tally(posterior)
        return tally

    def observations(self, alignment: "Alignment", evidence: Array) -> Array:
        """How many observations each site has, given the evidence of sites × slots."""
        return np.asarray(evidence.sum(axis=1))

    def estimates(self, posterior: Posterior, *, level: float = LEVEL) -> Sequence[Estimate]:
        """Parameters that belong to no component, such as coefficients."""
        return ()

    def between(self, posterior: Posterior, *, level: float = LEVEL) -> Sequence[Estimate]:
        """Standard deviations between sites, for parameters that may differ from site to site."""
        return ()

    def ratios(self, posterior: Posterior, *, level: float = LEVEL) -> Sequence[Estimate]:
        """Odds ratios, rate ratios or hazard ratios of a regression, whose value of no effect is 1."""
        return ()

    @property
    def ratio(self) -> str:
        """What `ratios` are called."""
        return ""

    def curves(
        self,
        posterior: Posterior,
        data: Any = None,
        *,
        times: Sequence[float] | None = None,
        level: float = LEVEL,
    ) -> Sequence[Curve]:
        """How something changes over time for each row of `data`, or for somebody typical: survival."""
        return ()

    def differences(self, alignment: "Alignment") -> Sequence[Difference]:
        """Whether sites differ by more than chance, parameter by parameter."""
        return ()

    def other_units(self, posteriors: Sequence[Posterior]) -> Sequence[tuple[int, str]]:
        """Sites that seem to have a column in another unit than the others, and that column."""
        return ()

    def undecided(self, alignment: "Alignment") -> str:
        """Why it is not known whether sites differ by more than chance; empty if it is, or if nothing is compared."""
        return ""

    def advice(self, alignment: "Alignment", names: Sequence[str] = ()) -> Iterator[Remark]:
        """What stands out in a merge of such models, and what to do about it; `names` are those of the sites."""
        return iter(())

    def expected(self, posteriors: Sequence[Posterior]) -> Sequence[Remark]:
        """How far a merge of first broadcasts will be from one fit of all data, where that can be foreseen."""
        return ()

    def matrix(self, posterior: Posterior) -> Matrix | None:
        """How components follow each other, if they do."""
        return None

    def density(self, posterior: Posterior, points: Array) -> Array:
        """The predictive density at some points."""
        return np.asarray(np.exp(self.model.log_predictive(posterior, points)))

    def trace(self, posterior: Posterior, sequence: Any) -> Trace:
        """One sequence with the states that it goes through."""
        raise StructureMismatch(f"This is a posterior of {self.title}, which has no states over time.")

    def quality(self, posterior: Posterior, *, top: int = TOP) -> "Quality | None":
        """How easy components are to read, if they consist of words."""
        return None

    def notes(self, posterior: Posterior, counts: "CoOccurrence | None" = None) -> Notes:
        """What readers should know about all components and about each; `counts` are those of words in documents."""
        return Notes()


class Unknown(View):
    """The view of a posterior whose model is not registered: its parameters in numbers."""

    name: ClassVar[str] = "unknown"

    title = usual_name = "a model without a name"
    noun, unit, record, modelled = "component", "observation", "observation", ""

    def tally(self, posterior: Posterior) -> "Tally | None":
        return None

    def rows(self, posterior: Posterior, *, top: int = TOP) -> list[Row]:
        return [*posterior.summary(top=top)]

    def names(self, posterior: Posterior) -> Sequence[str]:
        return posterior.names

    def captions(
        self, posterior: Posterior, *, top: int = 4, write: Any = number, most: int = MOST_NUMBERS
    ) -> list[str]:
        return []

    def parts(
        self, posterior: Posterior, *, shape: Shape | None = None, top: int = TOP, level: float = LEVEL
    ) -> Sequence[Part]:
        return []

    def profiles(self, posterior: Posterior, *, level: float = LEVEL) -> Sequence[Profile]:
        return []


# Loaded when they are asked for.
Kind = TypeVar("Kind", bound=type[View])


def register(view: Kind) -> Kind:
    """Make a view available by its `name` wherever results are shown; also a class decorator.

    `view` is a class that derives from `View`. Models ask for it with `view = "name"`.

    >>> from decbayes import views
    >>> @views.register
    ... class Rates(views.View):
    ...     name = "rates"
    """
    VIEWS.add(view)
    return view


def name_of(view: type[View]) -> str:
    """The name by which models ask for a view of somebody else's."""
    if not isinstance(view, type) or not issubclass(view, View):
        raise TypeError(f"register takes a class that is a decbayes.views.View, not {view!r}.")
    if view.name in VIEWS.shipped:
        raise ValueError(f"decbayes ships a view named {view.name!r}; choose another name.")
    return view.name


VIEWS: Registry[type[View]] = Registry(
    {
        "table": "decbayes.views.view:View",
        "words": "decbayes.views.word_view:WordView",
        "images": "decbayes.views.image_view:ImageView",
        "mixture": "decbayes.views.point_view:MixtureView",
        "points": "decbayes.views.point_view:PointView",
        "classes": "decbayes.views.class_view:ClassView",
        "states": "decbayes.views.class_view:StateView",
        "coefficients": "decbayes.views.coefficient_view:CoefficientView",
        "survival": "decbayes.views.coefficient_view:SurvivalView",
        "lines": "decbayes.views.coefficient_view:LineView",
    },
    name_of,
)


def view_of(source: Model | Structure) -> View:
    """The view of a model, or of the model that a structure belongs to.

    `source` is the model or a posterior's structure. Posteriors of models that are not registered have a view, too.

    >>> from decbayes import views
    >>> views.view_of(db.GaussianMixture(3, 2, variance=1.0)).noun
    'cluster'
    """
    if isinstance(source, Model):
        return named(source.view)(source)
    try:
        model = model_for(source)
    except StructureMismatch:
        return Unknown(None)
    return view_of(model)


def named(name: str) -> type[View]:
    if name not in VIEWS:
        known = ", ".join(VIEWS)
        raise LookupError(f"No view is named {name!r} ({known} are). Register it with `decbayes.views.register`.")
    return VIEWS[name]


def interval_of(row: Row, unit: str = "") -> Interval:
    return Interval(row["mean"], row["lower"], row["upper"], unit=unit)


def profile_of(cells: Iterable[tuple[str, str, Row]]) -> dict[str, Interval | Shares]:
    """Columns with their means, or with the shares of their categories, from column, category and row of a summary."""
    columns: dict[str, Any] = {}
    for name, category, row in cells:
        if category:
            columns.setdefault(name, {})[category] = interval_of(row, "probability")
        else:
            columns[name] = interval_of(row)
    return {name: Shares(value) if isinstance(value, dict) else value for name, value in columns.items()}


def as_images(values: Any, shape: Shape) -> Array:
    """(images, height, width), if the numbers fit."""
    flat = as_numbers(values)
    if flat.ndim != 2:
        raise InvalidData(f"Images are the rows of a matrix; the shape is {flat.shape}.")
    check_shape(flat.shape[1], shape)
    return flat.reshape(-1, *shape)


def check_shape(numbers: int, shape: Shape) -> None:
    height, width = shape
    if min(shape) < 1 or numbers != height * width:
        raise InvalidData(
            f"There are {numbers:,} numbers per image, but {height} × {width} pixels (height × width) are "
            f"{height * width:,}."
        )


def contrast(picture: Array, *, signed: bool) -> tuple[float, float]:
    """The numbers drawn as black and white: they span nearly the whole image, and zero is mid grey, or black."""
    limit = float(np.quantile(np.abs(picture), 0.99)) or 1.0
    return (-limit if signed else 0.0), limit
