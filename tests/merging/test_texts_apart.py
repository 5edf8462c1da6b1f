"""What a merge says about sites whose texts are on different subjects: the same whatever the disclosure rules hide."""

import warnings

import numpy as np
import pytest
from scipy.sparse import csr_array

import decbayes as db
from decbayes.merging.base.subjects import CommonWords, gain_apart, indicator
from decbayes.reporting._sites import participants_table
from decbayes.views import Findings, view_of
from decbayes.views.participants import About

SUBJECTS, TOPICS, OWN, EVERYDAY, RARE = 3, 4, 60, 40, 400
WORDS = SUBJECTS * OWN + EVERYDAY + RARE
MODEL = db.LatentDirichletAllocation(TOPICS, tuple(f"w{word}" for word in range(WORDS)))


def site(rng, subject, size=8000, hidden=True):
    """Topics over a subject's words, everyday words and a tail; `hidden`: rare words share counts, as by the rules."""
    counts = np.zeros((TOPICS, WORDS))
    for topic in range(TOPICS):
        first = subject * OWN + topic * (OWN // TOPICS)
        counts[topic, first : first + OWN // TOPICS] = rng.poisson(0.6 * size / OWN, OWN // TOPICS)
        counts[topic, SUBJECTS * OWN : SUBJECTS * OWN + EVERYDAY] = rng.poisson(
            0.15 * size / TOPICS / EVERYDAY, EVERYDAY
        )
        counts[topic, -RARE:] = rng.poisson(0.25 * size / TOPICS / RARE, RARE)
    rare = counts.sum(axis=0) < 15
    if hidden:
        counts[:, rare] = counts[:, rare].sum(axis=1, keepdims=True) / rare.sum()
    return db.Posterior(MODEL.structure, {"topics": csr_array(counts)})


def merged(sites, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return db.merge(sites, **options)


def said(posterior, *kinds):
    return [remark.what for remark in posterior.remarks if remark.kind in kinds]


@pytest.mark.parametrize("slots", [TOPICS, 2 * TOPICS, 3 * TOPICS])
def test_sites_that_share_nothing_are_named_whether_or_not_rare_words_are_hidden(slots):
    texts = []
    for hidden in (False, True):
        rng = np.random.default_rng(4)
        sites = [site(rng, *given, hidden=hidden) for given in ((0, 16000), (1, 8000), (1, 3000), (2, 3000))]
        texts.append(said(merged(sites, components=slots), "nothing shared", "site alone"))
    assert len(texts[0]) == 1
    assert "3 groups of sites" in texts[0][0]
    assert "site 1, site 2; site 0; site 3" in texts[0][0]
    assert texts[0][0].split(":")[1:] == texts[1][0].split(":")[1:]


@pytest.mark.parametrize("slots", [TOPICS, 3 * TOPICS])
def test_sites_with_the_same_topics_are_not_apart_even_in_slots_of_their_own(rng, slots):
    sites = [site(rng, 0, size) for size in (16000, 6000, 2500)]
    assert not said(merged(sites, components=slots), "nothing shared", "site alone", "fused topics")


def test_words_that_rules_share_out_make_no_sites_alike(rng):
    (coupled,) = MODEL.structure.symmetry
    words = CommonWords.of([site(rng, 0), site(rng, 0, 2500), site(rng, 1)], coupled)
    same, other = words.affinities(0)[1:]
    assert same > 0.95
    assert other == pytest.approx(0.2, abs=0.08)  # everyday words: 0.15 of 0.15 + 0.6
    assert sorted(map(sorted, words.groups(0.5))) == [[0, 1], [2]]


def test_topics_of_another_subject_in_few_slots_are_a_warning_with_a_number_of_slots(rng):
    sites = [site(rng, 0, 40000), site(rng, 1, 12000)]
    first = merged(sites).remarks[0]
    assert (first.kind, first.is_warning) == ("fused topics", True)
    assert "site 1 end in few slots: 8 slots instead of 4" in first.what
    assert not said(merged(sites, components=8), "fused topics")
    assert not said(merged([site(rng, 0, 40000), site(rng, 0, 12000)]), "fused topics", "more slots")


def test_the_gain_of_own_slots_is_the_information_about_words_lost_less_the_cost_of_estimates():
    """Two topics of a thousand words each, without a common word, in one slot: log 2 per word is lost."""
    counts, one, two = csr_array(np.kron(np.eye(2), np.full(10, 100.0))), indicator(np.zeros(2, int), 1), np.eye(2)
    assert gain_apart(counts, one @ counts) == pytest.approx(0.5 * np.log(2.0))
    assert gain_apart(counts, csr_array(two[::-1]) @ counts) == pytest.approx(0.0)
    alike = csr_array(np.full((2, 10), 100.0))
    assert -0.05 < gain_apart(alike, one @ alike) < 0.0


def test_topics_have_no_log_bayes_factor_and_no_narrower_intervals(rng):
    """Divided counts look the same whatever the sites have: neither the evidence for that nor a gain is known."""
    alignment = db.align([site(rng, 0), site(rng, 1)])
    assert not db.merging.influence(alignment).comparisons
    assert not db.merging.influence(alignment).disagreeing.any()
    three = db.merging.influence(db.align([site(rng, 0), site(rng, 0), site(rng, 1)]))
    assert list(three.comparisons) == ["against"]
    assert "narrower" not in str(participants_table(Findings.by_name(alignment, "ab"), About()))


def unequal_archives(rng, mixing=20.0, small=4):
    """A large archive with a topic for each theme, and small ones that mix themes and share out half of their counts.

    Words are used a little more or less at each site, as documents repeat them.
    """
    themes, own, tail = 8, 12, 600
    model = db.LatentDirichletAllocation(themes, tuple(f"w{word}" for word in range(themes * own + tail)))
    varied = [rng.gamma(20.0, 1 / 20.0, themes * own) for _ in range(small + 1)]
    topics = np.hstack(
        [np.kron(np.eye(themes), np.full(own, 0.5 / own)) * varied[0], np.full((themes, tail), 0.5 / tail)]
    )
    sites, shares = [rng.poisson(25_000 * topics).astype(float)], np.sqrt(np.linspace(5.0, 500.0, tail))
    for words in varied[1:]:
        mixed = np.repeat(rng.dirichlet(np.full(themes, mixing), themes), own, axis=1) * words
        counts = rng.poisson(500 * mixed / mixed.sum(axis=1, keepdims=True))
        sites.append(np.hstack([counts, rng.poisson(500, (themes, 1)) * shares / shares.sum()]))
    return [db.Posterior(model.structure, {"topics": csr_array(counts)}) for counts in sites]


@pytest.mark.parametrize("mixing", [0.5, 1.0, 3.0])
def test_a_large_archive_that_describes_small_ones_best_is_not_accused_because_they_hide_most_words(mixing):
    """No other site has its topics in the merge. With its words in other topics it describes nobody, and is named."""
    large, *small = unequal_archives(np.random.default_rng(0), mixing)
    merge = db.merging.robust_merge([large, *small])
    standing = merge.sites[0]
    assert standing.alone > 0.5
    assert (standing.describes, standing.counts, standing.flagged) == (True, 1.0, False)
    remarks = [remark for remark in merge.remarks() if remark.kind == "few sites"]
    assert ("note", True) in [(one.severity, one.advice.startswith("They include a large site")) for one in remarks]
    moved = np.random.default_rng(0).permuted(large.contribution["topics"].toarray(), axis=0)
    liar = db.Posterior(large.structure, {"topics": csr_array(moved)})
    accused = db.merging.robust_merge([liar, *small]).sites[0]
    assert (accused.flagged, accused.describes) == (True, False)


def test_sites_whose_topics_are_mostly_in_one_are_named_with_what_they_hide(rng):
    sites = unequal_archives(rng)
    names = [f"s{number}" for number in range(5)]

    def said_of(posteriors, **options):
        alignment = db.align(posteriors, **options)
        remarks = view_of(alignment.structure).advice(alignment, names[: len(posteriors)])
        return {one.kind: one for one in remarks}.get("topics not told apart")

    remark = said_of(sites)
    assert remark.what.startswith("Most of what s1, s2, s3, s4 found is in topic ")
    assert remark.sites == (1, 2, 3, 4)
    assert remark.rests_on.startswith("Words in few documents share their counts: 50%")
    assert "--solver matching" in remark.advice
    assert said_of(sites, solver="matching") is None
    assert "matching" not in said_of(sites, components=5).advice  # one to one needs eight slots
    assert said_of([site(rng, 0) for _ in range(4)]) is None
