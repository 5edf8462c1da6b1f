"""One noise for all sites: private releases that are only ever seen as a sum."""

import numpy as np
import pytest
from masked_sums import NAMES, public, signing
from scipy.stats import norm

import decbayes as db
from decbayes.errors import NotPrivate, SumRefused
from decbayes.secure import Seat, opened_release, private_terms

COLUMNS = {"x": db.columns.Gaussian(), "ill": db.columns.YesNo()}
MODEL = db.LogisticRegression("ill", columns=COLUMNS)
SEATS = {name: public(name) for name in NAMES}


def patients(rng, count):
    x = rng.normal(size=count)
    return {"x": x, "ill": rng.random(count) < 1.0 / (1.0 + np.exp(-(0.5 + x)))}


def one_round(anchor, tables, ledgers, privacy, before):
    """All sites' releases, masked, opened and added up; the result at each site."""
    releases = {
        name: MODEL.release(anchor[name], table, privacy, ledger=ledgers[name]) for name, table in tables.items()
    }
    terms = {n: private_terms(release, SEATS, group="study", before=before[n]) for n, release in releases.items()}
    assert len({each.digest for each in terms.values()}) == 1
    seats = {name: Seat.begun(terms[name], name, signing(name).sign) for name in NAMES}
    keys = [seat.sent["key"] for seat in seats.values()]
    seats = {name: seat.masking(releases[name].values, keys, signing(name).sign) for name, seat in seats.items()}
    packets = [seat.sent["masked"] for seat in seats.values()]
    openings = [seat.opening(packets, signing(name).sign).sent["opening"] for name, seat in seats.items()]
    whole = {n: opened_release(terms[n], releases[n], packets, openings, name=n) for n in NAMES}
    assert (whole["east"].values == sum(release.values for release in releases.values())).all()
    return releases, whole


def test_rounds_of_masked_releases_are_a_private_merge_at_every_site(tmp_path, rng):
    privacy = db.Privacy(3.0, 1e-6, noise="shared", sites=4, colluders=1)
    tables = {name: patients(rng, 1500) for name in NAMES}
    ledgers = {name: db.disclosure.Ledger(tmp_path / f"{name}.ledger") for name in NAMES}
    sums = {name: [] for name in NAMES}
    anchor = dict.fromkeys(NAMES, db.Posterior.of_prior(MODEL.structure))
    for _ in range(MODEL.mechanism().rounds):
        _, whole = one_round(anchor, tables, ledgers, privacy, sums)
        for name in NAMES:
            sums[name].append(whole[name])
        anchor = {name: db.private_merge(MODEL.structure, sums[name]) for name in NAMES}
    found = [merge.posterior.mean("coefficients") for merge in anchor.values()]
    assert all((each == found[0]).all() for each in found)
    np.testing.assert_allclose(found[0].ravel(), [0.5, 1.0], atol=0.3)
    assert len(ledgers["east"].entries()) == MODEL.mechanism().rounds


def test_a_single_release_is_refused_everywhere_but_in_the_sum(tmp_path, rng):
    privacy = db.Privacy(1.0, 1e-6, noise="shared", sites=4)
    ledger = db.disclosure.Ledger(tmp_path / "a.ledger")
    prior = db.Posterior.of_prior(MODEL.structure)
    release = MODEL.release(prior, patients(rng, 50), privacy, ledger=ledger)
    with pytest.raises(NotPrivate):
        db.private_merge(MODEL.structure, [release])
    with pytest.raises(SumRefused, match="shared by 4 sites, and the sum is over 3"):
        private_terms(release, dict(list(SEATS.items())[:3]), group="study")
    whole = MODEL.release(prior, patients(rng, 50), db.Privacy(1.0, 1e-6), ledger=db.disclosure.Ledger(tmp_path / "b"))
    with pytest.raises(SumRefused, match="Round 0 comes after 0 opened sums, not 1"):
        private_terms(release, SEATS, group="study", before=[release])
    with pytest.raises(SumRefused, match="may be sent as it is"):
        private_terms(whole, SEATS, group="study")


def test_the_noise_of_the_honest_sites_alone_is_what_was_promised(tmp_path, rng):
    """All but the colluders add up to the variance that a site would have to add alone, which the standard deviations
    of many opened sums without data show."""
    prior, nobody = db.Posterior.of_prior(MODEL.structure), {"x": np.zeros(0), "ill": np.zeros(0, dtype=bool)}
    shared = db.Privacy(1.0, 1e-6, noise="shared", sites=4, colluders=2)
    released = [
        MODEL.release(prior, nobody, privacy, ledger=db.disclosure.Ledger(tmp_path / f"{number}.ledger"))
        for number, privacy in enumerate((shared, db.Privacy(1.0, 1e-6)))
    ]
    share, alone = released
    assert alone.variance <= 2 * share.variance < 1.01 * alone.variance
    draws = np.concatenate([
        sum(db.privacy.discrete_gaussian(share.variance, 500) for _ in range(2)) / np.sqrt(2 * share.variance)
        for _ in range(4)
    ])  # fmt: skip
    assert draws.std() == pytest.approx(1.0, abs=4 * np.sqrt(0.5 / len(draws)))
    assert abs(np.mean(draws < 1.0) - norm.cdf(1.0)) < 0.04
