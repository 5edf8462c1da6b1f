"""What robust merges and comparisons of sites rest on: sums and losses that their results, often zero or one, hide."""

from dataclasses import replace
from functools import cache

import numpy as np
from scipy.sparse import csr_array
from zoo import ZOO

import decbayes as db
from decbayes.merging.base.canonical import canonical_order
from decbayes.merging.robust import _allowances, _ballot, _confirmation, _copies, _large_sites, _slots
from decbayes.models.core.transforms import joined


@cache
def unlike_sites(name):
    """Sites that agree more or less: one is small, one large, two have data of another world among their own.

    No fit is needed: rows are in components by the order of their first values, but for some.
    """
    model, size = ZOO[name]
    rng, model = np.random.default_rng(12), replace(model, **OVERLAPPING.get(name, {}))
    data, other = (db.simulate(model, times * size, rng=rng).data for times in (4, 3))
    shards = [data[first : first + size] for first in range(0, 4 * size, size)]
    mixed = [joined([shards[site][: size // 2], other[site * 5 : size // 2]]) for site in (0, 2)]
    return [of_rows(model, some, rng) for some in [*shards, shards[1][: size // 3], other, *mixed]]


def of_rows(model, data, rng):
    count = model.count(data)
    if isinstance(model, db.LatentDirichletAllocation):
        topics = rng.dirichlet(np.ones(2), count).T @ data
        return db.Posterior(model.structure, {"topics": csr_array(np.round(topics, 3))})
    if not hasattr(model, "from_assignments"):
        return model.fit(data, rng=5).posterior
    kinds = int(model.components)
    first = np.argsort(np.argsort(model.points(data)[:, 0], kind="stable")) * kinds // count
    labels = np.where(rng.random(count) < 0.1, rng.integers(kinds, size=count), first)
    return model.from_assignments(data, 0.9 * np.eye(kinds)[labels] + 0.1 / kinds)


# Where clusters lie apart, half of what is computed is zero or one.
OVERLAPPING = {
    "known variance": {"variance": 0.4},
    **{name: {"prior_strength": 1.5} for name in ("spherical", "diagonal", "full")},
}


def ballot_of(posteriors, cap=1.3):
    order, readings = canonical_order(posteriors)
    sets = [readings[site].components for site in order]
    return _ballot.Ballot([posteriors[site] for site in order], sets, cap, True, True, "largest")


def of_group(group):
    likeness = group.likeness
    slots = 3 if group.coupled else group.row.max() + 1
    elected = _slots.elected(group, 2, 2)
    rng, size = np.random.default_rng(3), len(group.site)
    drawn = (rng.integers(slots, size=size), rng.choice([0.0, 0.2, 0.7, 1.0], size), 9.0 * rng.random(size))
    starts = {
        "settled": _slots.weigh(group, drawn[0] if group.coupled else group.row, slots),
        "gathered": _slots.weigh(group, _slots.nearest_slots(group, elected), len(elected)),
        "drawn": _slots.SlotWeights(group, slots, *drawn, 1.0 + rng.random(size)),
    }
    found = {
        "scale": group.scale, "evidence": group.evidence, "parameters": group.parameters, "votes": group.votes,
        "claim": group.claim, "alone": group.alone, "base": group.base, "rows": group.rows,
        "coefficients": group.coefficients, "candidates": likeness.candidates, "lost": likeness.lost,
        "weights": likeness.weights, "usual": likeness.usual, "elected": elected,
        "distances": _copies.site_losses(group), "profiles": _copies.same_profiles(group),
    }  # fmt: skip
    for name, reached in starts.items():
        found[name] = settled_parts(reached)
        found[f"{name}, final"] = _ballot.with_allowances(reached).verdict
        found[f"{name}, credible"] = _slots.without_doubtful_slots(reached).verdict
        if group.coupled and not group.counted:
            found[f"{name}, in parts"] = (
                _allowances.allowing_parts(reached).verdict,
                _allowances.allowing_joins(reached).verdict,
            )
    return found


def settled_parts(reached):
    amounts = np.linspace(0.5, 2.0, len(reached.labels))
    mine = [amounts[:, None] * rows for rows in reached.group.rows], amounts * reached.group.evidence
    return {
        "judged": (reached.labels, *reached.verdict), "votes": reached.votes,
        "uncapped": _large_sites.uncapped(reached),
        "coverage": reached.coverage, "chance": reached.chance([0, 1, 2]), "others": reached.others(),
        "moved": reached.group.moved(mine, reached.others()), "party": _confirmation.main_party(reached),
        "disagreeing": _ballot.disagreeing(reached), "lonely": _confirmation.lonely(reached),
        "fitting": _confirmation.mostly_confirmed(reached), "confirmed": _confirmation.confirmed(reached),
    }  # fmt: skip


def votes_of(name):
    return [of_group(group) for group in ballot_of(unlike_sites(name)).groups]


def elected_of(name):
    """The election of a robust merge, part by part."""
    ballot = ballot_of(unlike_sites(name))
    outcome, copied = ballot.decided(), ballot_of([*ballot.posteriors[:4], *ballot.posteriors[1:3]]).groups
    best = _ballot.Outcome(ballot, ballot.weighed(), tuple(range(len(ballot.posteriors))))
    return {
        "best": (best.counted_votes, best.strangers, best.slots, [part.labels for part in best.parts]),
        "outcome": (outcome.sites, outcome.against, outcome.kept, outcome.merged, outcome.unshared),
        "counts": (outcome.weights, outcome.by_slot(), outcome.standings(), outcome.spare),
        "copies": [_copies.first_of(_copies.exact_copies(copied) | _copies.near_copies(copied))],
    }
