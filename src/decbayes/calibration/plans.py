"""Whether a plan will work: simulate it many times with known truth, before any data are collected.

Parameters are drawn from the prior (or from a posterior), each site gets data, fits and shares, and the merge is
compared with the truth: simulation-based calibration of the whole procedure, not of one fit.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from joblib import Parallel, delayed

from decbayes.base.arguments import check_whole
from decbayes.base.workers import jobs
from decbayes.calibration.matches import Matches, curves_of
from decbayes.calibration.trials import Plan, Trial, check_plan, trial

# Thresholds for advice.
TOO_NARROW, TOO_WRONG, TOO_FAR = 0.1, 0.1, 0.05
# Intervals of shares extend this many deviations to both sides.
DEVIATIONS = 2.0


class Share(NamedTuple):
    """A share over all data sets, and its 95 % interval, which has a width even at 0 and 1.

    Wilson's interval, with the variance between data sets in place of p (1 − p), because results within one data set
    are correlated. It is exact if each data set answers yes or no, and otherwise somewhat too wide.

    >>> db.calibration.plans.Share.of([1.0] * 4)
    Share(share=1.0, lower=0.5, upper=1.0)
    """

    share: float
    lower: float
    upper: float

    @classmethod
    def of(cls, values: Sequence[float]) -> "Share":
        if not values:
            return cls(np.nan, np.nan, np.nan)
        number, share = len(values), float(np.mean(values))
        variance = float(np.var(values, ddof=1)) if number > 1 else share * (1.0 - share)
        centre = (number * share + 0.5 * DEVIATIONS**2) / (number + DEVIATIONS**2)
        half = DEVIATIONS * np.sqrt(number * variance + 0.25 * DEVIATIONS**2) / (number + DEVIATIONS**2)
        return cls(share, float(max(centre - half, 0.0)), float(min(centre + half, 1.0)))

    def __str__(self) -> str:
        return f"{self.share:.0%} ({self.lower:.0%} to {self.upper:.0%})"


@dataclass(frozen=True)
class PlanReport:
    """The results of a plan over all simulated data sets.

    `coverage[name]` is the coverage of the intervals, a `Share`; `at_once` is the same for one fit of all data,
    `calibrated` for the merge with calibrated intervals, if these need only one more pass over the data.
    `ranks[name]` is a histogram of the rank of the truth among draws of the posterior: level if the posterior is
    reliable, high at both ends if it is too narrow. `right` is the share of right matches; `gap` is the lead of one fit
    of all data in nats per observation or word, with its standard error.
    """

    trials: tuple[Trial, ...]
    level: float
    coverage: Mapping[str, Share] = field(init=False)
    at_once: Mapping[str, Share] = field(init=False)
    calibrated: Mapping[str, Share] = field(init=False)
    ranks: Mapping[str, list[int]] = field(init=False)
    right: Share = field(init=False)
    gap: tuple[float, float] = field(init=False)

    def __post_init__(self) -> None:
        put = object.__setattr__
        names = [*dict.fromkeys(name for trial in self.trials for name in trial.covered)]
        tables = {
            "coverage": [trial.covered for trial in self.trials],
            "at_once": [trial.covered_at_once for trial in self.trials],
            "calibrated": [trial.covered_calibrated for trial in self.trials],
        }
        for kind, values in tables.items():
            put(self, kind, {n: Share.of([table[n] for table in values if n in table]) for n in names})
        sums = {n: np.sum([t.ranks[n] for t in self.trials if n in t.ranks], axis=0).tolist() for n in names}
        put(self, "ranks", sums)
        put(self, "right", Share.of([float(np.mean(t.matches["right"])) for t in self.trials if t.matches["right"]]))
        put(self, "gap", mean_and_error([trial.gap for trial in self.trials]))

    def matches(self) -> Matches:
        """All simulated matches."""
        names = ("margins", "evidence", "losses", "overlaps", "right", "nowhere")
        return Matches(*(np.array([x for trial in self.trials for x in trial.matches[name]]) for name in names))

    def reliability(self, bars: int = 5) -> list[tuple[float, float, int]]:
        """Per range of predicted probabilities: the predicted and true share of right matches, and their number."""
        matches = self.matches()
        if len(matches) < 2 * bars:
            return []
        predicted = curves_of(matches, matches.margins).probabilities(
            matches.margins, matches.evidence, matches.losses, np.full(len(matches), np.nan)
        )
        order = np.array_split(np.argsort(predicted, kind="stable"), bars)
        return [(float(predicted[part].mean()), float(matches.right[part].mean()), len(part)) for part in order]


def mean_and_error(values: Sequence[float]) -> tuple[float, float]:
    """The mean over data sets and its standard error; results within one data set are correlated."""
    if not values:
        return np.nan, np.nan
    error = float(np.std(values, ddof=1) / np.sqrt(len(values))) if len(values) > 1 else np.inf
    return float(np.mean(values)), error


def try_plan(
    plan: Plan,
    *,
    data_sets: int = 100,
    seed: int = 0,
    done: Sequence[Trial] = (),
    progress: Callable[[Trial], None] | None = None,
) -> PlanReport:
    """Simulate how good the merged posterior would be, before any data are collected.

    Args:
        plan: the model, the number of sites and their sizes.
        data_sets: the number of simulated data sets. joblib spreads them over workers.
        seed: their seed. Data set i depends only on the seed and on i.
        done: trials of an earlier call, which are not simulated again.
        progress: called with each finished trial.

    >>> plan = db.checking.Plan(db.models.GaussianMean(dimension=1), sites=3, observations=10)
    >>> report = db.checking.try_plan(plan, data_sets=5)
    >>> len(report.trials)
    5
    """
    check_whole(1, data_sets=data_sets)
    check_plan(plan)
    numbers = range(len(done), data_sets)
    tasks = (delayed(trial)(plan, np.random.default_rng([seed, number])) for number in numbers)
    trials = list(done[:data_sets])
    for finished in Parallel(n_jobs=jobs(), prefer="threads", return_as="generator")(tasks):
        trials.append(finished)
        if progress is not None:
            progress(finished)
    return PlanReport(tuple(trials), plan.level)


def advice(plan: Plan, report: PlanReport) -> str:
    """What to do, in a sentence or two."""
    where = f"{plan.sites} site{'s' * (plan.sites > 1)} of {plan.observations} observations"
    remarks = [about_intervals(plan, report), about_matches(report), about_scores(plan, report)]
    if any(remarks):
        return f"With {where}: " + " ".join(filter(None, remarks))
    surely = min((share.lower for share in report.coverage.values()), default=plan.level)
    if surely < plan.level - 2.0 * TOO_NARROW:
        return f"With {where}, so few data sets cannot show how good intervals are: simulate more (--data-sets)."
    return f"With {where} the merge is about as good as one fit of all data, and its intervals can be used."


def about_intervals(plan: Plan, report: PlanReport) -> str:
    if not report.coverage:
        return ""
    name, (covered, _, most) = min(report.coverage.items(), key=lambda item: item[1])
    if most >= plan.level - TOO_NARROW:
        return ""
    if report.at_once[name][0] - covered > TOO_NARROW / 2 and plan.sites > 1:
        remedy = "more rounds" if plan.rounds else "refine (--rounds)"
        return f"intervals of '{name}' are too narrow; {remedy}, or fewer, larger sites. Calibrate after that."
    if report.calibrated[name][0] >= plan.level - TOO_NARROW:
        return (
            f"intervals of '{name}' are too narrow; calibrate them after the merge (`decbayes calibrate`, "
            f"`decbayes.calibrate`): then {report.calibrated[name][0]:.0%} contain the truth."
        )
    return (
        f"intervals of '{name}' are too narrow, and so are those of one fit of all data "
        f"({report.at_once[name][0]:.0%}); "
        "calibrate them after the merge (`decbayes.calibrate`). If components drawn from this prior overlap more than "
        "yours, draw them from a posterior (--like)."
    )


def about_matches(report: PlanReport) -> str:
    wrong = 1.0 - report.right[0]
    return f"{wrong:.0%} of matches are wrong; more data per site, or fewer components." if wrong > TOO_WRONG else ""


def about_scores(plan: Plan, report: PlanReport) -> str:
    gap, error = report.gap
    if gap - 2 * error <= TOO_FAR:
        return ""
    remedy = "more rounds, or more data per site" if plan.rounds else "refine (--rounds)"
    return f"the merge predicts {gap:.2f} nat worse than one fit of all data; {remedy}."
