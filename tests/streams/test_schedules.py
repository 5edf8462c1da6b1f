"""Who sees what, and when: each schedule hands a site exactly the evidence that it says."""

from dataclasses import dataclass, field

import joblib
import numpy as np
import pytest

import decbayes as db

CENTRES = np.array([-3.0, 0.0, 3.0])


@dataclass(frozen=True)
class Watched(db.GaussianMixture):
    """A mixture that writes down what each fit was given."""

    calls: list = field(default_factory=list, compare=False, kw_only=True)

    def fit(self, data, *, rng, prior=None, start=None, progress=None):
        self.calls.append((data, prior, start))
        return super().fit(data, rng=rng, prior=prior, start=start, progress=progress)


def watched(passes=2):
    """Few passes, so that each round changes something."""
    return Watched(3, 1, variance=0.5, prior_variance=9.0, ascent=db.Ascent(passes=passes))


@pytest.fixture
def shards(rng):
    return [rng.normal(rng.choice(CENTRES, size=12), 0.7) for _ in range(5)]


def fitted(model, shards, rng):
    posteriors = [model.fit(shard, rng=rng).posterior for shard in shards]
    model.calls.clear()
    return posteriors


def total(posteriors):
    return {name: sum(p.contribution[name] for p in posteriors) for name in ("weights", "components")}


def holds(posterior, expected):
    return all(np.allclose(posterior.contribution[name], expected[name], atol=1e-9) for name in expected)


def test_in_sequence_each_site_sees_all_earlier_updates(shards, rng):
    model = watched()
    before = db.align(fitted(model, shards, rng), components="largest").relabelled()
    refined = db.refine(model, shards, before, rounds=1, rng=rng)
    after = refined.posteriors
    for site, (_, prior, start) in enumerate(model.calls):
        others = [*after[:site], *before[site + 1 :]]
        assert holds(prior, total(others))
        assert holds(start, total([*others, before[site]]))
    assert not holds(after[0], total([before[0]])), "a round that changes nothing shows nothing"


def test_in_parallel_all_sites_see_the_last_round(shards, rng):
    model = watched()
    before = db.align(fitted(model, shards, rng), components="largest").relabelled()
    with joblib.parallel_config(n_jobs=1):
        db.refine(model, shards, before, rounds=1, rng=rng, schedule="parallel")
    for site, (_, prior, start) in enumerate(model.calls):
        assert holds(prior, total([*before[:site], *before[site + 1 :]]))
        assert holds(start, total(before))


def test_the_parallel_schedule_uses_as_many_workers_as_joblib_is_told(shards, rng, monkeypatch):
    """One worker: no two refits overlap."""
    model, running, most = watched(), [], []
    fit = db.GaussianMixture.fit

    def counting(self, *arguments, **options):
        running.append(1)
        most.append(len(running))
        result = fit(self, *arguments, **options)
        running.pop()
        return result

    posteriors = fitted(model, shards, rng)
    monkeypatch.setattr(db.GaussianMixture, "fit", counting)
    with joblib.parallel_config(n_jobs=1):
        db.refine(model, shards, posteriors, rounds=2, rng=rng, schedule="parallel")
    assert (len(most), max(most)) == (10, 1)


def test_asynchronously_sites_see_others_as_they_were_and_never_older_than_a_round(shards, rng):
    """Each site's own part is current; of some other site it sees what that had said before."""
    stale = 0
    for _ in range(5):
        model = watched()
        before = db.align(fitted(model, shards, rng), components="largest").relabelled()
        after = db.refine(model, shards, before, rounds=1, rng=rng, schedule="asynchronous").posteriors
        order = [next(i for i, shard in enumerate(shards) if shard is data) for data, _, _ in model.calls]
        for turn, (site, (_, prior, start)) in enumerate(zip(order, model.calls, strict=True)):
            views = []
            for updated in range(turn + 1):
                done = set(order[:updated])
                views.append([(after if i in done else before)[i] for i in range(5) if i != site])
            seen = [updated for updated, view in enumerate(views) if holds(prior, total(view))]
            assert seen, "a view that never was"
            stale += turn not in seen
            assert holds(start, total([*views[seen[0]], before[site]]))
    assert stale > 3


def test_asynchronous_sda_starts_each_batch_from_what_the_site_last_saw(shards, rng):
    """At first that is the prior, whatever the others have published meanwhile."""
    model = watched()
    db.streams.sda_bayes(model, [[shard[:6], shard[6:]] for shard in shards], rng=rng, schedule="asynchronous")
    nothing = db.Posterior.of_prior(model.structure)
    firsts = [prior for data, prior, _ in model.calls if any(np.array_equal(data, shard[:6]) for shard in shards)]
    seconds = [prior for data, prior, _ in model.calls if any(np.array_equal(data, shard[6:]) for shard in shards)]
    assert all(prior in (None, nothing) for prior in firsts)
    assert all(prior not in (None, nothing) for prior in seconds)


def test_data_on_top_of_earlier_data_starts_from_it(shards, rng):
    """Labels of later data are then those of the earlier: a fresh start would choose its own."""
    model = watched()
    *_, last = db.streams.epochs(model, [shards[:2], shards[2:4]], rng=rng)
    (_, _, first), (_, _, _), (_, prior, start), _ = model.calls
    assert first is None
    assert start == prior
    assert total([last])["weights"].sum() == pytest.approx(48)


@pytest.mark.parametrize("seen", [(0, 1), (0, 2), (1, 2), (2, 1)])
def test_an_epochs_contributions_go_where_the_prior_has_their_like(seen, rng):
    """Two sites that each see one cluster: only the prior tells which slots these belong to."""
    model = db.GaussianMixture(3, dimension=1, variance=0.5, prior_variance=9.0)
    first = rng.normal(np.repeat(CENTRES, 30), 0.5)
    later = [rng.normal(CENTRES[cluster], 0.5, size=30) for cluster in seen]
    *_, last = db.streams.epochs(model, [[first], later], rng=rng)
    order = np.argsort(last.mean("components")[:, 0])
    np.testing.assert_allclose(last.mean("components")[order, 0], CENTRES, atol=0.3)
    expected = [30 + 30 * (cluster in seen) for cluster in range(3)]
    np.testing.assert_allclose(last.contribution["weights"][order, 0], expected, atol=3)


def test_refinement_runs_until_it_has_converged_and_says_so(shards, rng):
    model = watched(passes=50)
    posteriors = fitted(model, shards, rng)
    refined = db.refine(model, shards, posteriors, rng=rng, tolerance=1e-3)
    assert refined.converged
    assert len(refined.rounds) == len(refined.shifts) + 1 < 50
    assert refined.shifts[-1] <= 1e-3 < min(refined.shifts[:-1])
    short = db.refine(model, shards, posteriors, rng=rng, tolerance=0.0, most=2)
    assert (len(short.shifts), short.converged) == (2, False)
    fixed = db.refine(model, shards, posteriors, rng=rng, rounds=0)
    assert (fixed.shifts, fixed.converged, len(fixed.rounds)) == ((), False, 1)
    with pytest.raises(ValueError, match="tolerance"):
        db.refine(model, shards, posteriors, rng=rng, tolerance=-1.0)


def test_a_shift_is_measured_in_standard_deviations(rng):
    """A mean that moves by half its deviation, of two natural parameters: √(0.5² / 2)."""
    from decbayes.updates.update import shift

    structure = db.models.GaussianMean(prior_variance=1e6, dimension=1).structure
    family = db.families.IsotropicGaussian()
    before, after = (
        db.Posterior.from_natural(structure, {"mean": family.natural(mean=[[m]], variance=0.04)}) for m in (1.0, 1.1)
    )
    assert shift(before, after) == pytest.approx(np.sqrt(0.5**2 / 2), rel=1e-6)
    assert shift(after, after) == 0.0


def test_refinement_begins_with_the_merge_whatever_the_labels():
    """Each site has labels of its own: added up as they are, two clusters would become one in the middle."""
    rng = np.random.default_rng(0)
    model = db.GaussianMixture(components=2, dimension=1, variance=0.09, prior_variance=20.0)
    shards = [rng.normal(np.repeat([-4.0, 4.0], 10), 0.3) for _ in range(2)]
    first, second = (model.fit(shard, rng=rng).posterior for shard in shards)
    means = [posterior.mean("components")[:, 0] for posterior in (first, second)]
    if (np.sign(means[0]) == np.sign(means[1])).all():
        second = db.Posterior(second.structure, {name: part[::-1] for name, part in second.contribution.items()})
    refined = db.refine(model, shards, [first, second], rounds=0, rng=rng)
    assert refined.rounds[0] == db.merge([first, second])
    np.testing.assert_allclose(np.sort(refined.rounds[0].mean("components")[:, 0]), [-4.0, 4.0], atol=0.3)
