"""How many slots there are, where nobody says."""

import numpy as np
import pytest
from scipy import stats
from scipy.special import xlogy
from structures import mixture, topics

import decbayes as db
from decbayes.merging.base.components import Components, bases
from decbayes.merging.base.coupled import coupled_problem
from decbayes.merging.grouping import elsewhere, number
from decbayes.merging.grouping.number import CheapestJoin
from decbayes.merging.grouping.search import SlotSearch

WORDS = 40
TRUTH = np.kron(np.eye(5), np.arange(8.0, 0.0, -1.0)) / 36.0


def topic_sites(rng, true, sites=8, each=3, tokens=400):
    """Sites that have each found some of the true topics."""
    found = [rng.permutation(true)[: min(each, true)] for _ in range(sites)]
    counts = [np.array([rng.multinomial(tokens, TRUTH[k]) for k in own], dtype=float) for own in found]
    return [db.Posterior(topics(len(rows), WORDS), {"topics": rows}) for rows in counts]


@pytest.mark.parametrize("true", [1, 2, 4, 5])
def test_topics_are_counted_though_no_site_has_all_of_them(true, rng):
    posteriors = topic_sites(rng, true)
    merged = db.merge(posteriors, components="auto")
    assert len(merged.natural["topics"]) == true


def test_more_components_than_are_searched_are_joined_first_and_as_many_topics_are_found(rng, monkeypatch):
    joined, taken = [], number.descend
    monkeypatch.setattr(number, "MOST_COMPONENTS", 14)
    monkeypatch.setattr(number, "descend", lambda *given: joined.append(given) or taken(*given))
    posteriors = topic_sites(rng, 4)
    assert len(db.merge(posteriors, components="auto").natural["topics"]) == 4
    components, start = joined[0]
    assert (len(components), start) == (14, 14)
    assert components.evidence.sum() == pytest.approx(8 * 3 * 400)


@pytest.mark.parametrize("true", [1, 3, 5])
def test_clusters_are_counted_though_sites_have_cut_some_in_two(true, rng):
    model, sites = db.GaussianMixture(1, dimension=1, variance=0.09, prior_variance=200.0), []
    prior = model.structure.prior
    structure = mixture(1).with_prior({"means": prior["components"], "weights": prior["weights"]})
    for _ in range(8):
        centres = 5.0 * rng.permutation(true)[:3]
        fits = [model.fit(rng.normal(c, 0.3, size=60), rng=rng).posterior for c in np.append(centres, centres[0])]
        rows = {
            name: np.vstack([f.contribution[part] for f in fits])
            for name, part in (("means", "components"), ("weights", "weights"))
        }
        sites.append(db.Posterior(structure.with_components(len(fits)), rows))
    assert len(db.merge(sites, components="auto").natural["means"]) == true


def looks_of(*ratios, first=None, noise=2.0, unknown=0):
    """Looks down to one join before the end, with so many at first whose noise is not known yet."""
    start = len(ratios) + 1 if first is None else first
    return [
        CheapestJoin(start - place, ratio * noise, 99.0 if place < unknown else noise, place >= unknown)
        for place, ratio in enumerate(ratios)
    ]


@pytest.mark.parametrize(
    ("looks", "expected"),
    [
        (looks_of(1.0, 1.2, 0.9, 8.0, 30.0), (3, True)),  # a clear jump
        (looks_of(1.0, 1.1, 0.8, 1.3, 1.9), (1, False)),  # nothing but noise
        (looks_of(1.0, 1.1, 2.3, 1.3, 2.9), (4, False)),  # perhaps, and never sure
        (looks_of(1.0, 2.2, 2.6, 3.0, 3.5, 4.1), (2, False)),  # too smooth a rise to tell
        (looks_of(1.0, 3.4, 4.1, 9.0), (4, True)),  # the steepest rise on the way to what is sure
        (looks_of(1.0, 2.6, 3.7, 4.2), (3, True)),
        (looks_of(9.0, 9.0, first=3), (None, False)),  # began below the number
        (looks_of(1.0, 1.0, 9.0, 9.0, unknown=1), (3, True)),  # early looks wait for the noise
    ],
)
def test_a_jump_in_what_the_cheapest_join_costs_is_the_number(looks, expected, monkeypatch):
    monkeypatch.setattr(number, "cheapest_joins", lambda components, start: iter(looks))
    found, clear, *_ = number.descend(range(50), 10)
    assert (found, clear) == expected


def test_the_first_number_at_which_two_slots_perhaps_differ_is_known_beside_the_jump(monkeypatch):
    monkeypatch.setattr(number, "cheapest_joins", lambda components, start: iter(looks_of(1.0, 2.1, 1.2, 8.0)))
    assert number.descend(range(50), 10) == (2, True, True, 4)


def test_where_it_began_is_no_jump_if_all_components_are_slots(monkeypatch):
    monkeypatch.setattr(number, "cheapest_joins", lambda components, start: iter(looks_of(9.0, 9.0, first=3)))
    assert number.descend(range(3), 3)[:2] == (3, True)


@pytest.mark.parametrize(("answer", "expected"), [((2, False, True), 3), ((2, True, True), 2), ((2, False, False), 2)])
def test_where_it_cannot_be_told_the_largest_site_decides(answer, expected, rng, monkeypatch):
    posteriors = topic_sites(rng, 4)
    monkeypatch.setattr(number, "descend", lambda components, start: (*answer, answer[0]))
    monkeypatch.setattr(elsewhere, "better_elsewhere", lambda *numbers: False)
    assert len(db.merge(posteriors, components="auto").natural["topics"]) == expected


@pytest.mark.parametrize("seed", range(3))
def test_topics_of_few_documents_are_not_joined_if_more_describe_other_sites_better(seed):
    """Noise of topics of twelve documents hides that they differ: half of the words are the same in all."""
    rng = np.random.default_rng(seed)
    themes = 0.5 * np.kron(np.eye(6), np.full(10, 0.1)) + 0.5 / 60
    model = db.LatentDirichletAllocation(6, [f"w{n}" for n in range(60)], topic_prior=0.1)
    shards = [np.array([rng.multinomial(20, themes[theme]) for theme in rng.choice(6, 12)]) for _ in range(8)]
    alignment = db.align([model.fit(shard, rng=rng).posterior for shard in shards], components="auto")
    assert alignment.structure.components(*alignment.structure.symmetry) == 6
    assert alignment.reason.startswith("6 slots: fewer would describe other sites' topics worse")


@pytest.mark.parametrize(
    ("answer", "expected"), [((2, False, False), 5), ((2, False, True), 5), ((2, True, True), 5), ((7, True, True), 7)]
)
def test_an_earlier_merge_keeps_its_slots(answer, expected, rng, monkeypatch):
    posteriors = topic_sites(rng, 4)
    before = db.merge(posteriors, components=5)
    monkeypatch.setattr(number, "descend", lambda components, start: (*answer, answer[0]))
    assert len(db.merge(posteriors, components="auto", since=before).natural["topics"]) == expected


def test_a_way_down_that_began_too_low_begins_again_twice_as_high(rng, monkeypatch):
    begun = []

    def descend(components, start):
        begun.append(start)
        return (None, False, True, start) if start < len(components) else (7, True, True, 7)

    monkeypatch.setattr(number, "descend", descend)
    posteriors = topic_sites(rng, 5, sites=30)
    assert len(db.merge(posteriors, components="auto").natural["topics"]) == 7
    assert begun == [30, 60, 90]


def search_of(rng, labels, count):
    matrix = np.array([rng.multinomial(200 + 30 * label, TRUTH[label % 5]) for label in labels], dtype=float)
    structure = topics(count, WORDS)
    posteriors = [db.Posterior(topics(1, WORDS), {"topics": row[None]}) for row in matrix]
    problem = coupled_problem(posteriors, structure.symmetry[0], structure)
    components = Components.of(problem.factors, problem.contents)
    base = bases(components.factors, float(components.evidence.sum()), count)
    return matrix, SlotSearch(components, np.array(labels), base, count)


def known(counts):
    return xlogy(counts, counts).sum() - xlogy(counts.sum(), counts.sum())


def test_noise_is_what_components_lose_in_their_slots(rng):
    labels = [0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 5]
    matrix, search = search_of(rng, labels, 6)
    groups = [np.flatnonzero(search.labels == slot) for slot in range(6)]
    lost = []
    for member, slot in enumerate(labels):
        others = np.setdiff1d(groups[slot], [member])
        if len(others):
            joined = known(matrix[groups[slot]].sum(axis=0)) - known(matrix[others].sum(axis=0))
            lost.append(known(matrix[member]) - joined)
    members = np.bincount(labels)
    least = number.sampling_noise(search.components)
    assert least == pytest.approx(np.median(0.5 * ((matrix > 0).sum(axis=1) - 1)))
    assert number.measured_noise(search, members, 0.3) == (pytest.approx(np.clip(np.median(lost), 0.3, 1.5)), True)
    assert number.measured_noise(search, members, np.median(lost) / 2)[0] == pytest.approx(np.median(lost))
    assert number.measured_noise(search, members, 2 * np.median(lost))[0] == pytest.approx(2 * np.median(lost))
    _, alone = search_of(rng, [0, 0, 1, 2, 3, 4, 5, 6], 7)
    assert number.measured_noise(alone, np.bincount(alone.labels), 1.0)[1] is False


def test_a_look_divides_the_cheapest_join_by_what_a_crowd_of_noise_would_gain(rng):
    labels = list(range(5)) * 4
    matrix, search = search_of(rng, labels, 5)
    (look,) = [each for each in number.cheapest_joins(search.components, 6) if each.slots == 5]
    groups = [matrix[np.array(labels) == slot].sum(axis=0) for slot in range(5)]
    cheapest, first, second = min(
        (known(groups[i]) + known(groups[j]) - known(groups[i] + groups[j]), i, j) for i in range(5) for j in range(i)
    )
    freedom = min(np.exp(stats.entropy(groups[k])) - 1.0 for k in (first, second))
    assert look.cost == pytest.approx(cheapest / (1.0 + np.sqrt(8 / freedom)) ** 2)
