"""Small sites that describe their data by pieces of components: merged, they show what no site has found."""

from itertools import product

import numpy as np
import pytest
from scipy.special import gammaln, logsumexp

import decbayes as db
from decbayes.merging import aligning
from decbayes.merging.base.components import Components
from decbayes.merging.base.problem import Factor, Problem
from decbayes.merging.base.products import assigned_product
from decbayes.merging.grouping.pieces import Pieces, divided_pieces
from decbayes.models.mixtures.consensus import LEAST_ROWS, agreed_pieces

ROWS, COLUMNS, CLASSES, SITES = 120, 40, 5, 10


@pytest.fixture(scope="module")
def table():
    """Rows of all sites and of nobody, and their classes."""
    rng = np.random.default_rng(20)
    chances = rng.beta(1.0, 3.0, size=(CLASSES, COLUMNS))
    labels = rng.integers(CLASSES, size=ROWS * SITES + 1000)
    return (rng.random((len(labels), COLUMNS)) < chances[labels]).astype(float), labels


@pytest.fixture(scope="module")
def shards(table):
    return np.split(table[0][: ROWS * SITES], SITES)


@pytest.fixture(scope="module")
def wide(shards):
    model = db.BernoulliMixture("wide", COLUMNS, ascent=db.Ascent(restarts=4))
    return [model.fit(shard, rng=1).posterior for shard in shards]


def test_pieces_hold_each_row_once_and_none_is_small(shards, wide):
    for shard, posterior in zip(shards, wide, strict=True):
        sizes, counts = posterior.contribution["weights"][:, 0], posterior.contribution["components"]
        assert sizes.sum() == pytest.approx(len(shard))
        assert sizes.min() >= LEAST_ROWS
        assert len(sizes) <= len(shard) // LEAST_ROWS
        np.testing.assert_allclose(counts.sum(axis=0)[:COLUMNS], shard.sum(axis=0))
        assert [remark.kind for remark in posterior.remarks] == ["wide"]


def test_merged_pieces_are_the_classes_of_rows_that_nobody_has_seen(table, wide):
    rows, labels = (part[ROWS * SITES :] for part in table)
    alignment = db.align(wide, components="auto")
    merged = alignment.merged()
    found = db.model_for(merged.structure).assign(merged, rows).argmax(axis=1)
    assert len(merged.mean("weights")) == CLASSES
    assert db.checking.adjusted_rand(labels, found) > 0.75


@pytest.fixture(scope="module")
def unclear():
    """Pieces of classes that no site of 150 rows can tell apart, and rows of nobody with their classes."""
    rng = np.random.default_rng(3)
    chances = rng.dirichlet(np.full(4, 2.0), size=(8, 24))
    labels = rng.integers(8, size=150 * 10 + 2000)
    rows = (rng.random((len(labels), 24, 1)) > chances[labels].cumsum(axis=2)[:, :, :-1]).sum(axis=2).astype(float)
    model = db.CategoricalMixture("wide", 24, categories=4, ascent=db.Ascent(restarts=4))
    sites = [model.fit(shard, rng=1).posterior for shard in np.split(rows[:1500], 10)]
    return sites, rows[1500:], labels[1500:]


def test_divided_pieces_blur_slots_less_than_whole_ones(unclear, monkeypatch):
    sites, rows, labels = unclear
    monkeypatch.setattr("decbayes.merging.grouping.pieces.worthwhile_slots", lambda problem, first: 8)
    rand, score = [], []
    for solver in (db.solvers.Grouping(passes=0), db.solvers.Grouping()):
        merged = db.merge(sites, components="auto", solver=solver)
        model = db.model_for(merged.structure)
        rand.append(db.checking.adjusted_rand(labels, model.assign(merged, rows).argmax(axis=1)))
        score.append(model.score(merged, rows))
    assert rand[1] > rand[0] + 0.015
    assert score[1] > score[0] + 0.03


def test_a_division_keeps_all_counts_and_does_not_depend_on_the_order_of_sites(unclear):
    sites, _, _ = unclear
    alignment = db.align(sites, components="auto")
    assert alignment.divisions
    merged = alignment.merged()
    assert merged == db.merge(sites[::-1], components="auto")
    for name, total in merged.contribution.items():
        np.testing.assert_allclose(total.sum(axis=0), sum(site.contribution[name].sum(axis=0) for site in sites))
        parts = [alignment.in_slots(site).contribution[name] for site in range(len(sites))]
        np.testing.assert_allclose(total, sum(parts), atol=1e-9)


def test_a_mixed_piece_is_divided_by_its_columns_in_every_factor():
    """Two classes that differ in all columns; one piece has half of its rows from each."""
    model = db.LatentClasses.from_frame(
        {**{f"yes{k}": [True, False] for k in range(8)}, **{f"text{k}": ["a", "b"] for k in range(8)}}, components=3
    )
    places, sides = np.repeat([0, 1, 2, 2], [20, 20, 10, 10]), np.repeat([0, 1, 0, 1], [20, 20, 10, 10])
    frame = {
        **{f"yes{k}": sides == 0 for k in range(8)},
        **{f"text{k}": np.where(sides == 0, "a", "b") for k in range(8)},
    }
    site = model.from_assignments(frame, places)
    (coupled,) = site.structure.symmetry
    two = site.structure.with_components(2)
    families, contribution = site.structure.families, site.contribution
    factors = tuple(Factor(families[name], two.prior[name]) for name in coupled.factors)
    problem = Problem(factors, [tuple(families[name].rows(contribution[name]) for name in coupled.factors)])
    labels = np.array([0, 1, 0])
    division = divided_pieces(Components.in_problem(problem), (labels,), 2)
    merged = assigned_product((site, site), ({coupled: labels},) * 2, (0,), two, {coupled: division})
    np.testing.assert_allclose(merged.contribution["weights"][:, 0], 30.0, atol=0.5)
    for name in ("yes_no", "categorical"):
        np.testing.assert_allclose(np.sort(merged.contribution[name], axis=0)[0], 0.0, atol=1.0)
        np.testing.assert_allclose(np.sort(merged.contribution[name], axis=0)[1], 30.0, atol=1.0)


def log_beta(alpha):
    return gammaln(alpha).sum(axis=-1) - gammaln(alpha.sum(axis=-1))


@pytest.mark.parametrize("slots", [1, 2, 3])
def test_the_bound_of_divided_pieces_is_below_the_evidence_and_equal_to_it_in_one_slot(slots):
    """The evidence is the sum over all ways to put seven values of three pieces, two yes/no columns, into slots."""
    counts = np.array([[2, 0, 1, 1], [0, 1, 1, 0], [1, 0, 0, 0]])  # yes 0, no 0, yes 1, no 1
    prior = np.array([0.7, 0.4, 1.1, 0.9])
    order = [0, 2, 1, 3]  # the family has all yes before all no
    ends = np.zeros(0, dtype=np.intp)
    pieces = Pieces(1.0 * counts[:, order], (db.families.Beta(),), ends, prior[order][None] - 1.0)
    *_, bound = pieces.climbed(np.arange(3) % slots, slots)
    piece, column = np.repeat(np.stack(np.nonzero(counts)), counts[np.nonzero(counts)], axis=1)
    pseudo = (prior + 0.08 / slots * counts.sum(axis=0)).reshape(2, 2)
    ways = []
    for chosen in product(range(slots), repeat=len(piece)):
        shared, received = np.full((3, slots), 1.0 / slots), np.tile(pseudo, (slots, 1, 1))
        np.add.at(shared, (piece, chosen), 1.0)
        np.add.at(received, (chosen, column // 2, column % 2), 1.0)
        of_shares = (log_beta(shared) - log_beta(np.full(slots, 1.0 / slots))).sum()
        ways.append(of_shares + (log_beta(received) - log_beta(pseudo)).sum())
    evidence = logsumexp(ways)
    assert bound <= evidence + 1e-9
    assert bound == pytest.approx(evidence, abs=1e-9 if slots == 1 else 5.0)


@pytest.mark.parametrize("first", [CLASSES - 2, CLASSES - 1, CLASSES])
def test_a_first_estimate_of_the_number_of_slots_of_pieces_is_raised_if_it_is_too_low(first, wide, monkeypatch):
    monkeypatch.setattr(aligning, "estimated_number", lambda problem: (first, "wide"))
    assert len(db.merge(wide, components="auto").mean("weights")) == CLASSES


def test_pieces_of_numbers_and_ordinary_components_stay_whole(shards):
    rng = np.random.default_rng(0)
    points = [np.array([[0.0], [9.0]])[rng.integers(2, size=60)] + rng.normal(size=(60, 1)) for _ in range(4)]
    model = db.GaussianMixture("wide", 1, covariance="diagonal", ascent=db.Ascent(restarts=1))
    assert not db.align([model.fit(part, rng=1).posterior for part in points], components="auto").divisions
    ordinary = db.BernoulliMixture(CLASSES, COLUMNS, ascent=db.Ascent(restarts=1))
    fits = [ordinary.fit(shard, rng=1).posterior for shard in shards[:3]]
    assert not any(db.align(fits, components=number).divisions for number in (None, "auto", 3))


def test_robust_merges_divide_pieces_too(wide):
    robust = db.merge(wide, components="auto", robust=True)
    total = sum(site.contribution["weights"].sum() for site in wide)
    assert robust.contribution["weights"].sum() == pytest.approx(total, rel=0.2)


@pytest.mark.parametrize(("pieces", "slots"), [(5, 3), (4, 2)])
def test_where_sites_have_half_as_many_more_pieces_slots_are_those_of_the_first_doubt(
    pieces, slots, shards, monkeypatch
):
    """The jump is at two slots, the first doubt at three."""
    from decbayes.merging.grouping import number

    monkeypatch.setattr("decbayes.merging.grouping.pieces.worthwhile_slots", lambda problem, first: first)
    model = db.BernoulliMixture(pieces, COLUMNS, ascent=db.Ascent(restarts=0))
    sites = [model.fit(shard, rng=0).posterior for shard in shards[:3]]
    monkeypatch.setattr(number, "descend", lambda components, start: (2, True, True, 3))
    assert len(db.merge(sites, components="auto").mean("weights")) == slots


def test_pieces_of_noise_are_joined_again():
    rng = np.random.default_rng(3)
    model = db.BernoulliMixture("wide", COLUMNS, ascent=db.Ascent(restarts=2))
    noise = [model.fit((rng.random((ROWS, COLUMNS)) < 0.3).astype(float), rng=1).posterior for _ in range(SITES)]
    assert len(db.merge(noise, components="auto").mean("weights")) <= 2


def test_rows_that_are_always_together_are_a_piece_and_few_of_them_join_the_likeliest():
    group = np.repeat([0, 1, 2], [8, 7, LEAST_ROWS - 1])
    together = (group[:, None] == group).astype(float)
    together[15:, 8:15] = together[8:15, 15:] = 0.2
    together[15:, :8] = together[:8, 15:] = 0.1
    pieces = agreed_pieces(together, 3)
    assert pieces.tolist() == [pieces[0]] * 8 + [pieces[8]] * 11
    assert pieces[0] != pieces[8]


def test_one_row_and_few_rows_are_one_piece():
    assert agreed_pieces(np.ones((1, 1)), 1).tolist() == [0]
    assert agreed_pieces(np.eye(3), 3).tolist() == [0, 0, 0]


def test_clusters_of_numbers_may_be_wide_and_topics_may_not():
    rng = np.random.default_rng(0)
    centres = np.array([[0.0, 0.0], [9.0, 0.0], [0.0, 9.0]])
    model = db.GaussianMixture("wide", 2, covariance="diagonal", ascent=db.Ascent(restarts=1))
    sites = [model.fit(centres[rng.integers(3, size=60)] + rng.normal(size=(60, 2)), rng=1).posterior for _ in range(4)]
    assert all(len(site.mean("weights")) >= 3 for site in sites)
    assert len(db.merge(sites, components="auto").mean("weights")) == 3
    with pytest.raises(ValueError, match="topics"):
        db.LatentDirichletAllocation("wide", ("a", "b"))


def test_more_rows_than_are_compared_in_pairs_are_all_counted(monkeypatch, table):
    from decbayes.models.mixtures import consensus

    monkeypatch.setattr(consensus, "MOST_COMPARED", 100)
    model = db.BernoulliMixture("wide", COLUMNS, ascent=db.Ascent(restarts=0))
    posterior = model.fit(table[0][:300], rng=0).posterior
    np.testing.assert_allclose(posterior.contribution["weights"].sum(), 300)
    np.testing.assert_allclose(posterior.contribution["components"].sum(axis=0)[:COLUMNS], table[0][:300].sum(axis=0))


def test_a_merge_warns_if_many_small_sites_found_one_component(shards):
    one, three = (db.BernoulliMixture(number, COLUMNS, ascent=db.Ascent(restarts=0)) for number in (1, 3))
    short = [shard[:60] for shard in shards[:4]]
    fits = [(one if site < 2 else three).fit(shard, rng=0).posterior for site, shard in enumerate(short)]
    with pytest.warns(db.errors.MergeWarning, match="2 of 4 sites found one component, others up to 3"):
        db.merge(fits)


def test_a_small_site_that_finds_one_component_says_that_there_may_be_more():
    rng = np.random.default_rng(3)
    model = db.BernoulliMixture("auto", 10, ascent=db.Ascent(restarts=0))
    few, many = (model.fit((rng.random((rows, 10)) < 0.3).astype(float), rng=1).posterior for rows in (60, 300))
    assert [remark.kind for remark in few.remarks] == ["one component"]
    assert not many.remarks


def test_rounds_go_on_from_wide_fits(shards, wide):
    model = db.BernoulliMixture("wide", COLUMNS, ascent=db.Ascent(restarts=4))
    assert len(db.refine(model, shards[:2], wide[:2], rounds=1, rng=0).rounds) == 2


def test_a_site_that_is_too_small_for_pieces_finds_components_as_usual(rng):
    """With fewer than 50 rows all of them would be one piece."""
    points = (np.array([-8.0, 0.0, 8.0])[np.arange(30) % 3] + rng.normal(size=30))[:, None]
    wide, usual = (db.GaussianMixture(number, 1).fit(points, rng=1).posterior for number in ("wide", "auto"))
    assert wide == usual
    assert len(wide.mean("weights")) == 3
    assert not any(remark.kind == "wide" for remark in wide.remarks)
