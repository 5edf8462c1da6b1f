"""Scores of held-back data add up across sites, their standard errors are right, and they choose the number."""

import json
from dataclasses import replace

import numpy as np
import pytest
from groups import identities
from scipy.sparse import csr_array

import decbayes as db
from decbayes.errors import InvalidData, InvalidFile, StructureMismatch
from decbayes.network import Charter, Rules
from decbayes.network.protocol.site.evidence import learn, nothing
from decbayes.updates import Update

POINTS = db.GaussianMixture(2, dimension=1, variance=1.0, prior_variance=25.0)


def points(rng, count=60):
    return rng.choice([-3.0, 3.0], size=(count, 1)) + rng.normal(size=(count, 1))


@pytest.fixture
def fitted(rng):
    return {name: POINTS.fit(points(rng), rng=rng).posterior for name in ("west", "east")}


def test_scores_of_sites_add_up_to_those_of_all_held_back_data(rng, fitted):
    parts = [points(rng, 7), points(rng, 11), points(rng, 0)]
    total = sum(db.validate(POINTS, fitted, part) for part in parts)
    together = db.validate(POINTS, fitted, np.concatenate(parts))
    for name in fitted:
        assert total.score(name) == pytest.approx(together.score(name), rel=1e-12)
        assert total.error(name) == pytest.approx(together.error(name), rel=1e-9)
        assert total.score(name) == pytest.approx(POINTS.score(fitted[name], np.concatenate(parts)), rel=1e-12)
    assert total.observations == 18


def test_standard_errors_are_those_of_means_and_of_paired_differences(rng, fitted):
    held = points(rng, 40)
    scores = db.validate(POINTS, fitted, held)
    west, east = (POINTS.log_predictive(posterior, held) for posterior in fitted.values())
    assert scores.error("west") == pytest.approx(west.std(ddof=1) / np.sqrt(40), rel=1e-9)
    assert scores.error("west", "east") == pytest.approx((west - east).std(ddof=1) / np.sqrt(40), rel=1e-6)
    assert scores.error("west", "west") == 0.0


def documents(rng, topics, count, length=60):
    shares = rng.dirichlet(np.full(len(topics), 0.3), size=count)
    return csr_array(np.array([rng.multinomial(max(2, rng.poisson(length)), share @ topics) for share in shares]))


def test_the_error_of_a_score_per_word_is_that_of_a_jackknife_over_documents(rng):
    topics = rng.dirichlet(np.full(50, 0.1), size=3)
    model = db.LatentDirichletAllocation(3, tuple(f"w{number}" for number in range(50)))
    posterior = model.fit(documents(rng, topics, 100), rng=rng).posterior
    held = documents(rng, topics, 40, length=20)
    scores = db.validate(model, [posterior], held)
    observed, hidden = db.checking.hold_out(held, share=0.5, rng=np.random.default_rng(0))
    values, words = model.log_predictive(posterior, observed, hidden), model.units(observed, hidden)
    assert scores.score(0) == pytest.approx(values.sum() / words.sum(), rel=1e-12)
    without = (values.sum() - values) / (words.sum() - words)
    jackknife = np.sqrt(39 / 40 * ((without - without.mean()) ** 2).sum())
    assert scores.error(0) == pytest.approx(jackknife, rel=0.05)
    assert scores.unit == "word"


def unlike_sites(seed, sites=8, truth=12, seen=5, found=8):
    """Sites that see some of the topics, and fit more than they see."""
    rng = np.random.default_rng(seed)
    topics = rng.dirichlet(np.full(400, 0.05), size=truth)
    model = db.LatentDirichletAllocation(found, tuple(f"w{number}" for number in range(400)), topic_prior=0.05)
    # Every topic is seen by three sites or four.
    order = np.concatenate([rng.permutation(truth) for _ in range(sites * seen // truth + 1)])
    shards = [documents(rng, topics[order[first : first + seen]], 160) for first in range(0, sites * seen, seen)]
    return model, shards, rng


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow), pytest.param(2, marks=pytest.mark.slow)])
def test_ten_held_back_documents_per_site_find_twelve_topics(seed):
    model, shards, rng = unlike_sites(seed)
    parts = [db.checking.hold_back(model, shard, share=10 / 160) for shard in shards]
    posteriors = [model.fit(kept, rng=rng).posterior for kept, _ in parts]
    cuts = db.merging.tree(posteriors).cuts(range(4, 25))
    scores = sum(db.validate(model, cuts, held) for _, held in parts)
    assert scores.observations == 80
    choice = scores.choice()
    assert choice.name in (12, 13)
    assert (choice.rule, choice.at_end) == ("smallest", False)


def test_where_the_score_rises_to_the_end_the_number_is_a_budget():
    model, shards, rng = unlike_sites(0, sites=4)
    posteriors = [model.fit(shard, rng=rng).posterior for shard in shards]
    scores = sum(db.validate(model, db.merging.tree(posteriors).cuts(range(2, 6)), shard) for shard in shards)
    choice = scores.choice()
    assert (choice.name, choice.at_end) == (5, True)
    assert "as you can afford" in str(choice)


def test_the_others_know_what_a_site_does_not(rng, fitted):
    narrow = POINTS.fit(np.full((30, 1), -3.0) + rng.normal(size=(30, 1)), rng=rng).posterior
    found = db.align([narrow, *fitted.values()])
    merged = found.without(0)
    np.testing.assert_allclose(merged.natural["components"], db.merge(fitted.values()).natural["components"])
    scores = db.validate(POINTS, {"own": narrow, "others": merged}, points(rng, 50))
    assert scores.best == "others"
    assert scores.score("others") - scores.score("own") > 3 * scores.error("own", "others")


def test_no_choice_among_posteriors_that_differ_between_sites(rng, fitted):
    first = db.validate(POINTS, {"own": fitted["west"]}, points(rng))
    second = db.validate(POINTS, {"own": fitted["east"]}, points(rng))
    assert first.choice().name == "own"
    with pytest.raises(StructureMismatch, match="different posteriors"):
        (first + second).choice()
    with pytest.raises(StructureMismatch, match="do not add up"):
        first + db.validate(POINTS, {"other": fitted["east"]}, points(rng))


def test_nothing_held_back_has_no_score(rng, fitted):
    scores = db.validate(POINTS, fitted, np.zeros((0, 1)))
    with pytest.raises(InvalidData, match="Nothing was held back"):
        _ = scores.best


def test_scores_come_back_from_their_file(rng, fitted, tmp_path):
    scores = db.validate(POINTS, fitted, points(rng))
    scores.save(tmp_path / "a.scores")
    back = db.checking.Scores.load(tmp_path / "a.scores")
    assert (back.names, back.digests, back.observations, back.rule) == (
        scores.names,
        scores.digests,
        scores.observations,
        scores.rule,
    )
    assert (back.sums == scores.sums).all()
    assert (back.products == scores.products).all()


@pytest.mark.parametrize(
    "change",
    [
        {"format": "other"},
        {"names": ["west", "west"]},
        {"names": ["west"]},
        {"sums": [1.0, float("nan"), 2.0]},
        {"observations": -1},
        {"observations": "many"},
        {"rule": "dearest"},
        {"products": 1},
        {"unit": "a\x1b[2J"},
    ],
)
def test_a_damaged_file_of_scores_is_refused(change, rng, fitted, tmp_path):
    path = tmp_path / "a.scores"
    db.validate(POINTS, fitted, points(rng)).save(path)
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(InvalidFile, match=r"is not a file of scores"):
        db.checking.Scores.load(path)


HELD = [
    (POINTS, lambda rng: rng.normal(size=(41, 1))),
    (db.LatentDirichletAllocation(2, ("a", "b")), lambda rng: csr_array(rng.integers(1, 9, size=(41, 2)))),
    (
        db.HiddenMarkov(2, columns={"x": db.columns.Gaussian(0.0, 1.0)}),
        lambda rng: [rng.normal(size=(3, 1)) for _ in range(41)],
    ),
]


@pytest.mark.parametrize(("model", "draw"), HELD)
def test_the_same_observations_are_held_back_each_time_and_none_is_lost(model, draw, rng):
    data = draw(rng)
    kept, held = db.checking.hold_back(model, data, share=0.1)
    again = db.checking.hold_back(model, data, share=0.1)
    assert (model.count(kept), model.count(held)) == (37, 4)
    both = model.joined([kept, held])

    def rows(values):
        return sorted(np.ravel(np.concatenate([np.ravel(part) for part in values])).tolist())

    as_rows = (lambda m: m.toarray()) if hasattr(data, "toarray") else (lambda m: m)
    assert rows(as_rows(both)) == rows(as_rows(data))
    assert rows(as_rows(again[1])) == rows(as_rows(held))


def test_shares_that_make_no_sense_are_refused():
    for share in (-0.1, 1.0, "much"):
        with pytest.raises(ValueError, match="share is the part"):
            db.checking.hold_back(POINTS, np.zeros((3, 1)), share=share)
    kept, held = db.checking.hold_back(POINTS, np.zeros((3, 1)), share=0.0)
    assert (len(kept), len(held)) == (3, 0)
    kept, held = db.checking.hold_back(POINTS, np.zeros((3, 1)), share=0.01)
    assert (len(kept), len(held)) == (2, 1)


def test_members_hold_back_what_the_charter_says(rng):
    """The evidence is that of the other data, and says how many these are; the mark is still that of all data."""
    member = identities(1)[0]
    charter = Charter(
        "g", "GaussianMean", {"dimension": 1}, {"a": member.public}, rules=Rules(validation=0.05), secret=b"s" * 32
    )
    data = rng.normal(size=(200, 1))
    kept, held = db.checking.hold_back(charter.model, data, share=0.05)
    evidence = learn(charter, nothing(charter), {"shard": data}, rng).evidence
    assert (len(held), evidence.observations, evidence.units) == (10, 190, 190)
    assert evidence.posterior == Update(charter.model).learn(kept, nothing(charter).posterior, rng=rng)
    plain = replace(charter, rules=Rules())
    assert evidence.marks == learn(plain, nothing(plain), {"shard": data}, rng).evidence.marks
