"""Worlds in which the merge is the truth: sites of the same number and sizes, fitted and merged in the same way.

The truth about matches and differences between sites is known there. Worlds show how often matches of such sites are
right, and how far such sites differ by chance.

Where components overlap, fits of similar data divide them differently and end in different places. So the truth is not
the merge itself but what the sites' fits imply in common slots: data are drawn from each fit and divided according to
all sites together, with the site's own weights:

    c_i(λ) = n_i E[T(x) | λ],   x drawn from the fit of site i;   λ ← λ0 + Σ_i c_i(λ)

The resulting contributions differ only as far as the data do: comparing them is a score test at λ, which is closer than
the merge to one fit of all data.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from joblib import Parallel, delayed

from decbayes.base.workers import jobs
from decbayes.errors import InvalidStructure, NotCalibrated, StructureMismatch
from decbayes.families import Array, Family, dense
from decbayes.families.matrices import Indices
from decbayes.merging import Alignment, align, reading
from decbayes.merging.base.components import LEAST_EVIDENCE, group_evidence
from decbayes.merging.base.problem import Solver
from decbayes.models.core.ascent import Ascent
from decbayes.models.core.model import Model
from decbayes.models.core.registry import model_for
from decbayes.models.core.simulation import drawn_parameters
from decbayes.posterior import Posterior
from decbayes.structure import CoupledSet, Structure, identity

# A site with a smaller share of a topic has not seen it.
PRESENT = 0.02
# Restarts of a simulated fit, unless a model is given.
RESTARTS = 3
# Evidence of the simulated truth, relative to the merged posterior's.
SHARP = 1e4
# Observations (or words) × components × columns of a world that may be simulated unasked: all worlds take seconds.
QUICK = 2_000_000
# Columns that a word counts as, because a pass visits each word several times.
WORDS = 10

# Data are drawn at this multiple of a site's observations, and at least this many, so that the draw hardly matters.
TIMES, LEAST_DRAWN = 5, 300
# Rounds of dividing data and updating the common posterior.
ROUNDS = 12
# Observations added to each slot's weight so that none stays empty.
SOME = 0.5

Contributions = dict[str, Array]


@dataclass(frozen=True)
class Setting:
    """What to simulate: the true posterior and the sizes of the sites.

    Attributes:
        alignment: the alignment whose merge is the truth.
        ascent: how simulated sites fit; default: as the model does, with fewer restarts.
        solver: how they are aligned; default: the model's.
        length: the mean length of documents in words.
        sites: the posteriors to simulate; default: all, in their canonical order.
        most: the most observations of a simulated site.
        redivided: the sites' contributions in common slots, the truth in place of the merge (`redivide`).
    """

    alignment: Alignment
    ascent: Ascent | None = None
    solver: Solver | None = None
    length: float = 100.0
    sites: tuple[int, ...] = ()
    most: float = np.inf
    redivided: Alignment | None = None

    @property
    def truth(self) -> Posterior:
        return (self.redivided or self.alignment).merged()

    @property
    def coupled(self) -> CoupledSet:
        return self.alignment.structure.symmetry[0]

    @property
    def families(self) -> dict[str, Family]:
        return {name: self.alignment.structure.families[name] for name in self.coupled.factors}

    @property
    def chosen(self) -> tuple[int, ...]:
        """The simulated posteriors, in an order that depends only on their contents."""
        return self.sites or self.alignment.order

    @cached_property
    def evidence(self) -> list[Array]:
        """Per simulated site: the number of observations (or words) in each slot."""
        counts = reading.support(self.redivided or self.alignment, self.coupled)[list(self.chosen)]
        return [site * (self.most / site.sum() if site.sum() > self.most else 1.0) for site in counts]

    @property
    def posteriors(self) -> list[Posterior]:
        return [self.alignment.posteriors[site] for site in self.chosen]

    @property
    def work(self) -> float:
        """Observations × components × columns of one world."""
        width = sum(
            WORDS if family.countable else self.alignment.structure.prior[name].shape[1]
            for name, family in self.families.items()
        )
        return float(sum(site.sum() * len(site) for site in self.evidence)) * width

    def of_structure(self, structure: Structure) -> Model:
        """The model with this structure and the optimizer settings of the given one."""
        if structure not in self.models:
            try:
                known = model_for(structure)
            except (StructureMismatch, InvalidStructure) as error:
                raise NotCalibrated(f"These sites cannot be simulated: {error}") from None
            few = replace(known.ascent, restarts=min(known.ascent.restarts, RESTARTS))
            self.models[structure] = replace(known, ascent=self.ascent or few)
        return self.models[structure]

    @cached_property
    def models(self) -> dict[Structure, Model]:
        """Models by structure: the same ones are asked for again and again."""
        return {}

    @property
    def key(self) -> tuple[Any, ...]:
        """What the worlds depend on: the set of posteriors, and the settings of the simulation."""
        posteriors = "".join(sorted(posterior.digest for posterior in self.alignment.posteriors))
        contents = hashlib.sha256(posteriors.encode()).digest()
        settings = self.length, self.ascent, repr(self.solver), len(self.chosen), self.most, self.redivided is None
        return contents, self.alignment.merged().digest, *settings


@dataclass(frozen=True)
class World:
    """Simulated data of all sites, and the alignment of their fits."""

    shards: Sequence[Any]
    alignment: Alignment


@dataclass(frozen=True, eq=False)
class Worlds:
    """The worlds of one setting, simulated on demand and kept."""

    setting: Setting
    key: tuple[Any, ...]
    worlds: list[World] = field(default_factory=list)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Worlds) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)

    def first(self, count: int) -> list[World]:
        """The first `count` worlds, always the same."""
        for number in range(len(self.worlds), count):
            self.worlds.append(simulated_world(self.setting, self.rng(number)))
        return self.worlds[:count]

    def rng(self, *number: int) -> np.random.Generator:
        """Random numbers that depend only on the setting."""
        return np.random.default_rng([int.from_bytes(self.key[0][:8], "little"), *number])


def worlds_of(setting: Setting) -> Worlds:
    return remembered(Worlds(setting, setting.key))


@lru_cache(maxsize=4)
def remembered(worlds: Worlds) -> Worlds:
    return worlds


def quick(alignment: Alignment) -> bool:
    """Whether simulating sites like these takes seconds."""
    sets = alignment.structure.symmetry
    return len(sets) == 1 and Setting(alignment).work <= QUICK


def simulated_world(setting: Setting, rng: np.random.Generator) -> World:
    alignment = setting.alignment
    shards = simulated_shards(setting, rng)
    fitted = fits(setting, shards, rng)
    count = alignment.structure.components(setting.coupled)
    return World(shards, align(fitted, components=count, solver=setting.solver))


def sharpened(posterior: Posterior) -> Posterior:
    """The posterior with far more evidence, so that draws from it hardly differ."""
    contribution: Any = posterior.contribution
    return Posterior(posterior.structure, {name: SHARP * part for name, part in contribution.items()})


def simulated_shards(setting: Setting, rng: np.random.Generator) -> list[Any]:
    """Data of all sites, from one draw of the merged posterior."""
    parameters = drawn_parameters(setting.truth, rng)
    return [simulated_shard(setting, parameters, site, rng) for site in range(len(setting.evidence))]


def simulated_shard(setting: Setting, parameters: dict[str, Any], site: int, rng: np.random.Generator) -> Any:
    """Data of a site's size, in the proportions of its slots."""
    structure, evidence = setting.alignment.structure, setting.evidence[site]
    size, options = number_and_length(setting, site)
    weights = [name for name, family in setting.families.items() if family.over_components]
    if weights and not options:
        shares = (evidence + LEAST_EVIDENCE) / (evidence + LEAST_EVIDENCE).sum()
        parameters = {**parameters, weights[0]: shares}
    elif not weights and exclusive(setting):
        present = np.flatnonzero(evidence >= PRESENT * evidence.sum())
        structure = structure.with_components(len(present))
        parameters = {name: rows_of(family, parameters[name], present) for name, family in setting.families.items()}
    source = (setting.redivided or setting.alignment).in_slots(setting.chosen[site])
    return drawn_data(setting.of_structure(structure), parameters, size, rng, options, source)


def drawn_data(
    model: Model,
    parameters: dict[str, Any],
    size: int,
    rng: np.random.Generator,
    options: dict[str, Any],
    source: Posterior,
) -> Any:
    """Data given the parameters, with as many missing values as behind the contribution of a site."""
    if model.made_up:
        raise NotCalibrated("These sites cannot be simulated: their predictors are not known.")
    try:
        data, hidden = model.draw(parameters, size, rng, **options)
    except (NotImplementedError, TypeError) as error:
        raise NotCalibrated(f"These sites cannot be simulated: {error}") from None
    return model.with_gaps(data, hidden, source, rng)


def exclusive(setting: Setting) -> bool:
    return any(family.exclusive for family in setting.families.values())


def number_and_length(setting: Setting, site: int) -> tuple[int, dict[str, Any]]:
    """The number of observations of a simulated site, and their length where they have one."""
    evidence, posterior = setting.evidence[site], setting.posteriors[site]
    total = float(evidence.sum() if exclusive(setting) else evidence.max())
    counted = [name for name, family in setting.families.items() if family.over_components and not family.two_sided]
    if any(family.two_sided for family in setting.families.values()):
        steps = float(group_evidence(posterior, setting.coupled.factors).sum())
        sequences = float(dense(posterior.contribution[counted[0]]).sum())
        number = max(1, round(sequences * total / max(steps, 1.0)))
        return number, {"length": max(1, round(total / number))}
    if setting.of_structure(posterior.structure).unit == "observation":
        return max(1, round(total)), {}
    return max(1, round(total / setting.length)), {"length": setting.length}


def rows_of(family: Family, value: Any, rows: Indices) -> Any:
    """The parameters of some components."""
    return family.of_quantities({name: part[rows] for name, part in family.quantities(value).items()})


def fits(setting: Setting, shards: Sequence[Any], rng: np.random.Generator) -> list[Posterior]:
    """Fits of the simulated shards, with as many components as at the real sites."""
    models = [setting.of_structure(posterior.structure) for posterior in setting.posteriors]
    if len({posterior.structure.fingerprint for posterior in setting.posteriors}) == 1:
        return [fit.posterior for fit in models[0].fit_many(shards, rng=rng)]
    tasks = zip(models, shards, rng.spawn(len(shards)), strict=True)
    run = Parallel(n_jobs=jobs(), prefer="threads")
    return [fit.posterior for fit in run(delayed(model.fit)(shard, rng=stream) for model, shard, stream in tasks)]


def in_common_terms(setting: Setting) -> Setting:
    """The setting with the sites' redivided contributions as the truth; not for topics, whose documents are unknown."""
    counted = any(family.countable for family in setting.families.values())
    return setting if counted else replace(setting, redivided=redivide(setting))


def redivide(setting: Setting) -> Alignment:
    """The alignment of all sites' contributions, redivided among its slots; the same for the same posteriors."""
    alignment, whole = setting.alignment, replace(setting, sites=(), most=np.inf, redivided=None)
    structure = alignment.structure
    model = replace(setting.of_structure(structure), ascent=Ascent(passes=1))
    rng = np.random.default_rng(int.from_bytes(setting.key[0][8:16], "little"))
    drawn = [described(whole, place, rng) for place in range(len(whole.chosen))]
    weights = [name for name in setting.coupled.factors if structure.families[name].over_components]
    contributions = [parts_of(alignment.in_slots(site)) for site in whole.chosen]
    common = parts_of(alignment.merged())
    for _ in range(ROUNDS):
        for place, (data, times) in enumerate(drawn):
            belief = Posterior(
                structure, {**common, **{name: times * contributions[place][name] + SOME for name in weights}}
            )
            contributions[place] = parts_of(model.contributed(belief, data), 1.0 / times)
        common = {name: np.sum([part[name] for part in contributions], axis=0) for name in common}
    return in_common_slots(alignment, whole.chosen, contributions)


def described(setting: Setting, place: int, rng: np.random.Generator) -> tuple[Any, float]:
    """Data drawn from a site's fit, and their number relative to the site's."""
    posterior, (size, options) = setting.posteriors[place], number_and_length(setting, place)
    times = max(TIMES, -(-LEAST_DRAWN // (size * options.get("length", 1))))
    parameters = drawn_parameters(sharpened(posterior), rng)
    model = setting.of_structure(posterior.structure)
    return drawn_data(model, parameters, size * times, rng, options, posterior), float(times)


def parts_of(posterior: Posterior, scale: float = 1.0) -> Contributions:
    return {name: scale * dense(part) for name, part in posterior.contribution.items()}


def in_common_slots(alignment: Alignment, order: Sequence[int], contributions: Sequence[Contributions]) -> Alignment:
    structure = alignment.structure
    by_site = {site: Posterior(structure, parts) for site, parts in zip(order, contributions, strict=True)}
    stays = {coupled: identity(structure.components(coupled)) for coupled in structure.symmetry}
    posteriors = [by_site[site] for site in sorted(by_site)]
    return Alignment(tuple(stays for _ in posteriors), (), posteriors, alignment.order, structure)
