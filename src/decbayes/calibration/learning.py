"""The map from margins, evidence and overlaps to probabilities, learned by simulating the setting.

The merged posterior is taken as the truth. Each simulated site gets as much data as the real one, from the slots that
it fills, and is fitted and merged in the same way. The truth about each simulated match is known, and a rising curve is
fitted to it.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import ceil
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from scipy.optimize import minimize
from scipy.special import expit

from decbayes.arguments import check_kind, check_whole
from decbayes.calibration.matches import Matches, in_common, overlaps_of
from decbayes.errors import NotCalibrated, StructureMismatch
from decbayes.families import Array, Family
from decbayes.families.matrices import Indices
from decbayes.merging import Alignment, align, reading
from decbayes.merging.base.components import LEAST_EVIDENCE
from decbayes.merging.base.problem import Solver
from decbayes.merging.reading import Curve, Reliability, features
from decbayes.models.core.ascent import Ascent
from decbayes.models.core.model import Model
from decbayes.models.core.registry import model_for
from decbayes.models.core.simulation import drawn_parameters
from decbayes.posterior import Posterior
from decbayes.structure import CoupledSet, Structure
from decbayes.workers import jobs

# The least number of matches to learn from, and of simulated worlds, because the matches of one world are correlated.
MATCHES, WORLDS, MOST_WORLDS = 400, 3, 12
LEAST_MATCHES = 30
# A site has not seen a topic with less than this share.
PRESENT = 0.02
# The ridge penalties of slopes and intercept: a few matches that are all right prove little.
RIDGE, RIDGE_INTERCEPT = 1.0, 0.1
LENGTH = 100.0
# Restarts of a simulated fit, unless a model is given.
RESTARTS = 3
# The evidence of the simulated truth, as a multiple of the merged posterior's.
SHARP = 1e4
# Clusters overlap too much if, even with the true parameters, observations are assigned with less than this
# probability.
LEAST_CERTAINTY, LOOKED_AT = 0.8, 1000


@dataclass(frozen=True)
class Setting:
    """The setting to simulate: the merged posterior as the truth, and the sizes of the sites."""

    alignment: Alignment
    ascent: Ascent | None
    solver: Solver | None
    length: float

    @property
    def coupled(self) -> CoupledSet:
        return self.alignment.structure.symmetry[0]

    def of_structure(self, structure: Structure) -> Model:
        """The model with this structure and the optimizer settings of the given one."""
        try:
            known = model_for(structure)
        except StructureMismatch as error:
            raise NotCalibrated(f"These sites cannot be simulated: {error}") from None
        few = replace(known.ascent, restarts=min(known.ascent.restarts, RESTARTS))
        return replace(known, ascent=self.ascent or few)


def reliability(
    alignment: Alignment,
    *,
    model: Model | None = None,
    solver: Solver | None = None,
    matches: int = MATCHES,
    length: float = LENGTH,
) -> Reliability:
    """Learn how likely matches are right, by simulating sites of the same number, size and similarity.

    It takes about `WORLDS` times as long as the fits and the merge; joblib spreads it over workers. The result depends
    only on the set of posteriors, and is cached.

    Args:
        alignment: the alignment whose matches are judged.
        model: the settings of simulated fits. Default: the posteriors' model with its default settings.
        solver: the solver of the alignment, if it is not the default.
        matches: the least number of matches to simulate.
        length: the mean length of documents in words, if known.

    >>> model = db.GaussianMixture(2, 1, variance=1.0, prior_variance=100.0)
    >>> rng = np.random.default_rng(0)
    >>> shards = [rng.choice([-5.0, 5.0], size=(30, 1)) + rng.normal(size=(30, 1)) for _ in range(3)]
    >>> found = db.align([model.fit(shard, rng=rng).posterior for shard in shards])
    >>> db.checking.reliability(found, matches=30).right > 0.9
    True
    """
    check_kind(Alignment, alignment=alignment)
    check_whole(1, matches=matches)
    key = hashlib.sha256("".join(sorted(posterior.digest for posterior in alignment.posteriors)).encode()).digest()
    merged = alignment.merged().digest
    ascent = None if model is None else model.ascent
    setting = Setting(alignment, ascent, solver, length)
    return learned(Remembered((key, merged, matches, length, ascent, repr(solver)), setting))


@dataclass(frozen=True, eq=False)
class Remembered:
    """A setting that is compared and hashed by its key."""

    key: tuple[Any, ...]
    setting: Setting

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Remembered) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)


@lru_cache(maxsize=16)
def learned(remembered: Remembered) -> Reliability:
    setting, wanted = remembered.setting, remembered.key[2]
    check_setting(setting)
    rng = np.random.default_rng(int.from_bytes(remembered.key[0][:8], "little"))
    expected = sum(len(counts) for counts in reading.observations(setting.alignment, setting.coupled))
    worlds = min(max(WORLDS, ceil(wanted / max(expected, 1))), MOST_WORLDS)
    *streams, first = rng.spawn(worlds + 1)
    check_apart(setting, first)
    simulated = Matches.joined([simulated_matches(setting, stream) for stream in streams])
    if len(simulated) < LEAST_MATCHES:
        raise NotCalibrated(f"Simulations of these sites have {len(simulated)} matches, too few to learn from.")
    return curves_of(simulated, present_margins(setting))


def check_setting(setting: Setting) -> None:
    structure = setting.alignment.structure
    if len(structure.symmetry) != 1 or not structure.resizable:
        raise NotCalibrated("Matches can be calibrated only for one set of components with a common prior.")
    if any(structure.families[name].two_sided for name in setting.coupled.factors):
        raise NotCalibrated("Matches of states cannot be calibrated: differences in transitions are not simulated.")
    if len(setting.alignment.posteriors) < 2:
        raise NotCalibrated("One posterior alone has no matches.")


def check_apart(setting: Setting, rng: np.random.Generator) -> None:
    """Refuse clusters that overlap so much that sites may have found different mixtures of them.

    A simulation treats a slot as one true component, even if it hides several, and the match as right. Topics may share
    many words, because the words of a document inform each other.
    """
    structure = setting.alignment.structure
    if not any(structure.families[name].over_components for name in setting.coupled.factors):
        return
    model, truth = setting.of_structure(structure), sharpened(setting.alignment.merged())
    parts = [model.taken(data, np.arange(min(LOOKED_AT, model.count(data)))) for data in simulated_shards(setting, rng)]
    certainty = float(np.concatenate([model.responsibilities(truth, part)[0].max(axis=1) for part in parts]).mean())
    if certainty < LEAST_CERTAINTY:
        raise NotCalibrated(
            "The clusters overlap: even with the true parameters, observations are assigned with probability "
            f"{certainty:.2f} on average. Sites may have found several as one, which simulations cannot show."
        )


def present_margins(setting: Setting) -> Array:
    """The margins of the actual matches."""
    pairs = zip(reading.margins(setting.alignment), reading.seen(setting.alignment, setting.coupled), strict=True)
    return np.concatenate([margins[setting.coupled][seen] for margins, seen in pairs])


def simulated_matches(setting: Setting, rng: np.random.Generator) -> Matches:
    """The matches of one simulated world, with the truth about each."""
    alignment, coupled = setting.alignment, setting.coupled
    merged = alignment.merged()
    truth = sharpened(merged)
    shards = simulated_shards(setting, rng)
    fitted = fits(setting, shards, rng)
    again = align(fitted, components=alignment.structure.components(coupled), solver=setting.solver)
    model = setting.of_structure(alignment.structure)
    truths = [in_common(model, posterior, truth, shard) for posterior, shard in zip(fitted, shards, strict=True)]
    return Matches.of(again, coupled, overlaps_of(model, again, shards), truths)


def sharpened(posterior: Posterior) -> Posterior:
    """The same posterior with far more evidence, so that draws from it hardly differ."""
    contribution: Any = posterior.contribution
    return Posterior(posterior.structure, {name: SHARP * part for name, part in contribution.items()})


def held_by_slot(alignment: Alignment, coupled: CoupledSet) -> list[Array]:
    """For each site, the number of observations (or words) in each slot."""
    count = alignment.structure.components(coupled)
    pairs = zip(alignment.assignments, reading.observations(alignment, coupled), strict=True)
    return [np.bincount(slots[coupled], weights, minlength=count).astype(np.float64) for slots, weights in pairs]


def simulated_shards(setting: Setting, rng: np.random.Generator) -> list[Any]:
    """Data for all sites, from one draw of the merged posterior."""
    parameters = drawn_parameters(setting.alignment.merged(), rng)
    evidence = held_by_slot(setting.alignment, setting.coupled)
    return [simulated_shard(setting, parameters, site_evidence, rng) for site_evidence in evidence]


def simulated_shard(setting: Setting, parameters: dict[str, Any], evidence: Array, rng: np.random.Generator) -> Any:
    """Data of a site's size, in the proportions of its slots."""
    structure, coupled = setting.alignment.structure, setting.coupled
    families = {name: structure.families[name] for name in coupled.factors}
    weights = [name for name, family in families.items() if family.over_components]
    exclusive = any(family.exclusive for family in families.values())
    size = float(evidence.sum() if exclusive else evidence.max())
    if weights:
        shares = (evidence + LEAST_EVIDENCE) / (evidence + LEAST_EVIDENCE).sum()
        parameters = {**parameters, weights[0]: shares}
    elif exclusive:
        present = np.flatnonzero(evidence > PRESENT * size)
        structure = structure.with_components(max(len(present), 1))
        parameters = {name: rows_of(family, parameters[name], present) for name, family in families.items()}
    model = setting.of_structure(structure)
    in_words = model.unit != "observation"
    options = {"length": setting.length} if in_words else {}
    try:
        data, _ = model.draw(parameters, max(1, round(size / setting.length if in_words else size)), rng, **options)
    except (NotImplementedError, TypeError) as error:
        raise NotCalibrated(f"These sites cannot be simulated: {error}") from None
    return data


def rows_of(family: Family, value: Any, rows: Indices) -> Any:
    """The parameters of some components."""
    return family.of_quantities({name: part[rows] for name, part in family.quantities(value).items()})


def fits(setting: Setting, shards: Sequence[Any], rng: np.random.Generator) -> list[Posterior]:
    """A fit of each simulated shard, with as many components as at the real site."""
    models = [setting.of_structure(posterior.structure) for posterior in setting.alignment.posteriors]
    if len({posterior.structure.fingerprint for posterior in setting.alignment.posteriors}) == 1:
        return [fit.posterior for fit in models[0].fit_many(shards, rng=rng)]
    tasks = zip(models, shards, rng.spawn(len(shards)), strict=True)
    run = Parallel(n_jobs=jobs(), prefer="threads")
    return [fit.posterior for fit in run(delayed(model.fit)(shard, rng=stream) for model, shard, stream in tasks)]


def curves_of(simulated: Matches, margins: Array) -> Reliability:
    """Rising curves fitted to the simulated matches."""
    inputs = features(simulated.margins, simulated.evidence, simulated.losses, simulated.overlaps)
    wrong = simulated.right == 0.0
    return Reliability(
        rising_curve(inputs[:, :-1], simulated.right),
        rising_curve(inputs, simulated.right),
        len(simulated),
        float(simulated.right.mean()),
        float(simulated.nowhere[wrong].mean()) if wrong.any() else 0.0,
        distance(margins, simulated.margins),
    )


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
