"""The base class of views, and views by name."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeVar

import numpy as np

from decbayes.base.registering import Registry
from decbayes.errors import InvalidData, InvalidStructure, StructureMismatch
from decbayes.families import Array
from decbayes.models.core.model import Model
from decbayes.models.core.points import as_numbers
from decbayes.models.core.registry import model_for
from decbayes.posterior import EXACT, Posterior
from decbayes.remarks import Remark, too_narrow
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
MOST_COLUMNS = 64  # the most columns of components that sentences describe


class Notes(NamedTuple):
    """Remarks on all components together, and on each."""

    summary: str = ""
    parts: Sequence[str] = ()


@dataclass(frozen=True)
class View:
    """How to show the components of a model. This view shows `Model.describe` as a table.

    To write a view, override some methods, most often `parts`, and register it by its `name`. Models ask for it with
    `view = "name"`.

    >>> from decbayes import views
    >>> model = db.PoissonMixture(2, 1)
    >>> view = views.view_of(model)
    >>> [part.facts["weight"] for part in view.parts(db.Posterior.of_prior(model.structure))]
    [0.5, 0.5]
    """

    name: ClassVar[str] = "table"
    frequency: ClassVar[str] = "weights"
    """The factor for the frequency of components."""
    occurs: ClassVar[str] = "makes up"
    """The verb for a component and its share of observations."""
    by_column: ClassVar[bool] = False
    """Whether tables have one line per column of the data, because they are often wider than a terminal."""

    model: Any

    @property
    def title(self) -> str:
        """The name of the model's class."""
        return type(self.model).__name__

    @property
    def usual_name(self) -> str:
        """The usual name of such a model."""
        return str(self.model.usual_name)

    @property
    def noun(self) -> str:
        """The noun for a component."""
        return str(self.model.noun)

    @property
    def unit(self) -> str:
        """What contributions count."""
        return str(self.model.unit)

    @property
    def counted(self) -> str:
        """The unit in counts: "words" could mean distinct words, "occurrences" cannot."""
        return "occurrence" if self.unit == "word" else self.unit

    @property
    def modelled(self) -> str:
        """What is modelled, in words, if the title does not tell."""
        return str(self.model.modelled)

    @property
    def record(self) -> str:
        """The noun for one person's data."""
        return str(self.model.record)

    @property
    def calibrated_by(self) -> str:
        """How the model's intervals can be calibrated; "" if that is not known."""
        return str(self.model.calibrated_by)

    def rows(self, posterior: Posterior, *, top: int = TOP) -> list[Row]:
        """Each component as plain values; only the largest `top` entries of long rows."""
        return list(self.model.describe(posterior, top=top))

    def tables(self, posterior: Posterior) -> Mapping[str, Sequence[Row]]:
        """Further tables, by title."""
        return {}

    def parameters(self, posterior: Posterior, *, top: int = TOP, level: float = LEVEL) -> list[Row]:
        """Every parameter with its standard deviation and interval, for spreadsheets and other programs.

        As `Posterior.summary`, but in the units of the data.
        """
        return [self.in_units(row) for row in posterior.summary(top=top, level=level)]

    def names(self, posterior: Posterior) -> Sequence[str]:
        """The name that people have given to each component; empty if none."""
        return posterior.names or ("",) * len(self.rows(posterior, top=1))

    def captions(
        self, posterior: Posterior, *, top: int = 4, write: Any = number, most: int = MOST_NUMBERS
    ) -> list[str]:
        """A few words on each component: its name, its top words, its distinctive words, or its mean."""
        rows = self.rows(posterior, top=top)
        title = self.model.caption or list(rows[0])[-1]
        pairs = zip(self.names(posterior), rows, strict=True)
        return [name or value_text(row[title], write, most) for name, row in pairs]

    def parts(
        self, posterior: Posterior, *, shape: Shape | None = None, top: int = TOP, level: float = LEVEL
    ) -> Sequence[Part]:
        """Each component in the form in which to draw it.

        With a `shape`, means are images. `top` limits long rows, and `level` is that of intervals.
        """
        rows = self.rows(posterior, top=top)
        return [Entries(facts=self.facts(row)) for row in rows] if shape is None else self.pictures(rows, shape)

    def profiles(self, posterior: Posterior, *, level: float = LEVEL) -> Sequence[Profile]:
        """Each component column by column, for sentences; empty if there would be too many numbers."""
        if type(self).rows is not View.rows:  # the view describes them in words
            return ()
        rows = self.parameters(posterior, top=MOST_COLUMNS + 1, level=level)
        first = next(((row["factor"], row["quantity"]) for row in rows if row["factor"] != self.frequency), None)
        cells: dict[int, list[Row]] = {}
        for row in rows:
            if (row["factor"], row["quantity"]) == first:
                cells.setdefault(row["component"], []).append(row)
        if not all(len(row_group) <= MOST_COLUMNS for row_group in cells.values()):
            return ()
        return [
            Profile(profile_of((*self.entry(row["entry"]), row) for row in row_group)) for row_group in cells.values()
        ]

    def entry(self, label: str) -> tuple[str, str]:
        """The column that a component's number belongs to, and its category if it is a share."""
        return f"x{label}" if label.isdigit() else label, ""

    def frequencies(self, posterior: Posterior, *, level: float = LEVEL) -> Sequence[Interval]:
        """How frequent each component is; empty if the posterior does not tell."""
        if self.frequency not in posterior.structure.families:
            return ()
        rows = posterior.summary(top=1, level=level)
        return [interval_of(row) for row in rows if row["factor"] == self.frequency]

    def in_units(self, row: Row) -> Row:
        """A row of a summary in the units of the data, if sites agreed on other units."""
        return row

    def facts(self, row: Row, *without: str) -> Row:
        """A row without the component's number and the given entries."""
        return {key: value for key, value in row.items() if key not in ("component", self.noun, *without)}

    def pictures(self, rows: Sequence[Row], shape: Shape) -> list[Part]:
        """Means as images, each with its own contrast, with the other facts."""
        drawn = as_images(np.array([np.ravel(row["mean"]) for row in rows]), shape)
        signed = bool((drawn < 0).any())
        return [
            Image(picture, *contrast(picture, signed=signed), facts=self.facts(row, "mean"))
            for row, picture in zip(rows, drawn, strict=True)
        ]

    def pixels(self, posterior: Posterior) -> int:
        """How many numbers of a component may be pixels; 0 if it is no image."""
        return 0

    def shape(self, posterior: Posterior, *, guess: bool = False) -> Shape | None:
        """The height and width of components that are images; with `guess`, also of those that look like images."""
        return None

    def tally(self, posterior: Posterior) -> "Tally | None":
        """How much data is behind a posterior, according to its numbers."""
        tally: Tally | None = self.model.tally(posterior)
        return tally

    def observations(self, alignment: "Alignment", evidence: Array) -> Array:
        """How many observations each site has, given the evidence of sites × slots."""
        return np.asarray(evidence.sum(axis=1))

    def estimates(self, posterior: Posterior, *, level: float = LEVEL) -> Sequence[Estimate]:
        """Parameters that belong to no component, such as coefficients."""
        return ()

    def between(self, posterior: Posterior, *, level: float = LEVEL) -> Sequence[Estimate]:
        """Standard deviations between sites, for parameters that may vary."""
        return ()

    def ratios(self, posterior: Posterior, *, level: float = LEVEL) -> Sequence[Estimate]:
        """Odds, rate or hazard ratios of a regression; 1 means no effect."""
        return ()

    @property
    def ratio(self) -> str:
        """The name of `ratios`."""
        return ""

    def curves(
        self, posterior: Posterior, data: Any = None, *, times: Sequence[float] | None = None, level: float = LEVEL
    ) -> Sequence[Curve]:
        """Functions of time, such as survival, for each row of `data` or for a typical person."""
        return ()

    def differences(self, alignment: "Alignment") -> Sequence[Difference]:
        """Whether sites differ by more than chance, parameter by parameter."""
        return ()

    @property
    def may_differ(self) -> Collection[str]:
        """The parameters that the model lets differ between sites, as `differences` names them."""
        return ()

    def decisive(self, alignment: "Alignment") -> int | None:
        """The only site without which sites would not differ by more than chance; None if there is none."""
        return None

    def other_units(self, alignment: "Alignment") -> Sequence[tuple[int, str, float]]:
        """Sites that seem to have a column in another unit, that column, and how many times as large its values are."""
        return ()

    def uncertainty(self, posterior: Posterior, sites: Sequence[Posterior] = ()) -> str:
        """Where intervals come from, in words; `sites` are the posteriors behind a merge."""
        why, usual = too_narrow([posterior, *sites]), posterior.uncertainty
        if not why:
            return usual
        return f"exact if the model held, but {why}" if usual == EXACT else f"{usual}; probably too narrow, as {why}"

    def undecided(self, alignment: "Alignment") -> str:
        """Why it is unknown whether sites differ by more than chance; empty if it is known or nothing is compared."""
        return ""

    def advice(self, alignment: "Alignment", names: Sequence[str] = ()) -> Iterator[Remark]:
        """What stands out in a merge of such models, and what to do about it; `names` are those of the sites."""
        if len(alignment.posteriors) > 2:  # of two, nobody can say who is right
            from decbayes.merging.reading import dissent

            yield from dissent(alignment, names)

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
        """How readable components are, if they consist of words."""
        return None

    def notes(self, posterior: Posterior, counts: "CoOccurrence | None" = None) -> Notes:
        """What readers should know about all components and about each; `counts` are of words in documents."""
        return Notes()


class Unknown(View):
    """The view of a posterior whose model is not registered: its parameters as numbers."""

    name: ClassVar[str] = "unknown"

    noun, unit, record, modelled, calibrated_by = "component", "observation", "observation", "", ""

    @property
    def title(self) -> str:
        """The model's name in the structure."""
        return f"{self.model} (unknown here; parameters as stored)" if self.model else "a model without a name"

    usual_name = title

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


# Views are loaded on first use.
Kind = TypeVar("Kind", bound=type[View])


def register(view: Kind) -> Kind:
    """Make a view available by its `name` wherever results are shown; also a class decorator.

    `view` is a subclass of `View`. Models ask for it with `view = "name"`.

    >>> from decbayes import views
    >>> @views.register
    ... class Rates(views.View):
    ...     name = "rates"
    """
    VIEWS.add(view)
    return view


def name_of(view: type[View]) -> str:
    """The name of a view to register; refuses names of shipped views."""
    if not isinstance(view, type) or not issubclass(view, View):
        raise TypeError(f"register takes a class derived from decbayes.views.View, not {view!r}.")
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

    `source` is a model or a posterior's structure. Posteriors of models that are not registered also have a view.

    >>> from decbayes import views
    >>> views.view_of(db.GaussianMixture(3, 2, variance=1.0)).noun
    'cluster'
    """
    if isinstance(source, Model):
        return view_class(source.view)(source)
    try:
        model = model_for(source)
    # An unknown model, or an unknown kind of column.
    except (StructureMismatch, InvalidStructure):
        return Unknown(str(source.model.get("name", "")))
    return view_of(model)


def view_class(name: str) -> type[View]:
    if name not in VIEWS:
        known = ", ".join(VIEWS)
        raise LookupError(f"No view is named {name!r} ({known} are). Register it with `decbayes.views.register`.")
    return VIEWS[name]


def interval_of(row: Row, unit: str = "") -> Interval:
    return Interval(row["mean"], row["lower"], row["upper"], unit=unit)


def profile_of(cells: Iterable[tuple[str, str, Row]]) -> dict[str, Interval | Shares]:
    """Columns with their means, or the shares of their categories, from the column, category and row of a summary."""
    columns: dict[str, Any] = {}
    for name, category, row in cells:
        if category:
            columns.setdefault(name, {})[category] = interval_of(row, "probability")
        else:
            columns[name] = interval_of(row)
    return {name: Shares(value) if isinstance(value, dict) else value for name, value in columns.items()}


def as_images(values: Any, shape: Shape) -> Array:
    """Reshape rows to (images, height, width), if the numbers fit."""
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
    """The numbers to draw as black and white: nearly the whole range of the image, with zero as mid grey or black."""
    limit = float(np.quantile(np.abs(picture), 0.99)) or 1.0
    return (-limit if signed else 0.0), limit
