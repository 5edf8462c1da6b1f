"""Small sites that describe their data by pieces of components: merged, they show what no site has found."""

import numpy as np
import pytest

import decbayes as db
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


@pytest.mark.parametrize(("pieces", "slots"), [(5, 3), (4, 2)])
def test_where_sites_have_half_as_many_more_pieces_slots_are_those_of_the_first_doubt(
    pieces, slots, shards, monkeypatch
):
    """The jump is at two slots, the first doubt at three."""
    from decbayes.merging.grouping import number

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
