"""A claim function given a losing table says so."""

import pytest
from paper_tiny import row, table

from paper.claims import Compared, beats, below, no_worse, number, within
from paper.corpora import SCORE
from paper.features_common import LIKELIHOOD
from paper.features_faces import FeaturesFaces
from paper.features_synthetic import ERROR, FeaturesSynthetic
from paper.gaussian import Gaussian
from paper.lda_results import ROUNDS, WIDE_BATCH, checked
from paper.mixture_agents import MixtureAgents
from paper.mixture_amps import MixtureAmps
from paper.mixture_naive import MixtureNaive
from paper.mixture_restarts import sticking
from paper.mixture_symmetrized import MixtureSymmetrized
from paper.mixture_true import MixtureTrue
from paper.sda import METHODS, Sda
from paper.starts import best_starts
from paper.wider import WIDE_AMPS

WINNING = {
    "AMPS": -7.6, "naive": -7.9, "agent": -8.0, "batch": -7.5, "batch, weak start": -7.8, "AMPS, weak start": -7.8,
    ROUNDS[1]: -7.53, ROUNDS[2]: -7.51, ROUNDS[4]: -7.49, WIDE_AMPS: -7.45, WIDE_BATCH: -7.4,
}  # fmt: skip
LOSING = {
    "AMPS": -8.1, "naive": -7.9, "agent": -8.0, "batch": -8.1, "batch, weak start": -7.6, "AMPS, weak start": -7.8,
    ROUNDS[1]: -8.3, ROUNDS[2]: -8.3, ROUNDS[4]: -8.3, WIDE_AMPS: -8.15, WIDE_BATCH: -8.3,
}  # fmt: skip


def lda_table(scores, trials=2):
    rows = []
    for trial in range(trials):
        for method, score in scores.items():
            setting = "" if method.startswith("batch") else "10 agents"
            # Agents differ more than merges do, unless the merge loses.
            spread = 0.1 if (method == "agent") == (scores is WINNING) else 0.01
            rows.append(row(method, SCORE, score + spread * trial, setting=setting, trial=trial))
    return table(*rows)


def test_sentences_carry_the_numbers_and_the_verdict():
    mine, theirs = Compared("AMPS median", -7.56), Compared("the individual agents'", -8.37)
    assert str(beats(mine, theirs)) == "AMPS median −7.56 beats the individual agents' −8.37: holds"
    assert str(beats(theirs, mine)).endswith("does NOT hold")


def test_margins_and_slack_decide():
    near, far = Compared("a", 1.0), Compared("b", 0.9)
    assert beats(near, far, by=0.05).holds
    assert not beats(near, far, by=0.2).holds
    assert not no_worse(far, near).holds
    assert no_worse(far, near, slack=0.2).holds
    assert below(far, near).holds
    assert within(near, far, times=1.2).holds
    assert not within(near, far, times=1.1).holds


@pytest.mark.parametrize("claim", [beats, no_worse, below])
def test_nothing_is_claimed_of_what_was_not_measured(claim):
    assert not claim(Compared("a", float("nan")), Compared("b", 1.0)).holds
    assert number(float("nan")) == "–"


def test_unequal_numbers_never_print_alike():
    assert "0.1019 is below b 0.1023" in str(below(Compared("a", 0.10191), Compared("b", 0.10228)))


@pytest.mark.parametrize("split", ["random", "by-group"])
def test_lda_claims_follow_the_table(split):
    assert all(claim.holds for claim in checked(lda_table(WINNING), [10], split))
    assert not any(claim.holds for claim in checked(lda_table(LOSING), [10], split))


def test_no_spread_is_claimed_of_a_single_trial():
    several, single = (checked(lda_table(WINNING, trials), [10], "random") for trials in (2, 1))
    assert len(several) == len(single) + 1


def test_a_lead_that_shrinks_with_agents_is_told():
    scores = {("5 agents", "AMPS"): -7.6, ("5 agents", "agent"): -8.0, ("50 agents", "AMPS"): -7.6}
    scores["50 agents", "agent"] = -7.8
    rows = [row(method, SCORE, value, setting=setting) for (setting, method), value in scores.items()]
    growing = checked(table(*rows), [5, 50], "random")[-2]
    assert "0.40 is below" in str(growing)
    assert not growing.holds


def test_the_best_start_is_chosen_by_bound_not_by_score():
    rows = [
        row("batch", measure, value, member=start)
        for start, (score, bound) in enumerate([(-7.4, -30.0), (-7.6, -10.0), (-7.5, -20.0)])
        for measure, value in ((SCORE, score), ("bound", bound))
    ]
    assert best_starts(table(*rows), 3, SCORE).tolist() == [-7.6]
    assert best_starts(table(*rows), 1, SCORE).tolist() == [-7.4]
    assert best_starts(table(*rows), 4, SCORE).tolist() == []


def test_sda_claims_follow_the_table():
    scores = {"1×10": (-7.6, -7.9, -7.8), "10×1": (-7.7, -7.6, -7.9), "10×10": (-7.6, -7.7, -7.6)}
    rows = [
        row(method, SCORE, value, setting=setting)
        for setting, each in scores.items()
        for method, value in zip(METHODS, each, strict=True)
    ]
    assert [claim.holds for claim in Sda().claims(table(*rows))] == [True, False, False]


@pytest.mark.parametrize("wins", [True, False])
def test_feature_claims_follow_the_table(wins):
    best, worst = (0.1, 3.0) if wins else (3.0, 0.1)
    values = {"AMPS": best, "batch": best if wins else worst, "naive": worst, "agent": worst}
    values[WIDE_AMPS] = 0.05 if wins else 3.5
    rows = [row(m, measure, sign * v) for m, v in values.items() for measure, sign in ((ERROR, 1), (LIKELIHOOD, -1))]
    assert [claim.holds for claim in FeaturesSynthetic().claims(table(*rows))] == [wins] * 4
    assert [claim.holds for claim in FeaturesFaces().claims(table(*rows))] == [wins] * 3


@pytest.mark.parametrize("gap", [0.0, 1e-3])
def test_the_gaussian_merge_must_equal_the_batch(gap):
    rows = [
        row(m, measure, 1.0 + gap * (m == "merged")) for m in ("batch", "merged") for measure in ("mean", "deviation")
    ]
    assert [claim.holds for claim in Gaussian().claims(table(*rows))] == [gap == 0.0]


def test_one_region_is_not_six():
    six, one = [0.16, 0.18, 0.15, 0.17, 0.16, 0.18], [1.0, 0.0, 0.0, 0.0, 0.0, 0.0]
    claims = [
        MixtureTrue().claims(table(*(row("truth", "share of an ordering", share) for share in shares)))
        for shares in (six, one, [])
    ]
    assert [claim.holds for (claim,) in claims] == [True, False, False]


def restarts_table(shares, orderings):
    rows = [row("VB", "share of its ordering", share, member=i) for i, share in enumerate(shares)]
    return table(*rows, *(row("VB", "ordering", ordering, member=i) for i, ordering in enumerate(orderings)))


def test_restarts_that_wander_or_agree_are_told():
    verdicts = {
        ((1.0, 0.95, 0.5), (0, 4, 1)): [True, True],
        ((1.0, 0.95, 1.0), (2, 2, 2)): [True, False],
        ((1.0, 0.3, 0.5), (0, 4, 1)): [False, True],
        ((), ()): [False, False],
    }
    for (shares, orderings), expected in verdicts.items():
        assert [claim.holds for claim in sticking(restarts_table(shares, orderings), "VB")] == expected


@pytest.mark.parametrize("wins", [True, False])
def test_symmetrised_restarts_must_be_alike(wins):
    values = {"VB": 5.0, "symmetrised": 0.1 if wins else 4.0}
    rows = [row(m, what, v) for m, v in values.items() for what in ("distance between restarts", "distance from truth")]
    assert [claim.holds for claim in MixtureSymmetrized().claims(table(*rows))] == [wins, wins]


@pytest.mark.parametrize("wins", [True, False])
def test_mixture_claims_follow_the_table(wins):
    better, worse = (-1.2, -5.0) if wins else (-5.0, -1.2)
    scores = {"batch": better, "AMPS": better, "AMPS by swaps": better, "naive": worse, "agent": worse}
    rows = [row(method, "held-out log density", value) for method, value in scores.items()]
    assert [claim.holds for claim in MixtureNaive().claims(table(*rows))] == [wins]
    spreads = {"agent": -worse, "AMPS": -better, "batch": -better / 2}
    rows += [row(m, what, v) for m, v in spreads.items() for what in ("weights", "means")]
    assert [claim.holds for claim in MixtureAgents().claims(table(*rows))] == [wins] * 2
    rows += [row("AMPS", "distance from truth", -better), row("naive", "distance from truth", -worse)]
    verdicts = [claim.holds for claim in MixtureAmps().claims(table(*rows))]
    assert verdicts == [wins, wins, wins, True, wins, True]
