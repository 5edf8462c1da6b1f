"""Whether matches are right: their features, and a map from these to probabilities, learned by simulating the setting.

The common posterior of all sites is taken as the truth (`worlds.py`). Each simulated site gets as much data as the real
one, from the slots that it fills, and is fitted and merged in the same way. For each simulated match it is known
whether it is right, and a rising curve is fitted to that.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import ceil
from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit

from decbayes.base.arguments import check_kind, check_whole
from decbayes.calibration.validation import model_of
from decbayes.calibration.worlds import Setting, World, Worlds, in_common_terms, sharpened, simulated_shards, worlds_of
from decbayes.errors import NotCalibrated, StructureMismatch
from decbayes.families import Array
from decbayes.merging import Alignment, reading
from decbayes.merging.base.components import LEAST_EVIDENCE
from decbayes.merging.base.problem import Solver
from decbayes.merging.reading import Curve, Reliability, features
from decbayes.models.core.model import Model
from decbayes.posterior import Posterior
from decbayes.structure import CoupledSet
from decbayes.updates.update import without

# Observations whose responsibilities are in memory at a time.
BLOCK = 2000
HALF, TENTH = 0.5, 0.1
# The least number of matches to learn from, and of simulated worlds, because the matches of one world are correlated.
MATCHES = 400
WORLDS, MOST_WORLDS = 3, 12
LEAST_MATCHES = 30
# The ridge penalties of slopes and intercept: a few matches that are all right prove little.
RIDGE, RIDGE_INTERCEPT = 1.0, 0.1
LENGTH = 100.0
# Clusters overlap too much if, even with the true parameters, observations are assigned with less than this
# probability.
LEAST_CERTAINTY = 0.8
LOOKED_AT = 1000
# Simulations trust the model and the merge. Where they show no wrong matches, this share was right, less a quarter of
# the doubt about which cluster an observation belongs to (docs/benchmarks/statements.md).
TRUSTED, DOUBT = 0.99, 0.25


@dataclass(frozen=True)
class Matches:
    """The matches of some alignments: their features, whether each is right, and whether it belongs to no slot.

    Components without data and those alone in their slots are omitted.
    """

    margins: Array
    evidence: Array
    losses: Array
    overlaps: Array
    right: Array
    nowhere: Array

    def __len__(self) -> int:
        return len(self.right)

    @classmethod
    def joined(cls, parts: Sequence["Matches"]) -> "Matches":
        fields = ("margins", "evidence", "losses", "overlaps", "right", "nowhere")
        return cls(*(np.concatenate([getattr(part, name) for part in parts]) for name in fields))

    @classmethod
    def of(
        cls, alignment: Alignment, coupled: CoupledSet, overlaps: Sequence[Array], truths: Sequence[Array]
    ) -> "Matches":
        """`truths[i]`, (components, true components), counts the data of site i by component and true component."""
        evidence, alone = reading.observations(alignment, coupled), reading.alone(alignment, coupled)
        slots = [assignment[coupled] for assignment in alignment.assignments]
        right, nowhere = judged(slots, truths, alignment.structure.components(coupled))
        kept = np.concatenate([(counts >= LEAST_EVIDENCE) & ~by for counts, by in zip(evidence, alone, strict=True)])
        margins = [site[coupled] for site in reading.margins(alignment)]
        losses = [site[coupled] for site in reading.losses(alignment)]
        columns = (margins, evidence, losses, overlaps, right, nowhere)
        return cls(*(np.concatenate(column)[kept].astype(np.float64) for column in columns))


def judged(slots: Sequence[Any], truths: Sequence[Array], count: int) -> tuple[list[Array], list[Array]]:
    """Whether each component belongs to its slot, and whether it belongs to none.

    Its overlap with a slot is the share of its data that comes from the same true components as the other sites' data
    there: Σ_t min(share of t here, share of t there). It belongs to its slot if the overlap exceeds one half, and no
    other slot's overlap is larger by more than a tenth. True components that cannot be separated are mixed in the same
    proportions everywhere; that is not a wrong match.
    """
    evidence = np.zeros((len(slots), count, truths[0].shape[1]))
    for site, (site_slots, truth) in enumerate(zip(slots, truths, strict=True)):
        np.add.at(evidence[site], site_slots, truth)
    right, nowhere = [], []
    for site, (site_slots, truth) in enumerate(zip(slots, truths, strict=True)):
        others = shares_of(evidence.sum(axis=0) - evidence[site])
        common = np.minimum(shares_of(truth)[:, None, :], others).sum(axis=-1)
        with_slot, most = common[np.arange(len(site_slots)), site_slots], common.max(axis=1)
        right.append(((with_slot > HALF) & (with_slot >= most - TENTH)).astype(np.float64))
        nowhere.append((most <= HALF).astype(np.float64))
    return right, nowhere


def shares_of(amounts: Array) -> Array:
    """Each row divided by its sum; zeros for empty rows."""
    return np.asarray(amounts / np.maximum(amounts.sum(axis=-1, keepdims=True), 1e-300))


def in_common(model: Model, posterior: Posterior, other: Posterior, data: Any) -> Array:
    """(site's components, other components): the data that each pair shares, Σ_n r_nk ρ_ns."""
    model_here, model_there = model_of(model, posterior), model_of(model, other)
    data = model.joined([data])  # as numbers, once for all blocks
    shared, count = np.zeros((1, 1)), model.count(data)
    for first in range(0, count, BLOCK):
        part = model.taken(data, np.arange(first, min(first + BLOCK, count)))
        shares, weights = model_here.responsibilities(posterior, part)
        shared = shared + (weights[:, None] * shares).T @ model_there.responsibilities(other, part)[0]
    return np.asarray(shared)


def overlap(model: Model, alignment: Alignment, site: int, data: Any) -> Array:
    """Per component of a site: the share of its data that the merge of all others assigns to the same slot.

        Σ_n r_nk ρ_ns / Σ_n r_nk,   r from the site's own posterior, ρ from the others' merge, s the slot of k

    The site computes this from its own data and reports one number per component. A high share means that the others
    have the same component in that slot; nobody else can check it.

    Args:
        site: the index of the site's posterior in it.

    >>> model = db.GaussianMixture(2, 1, variance=1.0, prior_variance=100.0)
    >>> rng = np.random.default_rng(0)
    >>> shards = [rng.choice([-5.0, 5.0], size=(30, 1)) + rng.normal(size=(30, 1)) for _ in range(2)]
    >>> found = db.align([model.fit(shard, rng=rng).posterior for shard in shards])
    >>> db.checking.overlap(model, found, 0, shards[0]).round(2)
    array([1., 1.])
    """
    if not 0 <= site < len(alignment.posteriors):
        raise StructureMismatch(f"site must be from 0 to {len(alignment.posteriors) - 1}, not {site!r}.")
    return own_overlap(model, alignment, site, data, alignment.without(site))


def overlaps_of(model: Model, alignment: Alignment, shards: Sequence[Any]) -> list[Array]:
    merged = alignment.merged()
    others = (without(merged, alignment.in_slots(site)) for site in range(len(shards)))
    return [own_overlap(model, alignment, site, shards[site], other) for site, other in enumerate(others)]


def own_overlap(model: Model, alignment: Alignment, site: int, data: Any, others: Posterior) -> Array:
    (coupled,) = alignment.structure.symmetry
    slots = alignment.assignments[site][coupled]
    common = shares_of(in_common(model, alignment.posteriors[site], others, data))
    return np.asarray(common[np.arange(len(slots)), slots])


def reliability(
    alignment: Alignment,
    *,
    model: Model | None = None,
    solver: Solver | None = None,
    matches: int = MATCHES,
    length: float | None = None,
) -> Reliability:
    """Learn how likely matches are right, by simulating sites of the same number, size and similarity.

    It takes about `WORLDS` times as long as the fits and the merge; joblib spreads it over workers. The result depends
    only on the set of posteriors, and is cached.

    Args:
        alignment: the alignment whose matches are judged.
        model: the settings of simulated fits. Default: the posteriors' model with its default settings.
        solver: the solver of the alignment, if it is not the default.
        matches: the least number of matches to simulate.
        length: the mean length of documents in words; default: 100.

    >>> model = db.GaussianMixture(2, 1, variance=1.0, prior_variance=100.0)
    >>> rng = np.random.default_rng(0)
    >>> shards = [rng.choice([-5.0, 5.0], size=(30, 1)) + rng.normal(size=(30, 1)) for _ in range(3)]
    >>> found = db.align([model.fit(shard, rng=rng).posterior for shard in shards])
    >>> db.checking.reliability(found, matches=30).right > 0.9
    True
    """
    check_kind(Alignment, alignment=alignment)
    check_whole(1, matches=matches)
    setting = Setting(alignment, None if model is None else model.ascent, solver, length or LENGTH)
    check_setting(setting)
    return learned(worlds_of(in_common_terms(setting)), matches)


def why_unknown(alignment: Alignment) -> str:
    """Why no simulation can say how likely matches are right; empty if one may, however long it takes."""
    setting = Setting(alignment)
    try:
        check_setting(setting)
        worlds = worlds_of(in_common_terms(setting))
        checked_certainty(worlds.setting, worlds.rng())
    except NotCalibrated as error:
        return str(error)
    return ""


@lru_cache(maxsize=16)
def learned(worlds: Worlds, wanted: int) -> Reliability:
    setting = worlds.setting
    expected = sum(len(counts) for counts in reading.observations(setting.alignment, setting.coupled))
    count = min(max(WORLDS, ceil(wanted / expected)), MOST_WORLDS)
    certainty = checked_certainty(setting, worlds.rng())
    simulated = Matches.joined([simulated_matches(setting, world) for world in worlds.first(count)])
    if len(simulated) < LEAST_MATCHES:
        raise NotCalibrated(f"Simulations of these sites have {len(simulated)} matches, too few to learn from.")
    return curves_of(simulated, present_margins(setting), certainty)


def check_setting(setting: Setting) -> None:
    structure = setting.alignment.structure
    if len(structure.symmetry) != 1 or not structure.resizable:
        raise NotCalibrated("Matches can be calibrated only for one set of components with a common prior.")
    if any(structure.families[name].two_sided for name in setting.coupled.factors):
        raise NotCalibrated("Matches of states cannot be calibrated: differences in transitions are not simulated.")
    if len(setting.alignment.posteriors) < 2:
        raise NotCalibrated("One posterior alone has no matches.")


def checked_certainty(setting: Setting, rng: np.random.Generator) -> float:
    """The mean probability with which the true parameters assign observations to clusters; 1 for topics.

    Clusters that overlap so much that sites may have found different mixtures of them are refused: a simulation treats
    a slot as one true component, even if it hides several, and the match as right. Topics may share many words, because
    the words of a document inform each other.
    """
    structure = setting.alignment.structure
    if not any(structure.families[name].over_components for name in setting.coupled.factors):
        return 1.0
    model, truth = setting.of_structure(structure), sharpened(setting.truth)
    parts = [model.taken(data, np.arange(min(LOOKED_AT, model.count(data)))) for data in simulated_shards(setting, rng)]
    certainty = float(np.concatenate([model.responsibilities(truth, part)[0].max(axis=1) for part in parts]).mean())
    if certainty < LEAST_CERTAINTY:
        raise NotCalibrated(
            "The clusters overlap, or many values are missing: even with the true parameters, observations are "
            f"assigned with probability {certainty:.2f} on average. Sites may have found several as one, "
            "which simulations cannot show."
        )
    return certainty


def present_margins(setting: Setting) -> Array:
    pairs = zip(reading.margins(setting.alignment), reading.seen(setting.alignment, setting.coupled), strict=True)
    return np.concatenate([margins[setting.coupled][seen] for margins, seen in pairs])


def simulated_matches(setting: Setting, world: World) -> Matches:
    """The matches of one simulated world, with the truth about each."""
    truth, shards = sharpened(setting.truth), world.shards
    model = setting.of_structure(setting.alignment.structure)
    pairs = zip(world.alignment.posteriors, shards, strict=True)
    truths = [in_common(model, posterior, truth, shard) for posterior, shard in pairs]
    return Matches.of(world.alignment, setting.coupled, overlaps_of(model, world.alignment, shards), truths)


def curves_of(simulated: Matches, margins: Array, certainty: float = 1.0) -> Reliability:
    """Rising curves fitted to the simulated matches, and the highest probability to state."""
    inputs = features(simulated.margins, simulated.evidence, simulated.losses, simulated.overlaps)
    wrong = simulated.right == 0.0
    by_margin, by_overlap = (rising_curve(columns, simulated.right) for columns in (inputs[:, :-1], inputs))
    return Reliability(
        by_margin,
        by_overlap,
        len(simulated),
        float(simulated.right.mean()),
        float(simulated.nowhere[wrong].mean()) if wrong.any() else 0.0,
        distance(margins, simulated.margins),
        TRUSTED * (1.0 - DOUBT * (1.0 - certainty)) * shown_at_most(by_margin(inputs[:, :-1]), simulated.right),
    )


def shown_at_most(probabilities: Array, right: Array) -> float:
    """The highest probability that simulated matches can show: (r + 1) / (n + 2), if r of the n surest are right."""
    surest = right[np.argsort(-probabilities, kind="stable")]
    return float(((np.cumsum(surest) + 1.0) / (np.arange(len(surest)) + 3.0)).max())


def rising_curve(inputs: Array, right: Array) -> Curve:
    """Logistic regression with non-negative slopes and a ridge penalty in units of each feature's spread."""
    centre, scale = inputs.mean(axis=0), np.maximum(inputs.std(axis=0), 1e-6)
    scaled = (inputs - centre) / scale
    ridge = np.array([RIDGE_INTERCEPT, *np.full(inputs.shape[1], RIDGE)])
    design = np.column_stack([np.ones(len(inputs)), scaled])

    def loss(coefficients: Array) -> tuple[float, Array]:
        score = design @ coefficients
        value = np.logaddexp(0.0, score).sum() - right @ score + 0.5 * ridge @ coefficients**2
        return float(value), design.T @ (expit(score) - right) + ridge * coefficients

    bounds = [(None, None)] + [(0.0, None)] * inputs.shape[1]
    optimum = minimize(loss, np.zeros(len(ridge)), jac=True, method="L-BFGS-B", bounds=bounds).x
    slopes = optimum[1:] / scale
    return Curve(float(optimum[0] - slopes @ centre), tuple(map(float, slopes)))


def distance(sample: Array, other: Array) -> float:
    """The Kolmogorov–Smirnov distance of two samples."""
    points = np.sort(np.concatenate([sample, other]))
    one, two = (np.searchsorted(np.sort(part), points, side="right") / max(len(part), 1) for part in (sample, other))
    return float(np.abs(one - two).max(initial=0.0))
