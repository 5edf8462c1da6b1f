"""What is read off evidence and Bayes factors, site by site in plain loops, where nothing is zero or saturated."""

from statistics import median
from types import SimpleNamespace

import numpy as np
import pytest

import decbayes as db
from decbayes.merging.grouping.default_number import OtherSites
from decbayes.merging.reading._influence import odd_ones


class ByHand:
    """Sites as lists of slots: amounts of evidence and log Bayes factors."""

    def __init__(self, evidence, factors):
        self.pairs = [list(zip(*rows, strict=True)) for rows in zip(evidence.tolist(), factors.tolist(), strict=True)]
        self.totals = [sum(amount for amount, _ in site) for site in self.pairs]
        self.with_data = [number for number, total in enumerate(self.totals) if total > 0]

    def over(self, amounts):
        return [amount / total if total else 0.0 for amount, total in zip(amounts, self.totals, strict=True)]

    @property
    def share(self):
        return [total / sum(self.totals) for total in self.totals]

    @property
    def apart(self):
        return self.over([sum(amount for amount, factor in site if factor < -10.0) for site in self.pairs])

    @property
    def against(self):
        return self.over([sum(-factor for _, factor in site if factor < 0.0) for site in self.pairs])

    @property
    def times_median(self):
        return [total / median(self.totals[site] for site in self.with_data) for total in self.totals]

    @property
    def large(self):
        return [len(self.with_data) >= 4 and times > 5.0 for times in self.times_median]

    @property
    def disagreeing(self):
        much = [apart > 0.1 for apart in self.apart]
        usual = [self.against[site] for site in self.with_data]
        if len(usual) < 4:
            return much
        limit = median(usual) + 5.0 * median(abs(one - median(usual)) for one in usual)
        return [one and against > limit for one, against in zip(much, self.against, strict=True)]


@pytest.mark.parametrize("sites", [2, 3, 4, 5, 9])
def test_influence_is_what_loops_over_sites_and_slots_say(sites):
    seen = set()
    for seed in range(40):
        rng = np.random.default_rng([sites, seed])
        evidence = rng.gamma(0.4, 30.0, (sites, 4)) * (rng.random((sites, 4)) < 0.6)
        evidence[:, 0] += 1.0 * (rng.random(sites) < 0.7)
        evidence[seed % sites] *= rng.choice([0.0, 1.0, 30.0])
        factors = np.where(evidence > 0, rng.normal(-3.0, rng.choice([3.0, 12.0], (sites, 1)), (sites, 4)), 0.0)
        if np.count_nonzero(evidence.sum(axis=1)) < 2:
            continue
        found, expected = db.merging.Influence(evidence, factors), ByHand(evidence, factors)
        for name in ("share", "apart", "against", "times_median", "large", "disagreeing"):
            np.testing.assert_allclose(getattr(found, name), getattr(expected, name), atol=1e-12, err_msg=name)
            seen |= {name} if any(getattr(expected, name)) else set()
    assert {"apart", "against", "disagreeing"} <= seen
    assert sites < 5 or "large" in seen


@pytest.mark.parametrize("lowest", [-9.9, -10.1])
def test_in_a_slot_of_three_or_more_the_lowest_is_odd_if_it_disagrees(lowest, rng):
    factors = rng.uniform(-9.0, 5.0, size=(5, 3))
    factors[[3, 1, 0], [0, 1, 2]] = lowest
    filled = np.ones((5, 3), dtype=bool)
    filled[2:, 1], filled[3:, 2] = False, False  # two sites have the second slot, three the last
    expected = np.zeros((5, 3), dtype=bool)
    expected[[3, 0], [0, 2]] = lowest < -10.0
    np.testing.assert_array_equal(odd_ones(factors, filled), expected)


@pytest.mark.parametrize(
    ("slots_of_sites", "scattered"),
    [([[0, 1], [0, 2], [5]], True), ([[0, 1], [0, 1], [5]], False), ([[0, 1], [0, 5]], True), ([[0, 1], [0]], False)],
)
def test_components_are_scattered_if_most_filled_slots_hold_those_of_one_site(slots_of_sites, scattered):
    labels = np.array([slot for slots in slots_of_sites for slot in slots])
    sites = np.repeat(np.arange(len(slots_of_sites)), [len(slots) for slots in slots_of_sites])
    versions = len({*zip(sites.tolist(), labels.tolist(), strict=True)})
    alike = np.zeros((versions, 1)), np.ones(versions)
    rows = SimpleNamespace(joined=lambda *_: SimpleNamespace(written_out=lambda: None))
    search = SimpleNamespace(labels=labels, count=6, components=SimpleNamespace(evidence=np.full(len(labels), 10.0)))
    fixed, free = (
        SimpleNamespace(family=SimpleNamespace(fixed_spread=given, columns=lambda _: alike)) for given in (True, False)
    )
    shown = OtherSites((fixed,), (rows,), sites).scattered(search)
    assert shown == ("most slots rest on a single site" if scattered else "")
    assert not OtherSites((free,), (rows,), sites).scattered(search)
