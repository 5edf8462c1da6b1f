"""What margins, evidence and overlaps are worth in one setting: learned by simulating that very setting.

The merged posterior stands for the truth. Each site gets data of its own size, from the slots that it has filled; it is
fitted and merged as the real ones were. Whether a simulated match is right is known, and a rising curve learns from it.
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
from decbayes.structure import Structure
from decbayes.symmetry import CoupledSet
from decbayes.workers import jobs

# Matches to learn from, at least; and worlds to draw them from, since the matches of one world have much in common.
MATCHES, WORLDS, MOST_WORLDS = 400, 3, 12
LEAST_MATCHES = 30
# A topic of which a site has less than this share is none that it has seen.
PRESENT = 0.02
# How strongly slopes and the intercept are held at zero: a few matches that are all right prove little.
RIDGE, RIDGE_INTERCEPT = 1.0, 0.1
LENGTH = 100.0
# Starts of a simulated fit, besides the first, unless a model says otherwise.
RESTARTS = 3
# The truth of a simulation knows this many times as much as the merged posterior.
SHARP = 1e4
# Clusters are too much alike to learn from if the truth itself knows which an observation is from with less than this.
LEAST_TOLD, LOOKED_AT = 0.8, 1000


@dataclass(frozen=True)
class Setting:
    """What is simulated: the merged posterior as the truth, and each site as it is."""

    found: Alignment
    ascent: Ascent | None
    solver: Solver | None
    length: float

    @property
    def coupled(self) -> CoupledSet:
        return self.found.structure.symmetry[0]

    def of_structure(self, structure: Structure) -> Model:
        """The model with this structure; how hard fits try is as in the given one."""
        try:
            known = model_for(structure)
        except StructureMismatch as error:
            raise NotCalibrated(f"There is no way to simulate: {error}") from None
        few = replace(known.ascent, restarts=min(known.ascent.restarts, RESTARTS))
        return replace(known, ascent=self.ascent or few)


def reliability(
    found: Alignment,
    *,
    model: Model | None = None,
    solver: Solver | None = None,
    matches: int = MATCHES,
    length: float = LENGTH,
) -> Reliability:
    """Learn how likely matches are right, by simulating sites like these: as many, as large, as much alike.

    It takes about `WORLDS` times as long as the fits and the merge did; joblib spreads it over workers. The result
    depends on the set of posteriors alone, and is remembered.

    Args:
        found: the alignment whose matches are in question.
        model: how hard simulated fits try. Default: the posteriors' model with its usual settings.
        solver: the solver of the alignment, if it is not the default.
        matches: how many matches to simulate at least.
        length: the mean length of documents in words, if it is known.

    >>> model = db.GaussianMixture(2, 1, variance=1.0, prior_variance=100.0)
    >>> rng = np.random.default_rng(0)
    >>> shards = [rng.choice([-5.0, 5.0], size=(30, 1)) + rng.normal(size=(30, 1)) for _ in range(3)]
    >>> found = db.align([model.fit(shard, rng=rng).posterior for shard in shards])
    >>> db.checking.reliability(found, matches=30).right > 0.9
    True
    """
    check_kind(Alignment, found=found)
    check_whole(1, matches=matches)
    key = hashlib.sha256("".join(sorted(each.digest for each in found.posteriors)).encode()).digest()
    merged = found.merged().digest
    ascent = None if model is None else model.ascent
    setting = Setting(found, ascent, solver, length)
    return learned(Remembered((key, merged, matches, length, ascent, repr(solver)), setting))


@dataclass(frozen=True, eq=False)
class Remembered:
    """A setting that is the same as another if its key is."""

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
    expected = sum(len(each) for each in reading.observations(setting.found, setting.coupled))
    worlds = min(max(WORLDS, ceil(wanted / max(expected, 1))), MOST_WORLDS)
    *each, first = rng.spawn(worlds + 1)
    check_apart(setting, first)
    simulated = Matches.joined([simulated_matches(setting, own) for own in each])
    if len(simulated) < LEAST_MATCHES:
        raise NotCalibrated(f"Simulations of these sites have {len(simulated)} matches, too few to learn from.")
    return curves_of(simulated, present_margins(setting))


def check_setting(setting: Setting) -> None:
    structure = setting.found.structure
    if len(structure.symmetry) != 1 or not structure.resizable:
        raise NotCalibrated("Matches are calibrated where one set of components with a common prior is aligned.")
    if any(structure.families[name].two_sided for name in setting.coupled.factors):
        raise NotCalibrated("Matches of states are not calibrated: how sites' transitions differ is not simulated.")
    if len(setting.found.posteriors) < 2:
        raise NotCalibrated("One posterior alone has no matches.")


def check_apart(setting: Setting, rng: np.random.Generator) -> None:
    """Refuse clusters that overlap so much that a site may have found several as one, and another site other ones.

    A simulation cannot know what is hidden in a slot: it takes the slot for one thing, and the match for right. Topics
    may have many words in common, since the words of a document tell about each other.
    """
    structure = setting.found.structure
    if not any(structure.families[name].over_components for name in setting.coupled.factors):
        return
    model, truth = setting.of_structure(structure), sharpened(setting.found.merged())
    parts = [model.taken(data, np.arange(min(LOOKED_AT, model.count(data)))) for data in simulated_shards(setting, rng)]
    told = float(np.concatenate([model.responsibilities(truth, part)[0].max(axis=1) for part in parts]).mean())
    if told < LEAST_TOLD:
        raise NotCalibrated(
            f"The clusters overlap: who knew them would say which one an observation is from with {told:.2f} only. "
            "Sites may have found several as one, which simulations would not know."
        )


def present_margins(setting: Setting) -> Array:
    """The margins of the matches at hand."""
    pairs = zip(reading.margins(setting.found), reading.seen(setting.found, setting.coupled), strict=True)
    return np.concatenate([margins[setting.coupled][seen] for margins, seen in pairs])


def simulated_matches(setting: Setting, rng: np.random.Generator) -> Matches:
    """The matches of one simulated world, with the truth about each."""
    found, coupled = setting.found, setting.coupled
    merged = found.merged()
    truth = sharpened(merged)
    shards = simulated_shards(setting, rng)
    fitted = fits(setting, shards, rng)
    again = align(fitted, components=found.structure.components(coupled), solver=setting.solver)
    model = setting.of_structure(found.structure)
    truths = [in_common(model, own, truth, shard) for own, shard in zip(fitted, shards, strict=True)]
    return Matches.of(again, coupled, overlaps_of(model, again, shards), truths)


def sharpened(posterior: Posterior) -> Posterior:
    """The same posterior of far more data: draws from it hardly differ, and it knows what they are."""
    contribution: Any = posterior.contribution
    return Posterior(posterior.structure, {name: SHARP * part for name, part in contribution.items()})


def held_by_slot(found: Alignment, coupled: CoupledSet) -> list[Array]:
    """For each site, how many observations (or words) it has put into each slot."""
    count = found.structure.components(coupled)
    pairs = zip(found.assignments, reading.observations(found, coupled), strict=True)
    return [np.bincount(own[coupled], weights, minlength=count).astype(np.float64) for own, weights in pairs]


def simulated_shards(setting: Setting, rng: np.random.Generator) -> list[Any]:
    """Data for all sites, of one truth that the merged posterior finds likely."""
    parameters = drawn_parameters(setting.found.merged(), rng)
    held = held_by_slot(setting.found, setting.coupled)
    return [simulated_shard(setting, parameters, own, rng) for own in held]


def simulated_shard(setting: Setting, parameters: dict[str, Any], held: Array, rng: np.random.Generator) -> Any:
    """Data of a site's size, in the proportions in which it has filled the slots."""
    structure, coupled = setting.found.structure, setting.coupled
    families = {name: structure.families[name] for name in coupled.factors}
    weights = [name for name, family in families.items() if family.over_components]
    exclusive = any(family.exclusive for family in families.values())
    size = float(held.sum() if exclusive else held.max())
    if weights:
        shares = (held + LEAST_EVIDENCE) / (held + LEAST_EVIDENCE).sum()
        parameters = {**parameters, weights[0]: shares}
    elif exclusive:
        present = np.flatnonzero(held > PRESENT * size)
        structure = structure.with_components(max(len(present), 1))
        parameters = {name: rows_of(family, parameters[name], present) for name, family in families.items()}
    model = setting.of_structure(structure)
    in_words = model.unit != "observation"
    options = {"length": setting.length} if in_words else {}
    try:
        data, _ = model.draw(parameters, max(1, round(size / setting.length if in_words else size)), rng, **options)
    except (NotImplementedError, TypeError) as error:
        raise NotCalibrated(f"There is no way to simulate: {error}") from None
    return data


def rows_of(family: Family, value: Any, rows: Indices) -> Any:
    """The parameters of some components."""
    return family.of_quantities({name: part[rows] for name, part in family.quantities(value).items()})


def fits(setting: Setting, shards: Sequence[Any], rng: np.random.Generator) -> list[Posterior]:
    """A fit of each simulated shard, with as many components as the site's own."""
    models = [setting.of_structure(posterior.structure) for posterior in setting.found.posteriors]
    if len({posterior.structure.fingerprint for posterior in setting.found.posteriors}) == 1:
        return [fit.posterior for fit in models[0].fit_many(shards, rng=rng)]
    tasks = zip(models, shards, rng.spawn(len(shards)), strict=True)
    found = Parallel(n_jobs=jobs(), prefer="threads")(delayed(each.fit)(shard, rng=own) for each, shard, own in tasks)
    return [fit.posterior for fit in found]


def curves_of(simulated: Matches, margins: Array) -> Reliability:
    """Rising curves of the simulated matches."""
    told = features(simulated.margins, simulated.evidence, simulated.losses, simulated.overlaps)
    wrong = simulated.right == 0.0
    return Reliability(
        rising_curve(told[:, :-1], simulated.right),
        rising_curve(told, simulated.right),
        len(simulated),
        float(simulated.right.mean()),
        float(simulated.nowhere[wrong].mean()) if wrong.any() else 0.0,
        distance(margins, simulated.margins),
    )


def rising_curve(told: Array, right: Array) -> Curve:
    """Logistic regression with slopes of at least zero, held near zero by a ridge in units of each feature's spread."""
    centre, scale = told.mean(axis=0), np.maximum(told.std(axis=0), 1e-6)
    scaled = (told - centre) / scale
    ridge = np.array([RIDGE_INTERCEPT, *np.full(told.shape[1], RIDGE)])
    design = np.column_stack([np.ones(len(told)), scaled])

    def loss(coefficients: Array) -> tuple[float, Array]:
        score = design @ coefficients
        value = np.logaddexp(0.0, score).sum() - right @ score + 0.5 * ridge @ coefficients**2
        return float(value), design.T @ (expit(score) - right) + ridge * coefficients

    bounds = [(None, None)] + [(0.0, None)] * told.shape[1]
    found = minimize(loss, np.zeros(len(ridge)), jac=True, method="L-BFGS-B", bounds=bounds).x
    slopes = found[1:] / scale
    return Curve(float(found[0] - slopes @ centre), tuple(map(float, slopes)))


def distance(sample: Array, other: Array) -> float:
    """The Kolmogorov–Smirnov distance of two samples."""
    points = np.sort(np.concatenate([sample, other]))
    one, two = (np.searchsorted(np.sort(part), points, side="right") / max(len(part), 1) for part in (sample, other))
    return float(np.abs(one - two).max(initial=0.0))
