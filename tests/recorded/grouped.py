"""What a search for slots and the remarks on its result rest on, where components overlap and sites are unlike."""

from functools import cache

import numpy as np
from parts import unlike_sites

import decbayes as db
from decbayes.merging import reading, remarking
from decbayes.merging.base import lineage
from decbayes.merging.base.components import Components, bases, evidence_by_site, sites_of
from decbayes.merging.grouping import _escapes, default_number, number, shared
from decbayes.merging.grouping.inherited_ids import home_slots, inherited
from decbayes.merging.grouping.joins import greedy_joins, grown_labels
from decbayes.merging.grouping.search import SlotSearch, count_new_slots, start_empty_slots
from decbayes.merging.reading import _confidence, _heterogeneity, _influence

SLOTS = 3
NAMES = tuple("PQRSTUVWXYZ")


@cache
def aligned(name):
    alignment = db.align(unlike_sites(name), components=SLOTS)
    return alignment, *alignment.structure.symmetry


def chosen(name):
    alignment, _ = aligned(name)
    return {
        "remarks": list(db.merging.remarks(alignment, NAMES[: len(alignment.posteriors)])),
        "chosen": [db.align(unlike_sites(name), components=how).assignments for how in (None, "auto", "largest")],
    }


def searched(name):
    """A search that begins anywhere."""
    alignment, coupled = aligned(name)
    problem = alignment.problem(coupled)
    components = Components.of(problem.factors, [*problem.contents])
    rng, everyone = np.random.default_rng(2), np.arange(len(components))
    base = bases(components.factors, float(components.evidence.sum()), SLOTS)
    start = rng.integers(SLOTS, size=len(components))
    search = SlotSearch(components, start.copy(), base, SLOTS)
    first, second = np.triu_indices(SLOTS, 1)
    found = {
        "gains": search.gains(everyone), "joins": search.join_losses(), "alone": search.alone(), "lost": search.lost(),
        "margins": search.margins(), "freedom": search.freedom(np.arange(SLOTS)), "bases": base,
        "halves": search.halves([np.flatnonzero(start == slot) for slot in range(SLOTS)]),
        "proposed": _escapes.proposals(search, {}, 0.0), "factors": _escapes.bayes_factors(search),
        "noise": _escapes.noise(search), "evidence": components.evidence, "value": search.value(),
        "weights": _escapes.weight_gain(search, np.array([20.0, 50.0, 3.0]), first, second),
        "tree": greedy_joins(components, base).linkage(), "grown": grown_labels(components, base, SLOTS),
    }  # fmt: skip
    found["moved"] = search.moves(), search.labels.copy()
    search.restart(start)
    search.join(0, 2)
    found["joined"] = search.value(), search.labels.copy(), search.join_losses()
    for action in (lambda each: _escapes.escape(each, 2), _escapes.vacate):
        tried = SlotSearch(components, start.copy(), base, SLOTS)
        action(tried)
        found[f"labels {len(found)}"] = tried.labels
    sites = sites_of(problem)
    fresh = SlotSearch(components, np.where(start == 1, -1, start), base, SLOTS)
    known = np.array([True, False, True])
    found["births"] = [count_new_slots(fresh, known, sites, noise) for noise in (0.01, 1.0, 1e3)]
    start_empty_slots(fresh, np.array([4.0, 0.0, 5.0]), sites)
    found["begun"] = fresh.labels
    return found


def numbered(name):
    alignment, coupled = aligned(name)
    problem = alignment.problem(coupled)
    components = Components.of(problem.factors, [*problem.contents])
    looks = list(number.cheapest_joins(components, 5))
    found = default_number.default_number(problem)
    return {
        "looks": [(look.slots, look.cost, look.noise, look.known, look.spread) for look in looks],
        "limits": [looks[0].limit(ratio) for ratio in (0.5, 2.0)],
        "descents": [number.descend(components, start) for start in (2, 3, 5)],
        "default": (found, str(found)),
        "alike": [default_number.alike_in(problem, slots) for slots in (1, 2, 4)],
        "scores": [
            default_number.OtherSites.of(problem, np.arange(len(components))).score(
                default_number.searched(components, np.arange(len(components)) % slots, slots)
            )
            for slots in (2, 3)
        ],
    }


def of_shared(name):
    alignment, coupled = aligned(name)
    of_set, problem = alignment.shared()[coupled], alignment.problem(coupled)
    evidence = np.random.default_rng(4).gamma(0.5, 40.0, size=(6, 4))
    return {
        "fields": {name: getattr(of_set, name) for name in (
            "evidence", "split", "limit", "predictive", "parameters", "per_parameter", "apart", "duplicates",
            "unlike")},
        "sites": [of_set.sites(slot) for slot in range(SLOTS)],
        "private": of_set.private,
        "predictive": shared.predictive_gains(np.array([-1.0, 3.0, 40.0]), np.array([[5.0, 9], [0.0, 7], [30.0, 80]])),
        "together": _confidence.kept_together(alignment, coupled),
        "gains": remarking.share_gains(evidence, 3.0, np.eye(evidence.shape[1]), np.full(len(evidence), np.inf)),
        "separate": [*remarking.separate(evidence, NAMES), *remarking.separate(np.diag([9.0, 8.0, 7.0]), NAMES)],
        "by site": evidence_by_site(problem),
    }  # fmt: skip


def compared(name):
    """Influence, parties, and how far sites differ, given what chance makes of it."""
    alignment, coupled = aligned(name)
    chance = _heterogeneity.Chance(np.full(SLOTS, 1.3), np.full(SLOTS, 4.0), np.full(SLOTS, 12.0))
    influence, reliability = reading.influence(alignment), reliable()
    overlaps = [np.linspace(0.2, 0.9, len(slots)) for slots in alignment.slots(coupled)]
    sure = reading.confidence(alignment, reliability, overlaps)
    return {
        "spread": _heterogeneity.spread_of_components(alignment, coupled),
        "differences": _heterogeneity.of_components(alignment, coupled, chance),
        "influence": [getattr(influence, name) for name in (
            "share", "apart", "against", "times_median", "large", "disagreeing")],
        "flags": [influence.flags(site) for site in range(len(alignment.posteriors))],
        "odd": _influence.odd_ones(np.array([[1.0, 9.0], [1.1, 1.0], [0.9, 1.2], [1.0, 0.8]]), np.ones((4, 2), bool)),
        "confidence": ([site[coupled] for site in sure.probabilities], sure.expected_wrong(coupled)),
        "nowhere": [site[coupled] for site in sure.nowhere()],
        "without": alignment.without(0),
        "in slots": alignment.in_slots(1),
    }  # fmt: skip


def reliable():
    by_margin = _confidence.Curve(0.3, slopes=(0.5, 0.2, 0.1))
    by_overlap = _confidence.Curve(-0.4, slopes=(0.3, 0.1, 0.2, 0.7))
    return db.merging.Reliability(by_margin, by_overlap, matches=100, right=0.9, nowhere=0.5)


def followed(name):
    """From a merge of half of the sites, and ids that most of the evidence has."""
    sites, (alignment, _) = unlike_sites(name), aligned(name)
    before, after = lineage.with_ids(db.merge(sites[:4])), alignment.merged()
    old, new = lineage.as_components(before), lineage.as_components(after)
    apart, events = lineage.distances(old, new), lineage.follow(before, after)
    ids = [("a", "b"), ("b", "a"), ("a", "")]
    evidence = np.array([5.0, 1.0, 2.0, 4.0, 3.0, 9.0])
    return {
        "apart": apart,
        "matched": lineage.matched(0.6 * apart, old.evidence, new.evidence),
        "events": [(event.kind, event.share) for event in events.events],
        "slots": events.slots,
        "homes": home_slots(ids, [2, 2, 2], evidence, 3),
        "inherited": inherited(ids, [np.array([0, 1]), np.array([1, 2]), np.array([0, 2])], evidence, 3),
    }


GROUPED = {"search": searched, "numbers": numbered, "shared": of_shared, "site by site": compared,
           "lineage": followed, "chosen": chosen}  # fmt: skip
