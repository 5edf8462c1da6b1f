"""What robust merges and comparisons of sites rest on: sums and losses that their results, often zero or one, hide."""

import numpy as np

import decbayes as db
from decbayes.merging.base.canonical import canonical_order
from decbayes.merging.robust import _ballot, _slots, robust
from decbayes.models.core.transforms import joined


def unlike_sites(model, shards):
    """Sites that agree more or less: one is small, one large, two have data of others among their own."""
    rng, size = np.random.default_rng(12), model.count(shards[0])
    other = db.simulate(model, 3 * size, rng=rng).data
    mixed = [joined([shards[site][: size // 2], other[site * 5 : size // 2]]) for site in (0, 2)]
    data = [*shards, shards[1][: size // 3], other, *mixed]
    return [model.fit(some, rng=5).posterior for some in data]


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
        "settled": _slots.settled(group, drawn[0] if group.coupled else group.row, slots),
        "gathered": _slots.gathered(group, elected),
        "drawn": _slots.Settled(group, slots, *drawn, 1.0 + rng.random(size)),
    }
    found = {
        "scale": group.scale, "evidence": group.evidence, "parameters": group.parameters, "votes": group.votes,
        "claim": group.claim, "alone": group.alone, "base": group.base, "rows": group.rows,
        "coefficients": group.coefficients, "candidates": likeness.candidates, "lost": likeness.lost,
        "weights": likeness.weights, "usual": likeness.usual, "elected": elected,
        "distances": robust.site_losses(group), "profiles": robust.same_profiles(group),
    }  # fmt: skip
    for name, reached in starts.items():
        found[name] = settled_parts(reached)
        found[f"{name}, final"] = _ballot.final(reached).judged
        found[f"{name}, credible"] = _slots.credible(reached).judged
        if group.coupled and not group.counted:
            found[f"{name}, in parts"] = _slots.lenient(reached).judged, _slots.joins(reached).judged
    return found


def settled_parts(reached):
    amounts = np.linspace(0.5, 2.0, len(reached.labels))
    mine = [amounts[:, None] * rows for rows in reached.group.rows], amounts * reached.group.evidence
    return {
        "judged": (reached.labels, *reached.judged), "votes": reached.votes, "uncapped": _slots.uncapped(reached),
        "coverage": reached.coverage, "chance": reached.chance([0, 1, 2]), "others": reached.others(),
        "moved": reached.group.moved(mine, reached.others()), "party": _ballot.main_party(reached),
        "disagreeing": _ballot.disagreeing(reached), "lonely": _ballot.lonely(reached),
        "fitting": _ballot.fitting(reached), "confirmed": _ballot.confirmed(reached),
    }  # fmt: skip


def votes_of(model, shards):
    """The election of a robust merge, part by part."""
    ballot = ballot_of(unlike_sites(model, shards))
    best = ballot.best()
    outcome = ballot.decided()
    return {
        "groups": [of_group(group) for group in ballot.groups],
        "best": (best.heard, best.strangers, best.spare, [part.labels for part in best.parts]),
        "outcome": (outcome.sites, outcome.against, outcome.kept, outcome.merged, outcome.vacant, outcome.own),
        "counts": (outcome.weights, outcome.by_slot(), outcome.standings(), outcome.spare, outcome.dismissed),
        "copies": [robust.copies(ballot_of([*ballot.posteriors[:4], *ballot.posteriors[1:3]]).groups)],
    }
