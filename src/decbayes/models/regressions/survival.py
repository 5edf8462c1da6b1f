"""Survival regression: how the hazard of an event depends on other columns, with time at risk and censoring."""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self

import numpy as np
from scipy.special import ndtri

from decbayes.base.arguments import Above, check_level
from decbayes.columns import Column, YesNo
from decbayes.columns.frames import coded, likely_kind, values_in
from decbayes.columns.sums import INTERVALS, LEAST, Events
from decbayes.errors import InvalidData, InvalidStructure
from decbayes.families import Array
from decbayes.models.core.model import Row
from decbayes.models.core.persons import EACH, Persons
from decbayes.models.core.points import check_structure
from decbayes.models.regressions._estimates import Estimates
from decbayes.models.regressions.logistic import Yes, as_yes_or_no, level_of, name_level
from decbayes.models.regressions.messages import doubts
from decbayes.models.regressions.outcome import Approximation, Outcome
from decbayes.models.regressions.poisson import PoissonOutcome
from decbayes.models.regressions.private.bounded_scores import EventScores
from decbayes.models.regressions.regression import Regression
from decbayes.models.regressions.rows.stacking import Intervals
from decbayes.models.regressions.varying.climb import FACTOR
from decbayes.posterior import Posterior
from decbayes.remarks import Remark

SURV = re.compile(r"Surv\s*\(([^,()]+),([^,()]+)(?:,([^,()]+))?\)")
RECODE = (
    "The event '{name}' {content}. Name the category that is the event with --yes (yes= in Python): all others count "
    "as censored. Or recode the column: 1 for an event, 0 for censored."
)
# With fewer cuts and rows of parts of the follow-up, effects take up changes of the baseline: of the Stanford heart
# transplants, one cut moves that of a transplant by more than a standard error, and two by less than a half.
FEW_CUTS = 3
HAZARDS = {"hazard": "mean", "low": "low", "high": "high"}


class Event(PoissonOutcome):
    """Whether the event has happened by the end of a person's time at risk."""

    holds: ClassVar[type[Column]] = YesNo
    mean_is: ClassVar[str] = "the probability of no event until the time"
    new: ClassVar[str] = ""
    ratio: ClassVar[str] = "hazard ratio"

    def check_column(self, model: str, name: str, column: Column) -> None:
        if not isinstance(column, YesNo):
            raise InvalidStructure(RECODE.format(name=name, content=f"is {column.kind}"))

    def kind_in(self, frame: Any, name: str) -> str:
        """Categories need the name of the event: their order does not tell."""
        try:
            fits = likely_kind(values_in(frame, name)) is YesNo
        except InvalidData:
            fits = False
        if not fits:
            raise InvalidData(RECODE.format(name=name, content="is not yes/no"))
        return YesNo.kind

    def modelled(self, name: str, column: Column) -> str:
        return f"hazard of {name} = {level_of(column)}"

    def remarks(self, targets: Array, mean: Array, weights: Array, side: int) -> Iterator[Remark]:
        return doubts.of_events(targets[weights > 0])  # a person has the event once: counts cannot vary more

    def scores(self, column: Column) -> EventScores:
        return EventScores()

    def check_targets(self, name: str, targets: Array) -> None:
        if not np.isin(targets, (0.0, 1.0)).all():
            raise InvalidData(f"The event '{name}' must be yes or no (1 or 0) in every row.")


@dataclass(frozen=True, kw_only=True)
class SurvivalRegression(Regression):
    """How fast events happen, from other columns: the hazard at time t is h(t) · exp(xβ), constant between `cuts`.

    Hazard ratios are close to those of Cox's model, and rows of all sites add up as in Poisson regression: no event
    time leaves a site. `from_frame` takes a formula "Surv(time, event) ~ age + sex", or "Surv(start, stop, event) ~ …"
    if persons enter late. `target` is the event: yes/no, or categories, of which `yes` names the event; all others
    count as censored. So for the hazard of one of several competing causes, let `yes` name that cause. `time` is the
    end of a person's time at risk, `entry` its beginning, if not 0.

    Sites agree on `cuts` and on `rate`, a typical number of events per unit of time: `settled` takes both from the
    `sums` of all sites. Products with "interval" are effects that change with time: "age + age:interval".
    `varying=["interval"]` gives each site its own baseline. All else is as in `PoissonRegression`.

    >>> rng = np.random.default_rng(1)
    >>> old = rng.random(500) < 0.5
    >>> died, lost = rng.exponential(np.where(old, 5.0, 10.0)), rng.uniform(5, 15, 500)
    >>> patients = {"years": np.minimum(died, lost), "dead": died < lost, "old": old}
    >>> model = db.SurvivalRegression.from_frame(patients, "Surv(years, dead) ~ old")
    >>> posterior = model.fit(patients).posterior
    >>> [round(row["ratio"], 1) for row in model.ratios(posterior)]
    [2.0]
    >>> model.survival(posterior, {"old": [False, True]}, times=[5.0])["mean"].round(1)
    array([[0.6],
           [0.4]])
    """

    approximation: Approximation = "variational"
    yes: Yes = ""
    time: str = ""
    entry: str = ""
    cuts: Sequence[float] = ()
    rate: Annotated[float, "A typical number of events per unit of time.", Above(0)] = 1.0

    about: ClassVar[str] = "Hazard ratios and survival curves from times until an event, with censoring."
    summed_settings: ClassVar[frozenset[str]] = frozenset({"cuts", "rate"})
    command: ClassVar[str] = "survival-regression"
    example: ClassVar[str] = "patients.csv --formula 'Surv(days, died) ~ age + sex' --cuts 30,90,365"
    outcome: ClassVar[Outcome] = Event()
    level: ClassVar[str] = Intervals.name
    view: ClassVar[str] = "survival"
    no_terms: ClassVar[tuple[str, ...]] = (*Regression.no_terms, "time", "entry")
    from_data: ClassVar[frozenset[str]] = Regression.from_data | {"time", "entry", "cuts", "rate"}

    def __post_init__(self) -> None:
        name_level(self)
        super().__post_init__()

    @cached_property
    def stack(self) -> Intervals:
        object.__setattr__(self, "cuts", tuple(map(float, self.cuts)))
        object.__setattr__(self, "rate", float(self.rate))
        return Intervals(self.time, self.entry, tuple(self.cuts), self.rate)

    @property
    def formula(self) -> str:
        right = super().formula.partition("~")[2].replace(f" 0 + {Intervals.name}", "", 1).removeprefix(" +")
        names = [*([self.entry] if self.entry else []), self.time, self.target]
        return f"Surv({', '.join(names)}) ~{right or ' 1'}"

    @property
    def legend(self) -> str:
        if not self.cuts:
            return "without cuts the hazard is constant in time"
        if len(self.cuts) >= FEW_CUTS or not self.entry:
            return ""
        at = " and ".join(f"{cut:g}" for cut in self.cuts)
        return f"the hazard changes at {at} only: columns that change during follow-up may take up other changes"

    @classmethod
    def left_side(cls, text: str) -> tuple[str, dict[str, str]]:
        match = SURV.fullmatch(text)
        if match is None:
            raise InvalidStructure("A formula is 'Surv(time, event) ~ age + sex', or 'Surv(start, stop, event) ~ …'.")
        first, second, third = ((name or "").strip().strip("`") for name in match.groups())
        entry = {"entry": first} if third else {}
        return third or second, {"time": second if third else first, **entry}

    @classmethod
    def completed(cls, settings: Any, frame: Any, columns: Mapping[str, Column], target: str) -> Any:
        """By default, cuts lie between events and the rate is that of all rows."""
        used = [target, settings["time"], *([settings["entry"]] if settings.get("entry") else [])]
        event = {target: as_yes_or_no(target, columns[target], settings.get("yes", ""))}
        return {**usual(*coded(frame, {name: columns[name] for name in used} | event).T), **settings}

    def pooled(
        self, data: Any, least: int, least_outcome: int, *, agreed: bool, persons: Persons = EACH
    ) -> tuple[Self, Any, list[str]]:
        """If the rules hide who has the event, cuts and a rate of these rows would still tell how many have it."""
        model, points, changed = super().pooled(data, least, least_outcome, agreed=agreed, persons=persons)
        if agreed or not model.hides_outcome(points):
            return model, points, changed
        found, hidden = usual(*self._used(self.points(data))), usual(*self._used(points))
        instead = {name: hidden[name] for name in found if getattr(self, name) == found[name]}
        return replace(model, **instead), points, changed

    def _used(self, points: Array) -> list[Array]:
        """The events, the times, and the entries if persons enter late."""
        values = dict(zip(self.columns, points.T, strict=False))
        return [values[name] for name in (self.target, self.time, self.entry) if name]

    @property
    def _times_and_event(self) -> str:
        """The name of the sums: the columns of times, and the event."""
        event = self.target if self.yes in ("", "yes") else f"{self.target} = {self.yes}"
        return f"Surv({', '.join([*self.stack.needs[::-1], event])})"

    def sums(self, data: Any, *, least: int, persons: Persons = EACH) -> dict[str, Column]:
        """Events by time, and the time at risk, from which `cuts` and `rate` of all sites follow."""
        points = self.points(data)
        values = dict(zip(self.columns, points.T, strict=False))
        times, whom = values[self.time], np.arange(len(points)) if persons.numbers is None else persons.numbers
        at_risk = float((times - (values[self.entry] if self.entry else 0.0)).sum())
        return {self._times_and_event: Events.of(times, values[self.target], whom, at_risk, least=least)}

    def unsettled(self, stated: Collection[str]) -> Self:
        return self if "cuts" in stated else replace(self, cuts=())

    def settled(self, sums: Mapping[str, Column]) -> Self:
        events = sums.get(self._times_and_event)
        if not isinstance(events, Events):
            raise InvalidData(
                f"The agreed columns have no counts of {self._times_and_event} to find cuts by. List them at all "
                "sites with `decbayes columns DATA --formula …`, or state --cuts and --rate."
            )
        if not events.total:
            raise InvalidData("No site has enough events to show. State --cuts and --rate.")
        return replace(self, cuts=events.cuts, rate=events.rate)

    @classmethod
    def from_file(
        cls,
        path: Path,
        *,
        formula: Annotated[str, "What to fit, as in 'Surv(days, died) ~ age + sex'."] = "",
        cuts: Annotated[
            str,
            "Times at which the hazard may change, separated by commas. Default: from the agreed columns; without "
            "these from this site's events, which other sites must then take over (--like).",
        ] = "",
        rate: Annotated[float, "A typical number of events per unit of time; 0 to find it."] = 0.0,
        varying: Annotated[str, "Terms that differ from site to site, or 'interval', separated by commas."] = "",
        **options: Any,
    ) -> tuple[Self, Any]:
        """Give a formula: --formula 'Surv(days, died) ~ age + sex'.

        All sites use the same --cuts and --rate. Each lists counts of its events with `decbayes columns --formula`, in
        steps of at least 5 persons, and --agreed-columns takes cuts and a rate from the lists of all sites. Or one
        site fits first, and the others fit --like its file.
        """
        try:
            options |= {"cuts": tuple(float(cut) for cut in cuts.split(","))} if cuts else {}
        except ValueError:
            raise ValueError("--cuts are numbers separated by commas, such as 30,90,365.") from None
        options |= {"rate": rate} if rate else {}
        return super().from_file(path, formula=formula, varying=varying, **options)

    def survival(
        self, posterior: Posterior, data: Any, *, times: Sequence[float] | None = None, level: float = 0.9
    ) -> dict[str, Array]:
        """(N, times): the probability of no event until each time, with `low` and `high`, for each row of `data`.

        `times` default to the cuts. Intervals are those of log H, H the cumulative hazard, by the delta method. The
        hazard is assumed constant after the last cut: times after the end of follow-up are extrapolations.

        >>> model = db.SurvivalRegression("dead", columns={"dead": "yes/no", "t": "real", "old": "yes/no"}, time="t")
        >>> prior = db.Posterior.of_prior(model.structure)
        >>> float(model.survival(prior, {"old": [True]}, times=[0.0])["mean"][0, 0])
        1.0
        """
        check_structure(posterior, self.structure, "posterior")
        check_level(level)
        until = np.asarray(self.cuts if times is None else times, dtype=np.float64)
        if until.ndim != 1 or not len(until) or not (until >= 0).all():
            raise ValueError("times must be numbers, at least 0.")
        points = self.table.points(data, target=False)
        rows = self.table.rows(points, every=True)
        mean, covariance = self.outcome.moments(posterior.natural[FACTOR])
        exposure = self.rate * self.stack.exposure(np.zeros(len(until)), until)
        count, intervals = len(points), exposure.shape[1]
        design = rows.matrix.reshape(count, intervals, -1)
        hazard = np.exp(np.minimum(rows.matrix @ mean + rows.offset, 300.0)).reshape(count, 1, intervals) * exposure
        total = hazard.sum(axis=2)
        slope = np.einsum("ntj,njd->ntd", hazard, design) / np.maximum(total, 1e-300)[..., None]
        deviation = np.sqrt(np.einsum("ntd,de,nte->nt", slope, covariance, slope))
        reach = float(ndtri(0.5 + 0.5 * level)) * deviation
        return {name: np.exp(-total * np.exp(side * reach)) for name, side in (("mean", 0), ("low", 1), ("high", -1))}

    @property
    def horizon(self) -> float:
        """A time until which curves are worth drawing: little is known long after the last cut."""
        return 1.5 * self.cuts[-1] if self.cuts else 1.0 / self.rate

    def _order(self, points: Array) -> tuple[Array, Array, Array]:
        values = dict(zip(self.columns, points.T, strict=False))
        entry = values[self.entry] if self.entry else np.full(len(points), -np.inf)
        return values[self.time], values[self.target], entry

    def are_pieces(self, data: Any, persons: Persons) -> bool:
        """Whether rows are pieces of each person's time at risk, without overlap, and only the last may have the event.

        Their likelihood is that of one row per person: intervals are not too narrow although persons have several rows.
        """
        stop, event, start = self._order(self.points(data))
        if persons.numbers is None:
            return True
        rows = np.lexsort((start, persons.numbers))
        later, earlier = rows[1:], rows[:-1]
        of_one = persons.numbers[later] == persons.numbers[earlier]
        return not (of_one & ((start[later] < stop[earlier]) | (event[earlier] > 0))).any()

    def predict(self, posterior: Posterior, data: Any, *, level: float = 0.9, known: Any = None) -> dict[str, Array]:
        """The probability of no event until the last cut, with an interval; see `survival` for whole curves."""
        if not self.cuts:
            raise InvalidData("A model without cuts has no last time: use survival(…, times=…).")
        curves = self.survival(posterior, data, times=self.cuts[-1:], level=level)
        return {name: part[:, 0] for name, part in curves.items()}

    def describe(self, posterior: Posterior, *, top: int = 10) -> list[Row]:
        """Each term with its interval and hazard ratio; `baseline` has the hazards of the intervals."""
        rows = super().describe(posterior, top=top)
        return [row for place, row in enumerate(rows) if place not in self.baseline_places] or rows

    def baseline(self, posterior: Posterior, *, level: float = 0.9) -> list[Row]:
        """The hazard in each interval, in events per unit of time, with intervals.

        It is that of a person at the agreed centre of each real column and the first category of all others.

        >>> model = db.SurvivalRegression("dead", columns={"dead": "yes/no", "t": "real"}, time="t", rate=0.2)
        >>> model.baseline(db.Posterior.of_prior(model.structure))[0]["hazard"]
        0.2
        """
        rows = Estimates(self, posterior, level).changed(np.eye(len(self.table.design.labels)))
        return [
            {"interval": level, **{name: float(self.rate * np.exp(row[end])) for name, end in HAZARDS.items()}}
            for level, row in zip(self.stack.levels, rows, strict=False)
        ]

    def _draw_outcome(self, points: Array, linear: Array, noise: float, rng: np.random.Generator) -> None:
        """Persons are followed for up to twice the last cut."""
        hazard = self.rate * np.exp(np.minimum(linear.reshape(len(points), -1), 30.0))
        low, high = self.stack.ends
        length = np.where(np.isfinite(high), high - low, 1e12)
        cumulative = np.cumsum(hazard * length, axis=1)
        needed = rng.exponential(size=len(points))
        place = np.minimum((cumulative < needed[:, None]).sum(axis=1), len(low) - 1)
        persons = np.arange(len(points))
        before = cumulative[persons, place] - hazard[persons, place] * length[place]
        event_time = low[place] + (needed - before) / hazard[persons, place]
        end = 2.0 * (self.cuts[-1] if self.cuts else 1.0 / self.rate)
        censoring = rng.uniform(0.25 * end, end, len(points))
        names = list(self.columns)
        points[:, names.index(self.time)] = np.maximum(np.minimum(event_time, censoring), 1e-9 * end)
        if self.entry:
            points[:, names.index(self.entry)] = 0.0
        points[:, self.table.target_place] = event_time < censoring


def usual(events: Array, times: Array, entry: Array | float = 0.0) -> dict[str, Any]:
    """Cuts that lie between events, and the rate of all rows."""
    at_risk = float((times - entry).sum())
    rate = {"rate": rounded(max(float(events.sum()), 0.5) / at_risk)} if at_risk > 0 else {}
    return {"cuts": cuts_between(times[events > 0.5]), **rate}


def cuts_between(times: Array) -> tuple[float, ...]:
    """Times with about the same number of events between them, at least five, rounded to two digits."""
    parts = min(INTERVALS, len(times) // LEAST)
    quantiles = np.quantile(times, np.arange(1, parts) / parts) if parts > 1 else ()
    rising = sorted({rounded(float(time)) for time in quantiles} - {0.0})
    while rising and np.histogram(times, [-np.inf, *rising, np.inf])[0].min() < LEAST:
        rising.pop(int(np.argmin(np.histogram(times, [*rising, np.inf])[0])))
    return tuple(rising)


def rounded(number: float) -> float:
    return float(f"{number:.2g}")
