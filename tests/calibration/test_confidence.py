"""Probabilities of matches: what they rise in, that they come true, that they are refused where nothing is known."""

import re

import numpy as np
import pytest
from scipy.sparse import csr_array

import decbayes as db
from decbayes.calibration import matches, worlds
from decbayes.calibration.matches import Matches, distance, judged, overlaps_of, rising_curve, shown_at_most
from decbayes.errors import NotCalibrated, StructureMismatch
from decbayes.merging.reading import Curve, Reliability
from decbayes.reporting.reports import page

KNOWN = Reliability(Curve(-1.0, (1.0, 0.2, 0.3)), Curve(-1.0, (1.0, 0.2, 0.3, 0.5)), 400, 0.8, 0.25)
MODEL = db.GaussianMixture(3, dimension=1, variance=1.0, prior_variance=25.0, ascent=db.Ascent(restarts=1))


def sites(rng, apart=6.0, count=3, points=40, seen=(0, 1, 2)):
    shards, labels = [], []
    for _ in range(count):
        labels.append(rng.choice(seen, size=points))
        shards.append(apart * (labels[-1] - 1.0)[:, None] + rng.normal(size=(points, 1)))
    return shards, labels


@pytest.fixture
def fitted(rng):
    shards, labels = sites(rng)
    found = db.align([MODEL.fit(shard, rng=rng).posterior for shard in shards])
    return found, shards, labels


def test_a_component_that_another_slot_would_suit_better_is_unsure_and_not_unknown():
    margins = np.array([-40.0, -1.0, 0.0, 1.0])
    sure = KNOWN.probabilities(margins, np.full(4, 30.0), np.ones(4), np.full(4, np.nan))
    assert sure[0] == sure[1] == sure[2] < sure[3]


def test_overlap_is_the_share_of_a_components_data_that_the_others_give_to_its_slot(fitted):
    """Observation by observation, from densities that the means and the known variance give."""
    found, shards, _ = fitted
    (coupled,) = found.structure.symmetry
    shares = db.checking.overlap(MODEL, found, 1, shards[1])
    own, others = found.posteriors[1], db.merge([found.posteriors[0], found.posteriors[2]])
    mine, theirs = MODEL.assign(own, shards[1]), MODEL.assign(others, shards[1])
    # The others' merge has an order of its own; its components are told apart by their means.
    order = np.argsort(np.argsort(found.without(1).mean("components")[:, 0]))
    place = np.argsort(others.mean("components")[:, 0])[order]
    expected = [
        sum(mine[n, k] * theirs[n, place[slot]] for n in range(40)) / sum(mine[n, k] for n in range(40))
        for k, slot in enumerate(found.assignments[1][coupled])
    ]
    np.testing.assert_allclose(shares, expected, rtol=1e-6)
    np.testing.assert_allclose(overlaps_of(MODEL, found, shards)[1], shares, rtol=1e-9)
    assert shares.min() > 0.9
    with pytest.raises(StructureMismatch, match="site must be from 0 to 2"):
        db.checking.overlap(MODEL, found, 3, shards[0])


def test_a_topics_overlap_counts_words(rng):
    """Two topics share no words: every word's topic is certain, though documents mix both."""
    model = db.LatentDirichletAllocation(2, tuple("abcdef"))
    counts = [csr_array(rng.multinomial(30, [1 / 6] * 6, size=20)) for _ in range(2)]
    contribution = csr_array(np.kron(np.eye(2), np.full((1, 3), 400.0)))
    swapped = csr_array(contribution.toarray()[::-1])
    found = db.align([db.Posterior(model.structure, {"topics": each}) for each in (contribution, swapped)])
    assert db.checking.overlap(model, found, 0, counts[0]).min() > 0.99
    shares, weights = model.responsibilities(found.posteriors[0], counts[0])
    assert weights.sum() == counts[0].sum()
    np.testing.assert_allclose(shares.sum(axis=1), 1.0)


def test_confidence_rises_with_margin_evidence_and_overlap():
    few, many = np.array([1.0, 9.0]), np.array([10.0, 10.0])
    lost, none = np.array([2.0, 2.0]), np.full(2, np.nan)
    first, second = KNOWN.probabilities(few, many, lost, none)
    assert first < second
    assert (KNOWN.probabilities(few, 2 * many, lost, none) > KNOWN.probabilities(few, many, lost, none)).all()
    assert (KNOWN.probabilities(few, many, 2 * lost, none) < KNOWN.probabilities(few, many, lost, none)).all()
    low, high = (KNOWN.probabilities(few, many, lost, np.full(2, share)) for share in (0.2, 0.8))
    assert (low < high).all()
    assert KNOWN.probabilities(np.array([np.inf]), np.ones(1), np.zeros(1), np.array([1.0]))[0] < 1.0


def test_confidence_is_that_of_each_match_and_none_of_what_is_alone(fitted, rng):
    found, _, _ = fitted
    (coupled,) = found.structure.symmetry
    sure = db.merging.confidence(found, KNOWN)
    margins, evidence, losses = (
        db.merging.margins(found),
        db.merging.observations(found, coupled),
        db.merging.losses(found),
    )
    for site in range(3):
        expected = KNOWN.probabilities(
            margins[site][coupled], evidence[site], losses[site][coupled], np.full(3, np.nan)
        )
        np.testing.assert_allclose(sure.probabilities[site][coupled], expected)
    wrong, count = sure.expected_wrong(coupled)
    assert count == 9
    assert wrong == pytest.approx(sum(1.0 - each[coupled].sum() / 3 for each in sure.probabilities) * 3)
    np.testing.assert_allclose(sure.nowhere()[0][coupled], 0.25 * (1.0 - sure.probabilities[0][coupled]))
    far = MODEL.fit(rng.normal(size=(40, 1)) + 30.0, rng=rng).posterior
    wide = db.align([*found.posteriors, far], components=4)
    alone = np.isnan(db.merging.confidence(wide, KNOWN).probabilities[3][coupled])
    assert alone[db.merging.reading.seen(wide, coupled)[3]].all()


def test_overlaps_that_make_no_sense_are_refused(fitted):
    found, _, _ = fitted
    with pytest.raises(StructureMismatch, match="3 posteriors but overlaps of 2"):
        db.merging.confidence(found, KNOWN, [None, None])
    with pytest.raises(StructureMismatch, match="posterior 1 must be 3 shares"):
        db.merging.confidence(found, KNOWN, [None, [0.1, 0.2, 1.7], None])
    with pytest.raises(StructureMismatch, match="posterior 0 must be 3 shares"):
        db.merging.confidence(found, KNOWN, [[0.1, 0.2], None, None])
    told = db.merging.confidence(found, KNOWN, [[0.1, 0.9, 0.5], None, None])
    assert told.self_reported
    with pytest.raises(TypeError, match="reliability"):
        db.merging.confidence(found, 0.9)


def test_a_match_is_right_where_the_others_in_its_slot_come_from_the_same():
    """Three sites, two slots, three sources, by hand."""
    slots = [np.array([0, 1]), np.array([0, 1]), np.array([0, 0])]
    truths = [
        np.array([[9.0, 1.0, 0.0], [0.0, 8.0, 0.0]]),
        np.array([[6.0, 4.0, 0.0], [0.0, 1.0, 6.0]]),
        np.array([[5.0, 0.0, 0.0], [0.0, 0.0, 4.0]]),
    ]
    right, nowhere = judged(slots, truths, 2)
    # Site 0's first shares 0.60 with 11/19, 4/19, 4/19 in slot 0; its second 1/7 of slot 1, 4/19 of slot 0.
    # Site 1's first shares 14/19 and 1/19 of slot 0; its second 1/7 of slot 1 and 5/19 of slot 0.
    # Site 2's first shares 0.75 of slot 0, its second nothing there and 0.4 of slot 1.
    assert [each.tolist() for each in right] == [[1, 0], [1, 0], [1, 0]]
    assert [each.tolist() for each in nowhere] == [[0, 1], [0, 1], [0, 1]]


def test_a_match_is_wrong_where_another_slot_has_far_more_in_common():
    """Slot 0 holds 0.4 and 0.6 of two sources, slot 1 the second alone; the component is nearly all the second."""
    slots = [np.array([0]), np.array([0, 1])]
    truths = [np.array([[1.0, 9.0]]), np.array([[4.0, 6.0], [0.0, 5.0]])]
    right, nowhere = judged(slots, truths, 2)
    assert (right[0][0], nowhere[0][0]) == (0, 0)
    nearly = [np.array([[3.2, 6.8]]), truths[1]]
    assert judged(slots, nearly, 2)[0][0][0] == 1


def test_sources_that_nobody_can_tell_apart_are_no_wrong_matches():
    mixed = [np.array([[5.0, 5.0]]), np.array([[4.0, 6.0]]), np.array([[6.0, 5.0]])]
    right, _ = judged([np.array([0])] * 3, mixed, 1)
    assert np.concatenate(right).tolist() == [1, 1, 1]


def test_the_curve_is_the_maximum_of_its_penalised_likelihood_and_never_falls(rng):
    told = np.column_stack([rng.normal(size=500), rng.normal(size=500), rng.normal(size=500)])
    right = (rng.random(500) < 1 / (1 + np.exp(-(0.5 + 1.5 * told[:, 0] - 2.0 * told[:, 2])))).astype(float)
    curve = rising_curve(told, right)
    assert min(curve.slopes) == 0.0 == curve.slopes[2]

    def loss(intercept, slopes):
        spread, centre = told.std(axis=0), told.mean(axis=0)
        score = intercept + told @ slopes
        probability = 1 / (1 + np.exp(-score))
        fit = -(right * np.log(probability) + (1 - right) * np.log(1 - probability)).sum()
        inner = intercept + centre @ slopes
        return fit + 0.5 * ((slopes * spread) ** 2).sum() + 0.05 * inner**2

    slopes = np.array(curve.slopes)
    best = loss(curve.intercept, slopes)
    for change in (0.01, -0.01):
        assert loss(curve.intercept + change, slopes) > best
        assert loss(curve.intercept, slopes + np.array([change, 0.0, 0.0])) > best
    assert loss(curve.intercept, slopes + np.array([0.0, 0.0, 0.01])) > best


def test_the_distance_of_samples_is_that_of_scipy(rng):
    from scipy.stats import ks_2samp

    one, two = rng.normal(size=40), rng.normal(size=70) + 0.5
    assert distance(one, two) == pytest.approx(ks_2samp(one, two).statistic)


def expected_error(said, right, bins=5):
    place = np.minimum((said * bins).astype(int), bins - 1)
    return sum(abs((said - right)[place == each].sum()) for each in range(bins)) / len(said)


def few_documents(rng, topics=12, count=8, documents=15, words=300):
    """Topics that are hard to tell apart at small sites, and which topic each word came from."""
    truth = rng.dirichlet(np.full(words, 0.2), size=topics)
    shards, drawn = [], []
    for _ in range(count):
        tokens = np.zeros((documents, topics, words), dtype=int)
        for document, shares in enumerate(rng.dirichlet(np.full(topics, 0.3), size=documents)):
            tokens[document] = rng.multinomial(rng.multinomial(25, shares), truth)
        shards.append(csr_array(tokens.sum(axis=1)))
        drawn.append(tokens)
    return shards, drawn


def words_by_topic(model, posterior, shard, tokens):
    """(components, topics): how many words of each component came from each topic."""
    shares, _ = model.responsibilities(posterior, shard)
    documents, words = shard.tocoo().coords
    return shares.T @ tokens[documents, :, words]


def test_probabilities_come_true_where_margins_are_far_too_sure(rng):
    """Over several data sets; which topic a word came from is known."""
    model = db.LatentDirichletAllocation(12, tuple(f"w{number}" for number in range(300)), topic_prior=0.05)
    said, odds, right = [], [], []
    for _ in range(3):
        shards, drawn = few_documents(rng)
        found = db.align([model.fit(shard, rng=rng).posterior for shard in shards])
        (coupled,) = found.structure.symmetry
        sure = db.merging.confidence(found, db.checking.reliability(found, model=model, matches=100, length=25))
        truths = [words_by_topic(model, *each) for each in zip(found.posteriors, shards, drawn, strict=True)]
        known = Matches.of(found, coupled, [np.zeros(12)] * 8, truths)
        values = np.concatenate([each[coupled] for each in sure.probabilities])
        said.append(values[~np.isnan(values)])
        odds.append(1 / (1 + np.exp(-known.margins)))
        right.append(known.right)
    said, odds, right = map(np.concatenate, (said, odds, right))
    assert 0.3 < right.mean() < 0.8
    assert expected_error(said, right) < 0.13
    assert expected_error(odds, right) > 0.3


def test_what_was_learned_depends_on_the_set_alone_and_is_remembered(fitted, monkeypatch):
    found, _, _ = fitted
    first = db.checking.reliability(found, model=MODEL, matches=30)
    matches.learned.cache_clear()
    assert db.checking.reliability(found, model=MODEL, matches=30) == first
    monkeypatch.setattr(matches, "simulated_matches", None)
    assert db.checking.reliability(found, model=MODEL, matches=30) == first


def test_where_nothing_can_be_simulated_it_says_so(fitted, rng):
    found, shards, _ = fitted
    with pytest.raises(NotCalibrated, match="One posterior alone"):
        db.checking.reliability(db.align(found.posteriors[:1]))
    structure = db.extending.Structure(
        found.structure.families, found.structure.prior, found.structure.symmetry, model={"name": "Unheard"}
    )
    strange = [db.Posterior(structure, dict(each.contribution)) for each in found.posteriors]
    with pytest.raises(NotCalibrated, match="cannot be simulated"):
        db.checking.reliability(db.align(strange))
    states = db.HiddenMarkov(2, columns={"x": db.columns.Gaussian(0.0, 1.0)}, ascent=db.Ascent(restarts=0, passes=5))
    walks = [states.fit([shard[:20]], rng=rng).posterior for shard in shards]
    with pytest.raises(NotCalibrated, match=r"(states|common prior)"):
        db.checking.reliability(db.align(walks))


@pytest.mark.parametrize("apart", [1.2, 1.8, 3.0])
def test_clusters_told_with_less_than_four_fifths_are_refused_before_anything_is_fitted(apart, rng, monkeypatch):
    """Three clusters, all known: how well points are told is an average of the largest of three densities' shares."""
    shards, labels = sites(rng, apart=apart, points=300)
    known = [np.eye(3)[own] for own in labels]
    found = db.align([posterior_of(shard, shares) for shard, shares in zip(shards, known, strict=True)])
    densities = np.exp(-0.5 * (np.concatenate(shards) - apart * np.array([-1.0, 0.0, 1.0])) ** 2)
    told = (densities.max(axis=1) / densities.sum(axis=1)).mean()
    if told > 0.8:
        assert db.checking.reliability(found, matches=30).matches >= 30
        return
    monkeypatch.setattr(worlds, "simulated_world", lambda *_: pytest.fail("fitted"))
    with pytest.raises(NotCalibrated, match="The clusters overlap") as refused:
        db.checking.reliability(found)
    assert float(re.search(r"0\.\d\d", str(refused.value))[0]) == pytest.approx(told, abs=0.03)


def posterior_of(points, shares):
    """What points say of clusters that they are known to be from: n/σ² and Σx/σ² per cluster, n per weight."""
    numbers = shares.sum(axis=0)
    components = np.column_stack([shares.T @ points, -0.5 * numbers])
    return db.Posterior(MODEL.structure, {"components": components, "weights": numbers[:, None]})


@pytest.fixture
def pairs(rng):
    """Four sites with the same two clusters, far apart."""
    model = db.GaussianMixture(2, 1, variance=1.0, prior_variance=400.0)
    shards = [rng.choice([-20.0, 20.0], size=(60, 1)) + rng.normal(size=(60, 1)) for _ in range(4)]
    return [model.fit(shard, rng=rng).posterior for shard in shards]


@pytest.mark.parametrize(
    ("right", "most"),
    [([1] * 98, 99 / 100), ([1] * 8 + [0], 9 / 10), ([0] + [1] * 18, 19 / 21), ([1, 0, 1, 1, 1, 1], 6 / 8)],
)
def test_no_probability_is_above_what_simulated_matches_can_show(right, most):
    """(r + 1) / (n + 2) of the surest, as many of them as say most: 6 / 8 in the last case."""
    places = np.random.default_rng(0).permutation(len(right))
    sure = np.linspace(0.9, 0.1, len(right))
    assert shown_at_most(sure[places], np.array(right, dtype=float)[places]) == pytest.approx(most)
    known = Reliability(Curve(9.0, (0.0,) * 3), Curve(9.0, (0.0,) * 4), 100, 1.0, 0.0, most=most)
    said = known.probabilities(np.ones(2), np.ones(2), np.ones(2), np.array([np.nan, 0.9]))
    np.testing.assert_allclose(said, most)


ALWAYS = db.merging.Reliability(Curve(10.0, (0.0,) * 3), Curve(10.0, (0.0,) * 4), 100, 1.0, 0.0)


def test_matches_in_a_slot_that_holds_unlike_things_are_not_called_sure(pairs):
    """Half of what the other sites have in the slot is something else: two clusters in one slot were 99 % sure."""
    fused = db.align(pairs, components=1)
    (coupled,) = fused.structure.symmetry
    said = np.concatenate([site[coupled] for site in db.merging.confidence(fused, ALWAYS).probabilities])
    evidence = np.concatenate(db.merging.observations(fused, coupled))
    means = np.concatenate([posterior.mean("components")[:, 0] for posterior in pairs])
    sites = np.repeat(np.arange(4), 2)
    for place in range(8):
        others = evidence * (sites != sites[place])
        same = others[np.sign(means) == np.sign(means[place])].sum() / others.sum()
        assert said[place] == pytest.approx(same, abs=0.05)


def test_matches_in_slots_of_one_thing_stay_sure(pairs):
    found = db.align(pairs)
    (coupled,) = found.structure.symmetry
    said = np.concatenate([site[coupled] for site in db.merging.confidence(found, ALWAYS).probabilities])
    assert (said > 0.8).all()


def test_a_report_that_cannot_rate_matches_says_so_and_counts_no_close_calls(pairs, monkeypatch):
    monkeypatch.setattr(worlds, "QUICK", 0)
    text = page(db.align(pairs), names="abcd")
    assert "matched correctly is not known" in text
    assert "close calls</span>" not in text
    assert "expected to be wrong</span>" not in text


def test_a_report_rates_matches_by_itself_where_that_takes_seconds(pairs):
    text = page(db.align(pairs), names="abcd")
    assert "expected to be wrong</span>" in text
    assert "matched correctly is not known" not in text
