"""One pass over a stream: what it finds, what it keeps, and how it goes on."""

import tracemalloc

import numpy as np
import pytest

import decbayes as db
from decbayes.models.likelihoods.emissions import plus
from decbayes.models.mixtures.moves import join_gains
from decbayes.streams.one_pass import Stream, mixed

GRID = 7.0 * np.stack(np.meshgrid(range(3), range(2)), axis=-1).reshape(-1, 2)
KINDS = [{"variance": 1.0, "prior_variance": 60.0}, {"covariance": "diagonal"}, {"covariance": "full"}]
NAMES = ["known", "diagonal", "full"]


def mixture(count, **kind):
    return db.GaussianMixture(count, 2, ascent=db.Ascent(restarts=2), **(kind or KINDS[0]))


def draw(rng, count, clusters=range(6)):
    return GRID[rng.choice(clusters, count)] + rng.normal(size=(count, 2))


def chunks(points, size=500):
    return [points[first : first + size] for first in range(0, len(points), size)]


def last(model, stream, **options):
    *_, posterior = db.streams.sequential(model, stream, **options)
    return posterior


def number(posterior):
    return len(posterior.natural["weights"])


@pytest.mark.parametrize("kind", KINDS, ids=NAMES)
def test_one_pass_finds_what_a_batch_fit_of_the_true_number_finds(kind, rng):
    points, held_out = draw(rng, 3000), draw(rng, 2000)
    model, told = mixture("auto", **kind), mixture(6, **kind)
    posterior = last(model, chunks(points), rng=rng)
    batch = told.fit(points, rng=rng).posterior
    assert number(posterior) == 6
    assert model.score(posterior, held_out) > told.score(batch, held_out) - 0.01


@pytest.mark.parametrize("kind", KINDS[:2], ids=NAMES[:2])
def test_clusters_that_turn_up_later_get_components_of_their_own(kind, rng):
    stream = [*chunks(draw(rng, 1000, [0, 1]), 250), *chunks(draw(rng, 2000))]
    held_out = draw(rng, 2000)
    model, told = mixture("auto", **kind), mixture(6, **kind)
    found = list(db.streams.sequential(model, stream, rng=rng))
    assert [number(found[place]) for place in (3, -1)] == [2, 6]
    batch = told.fit(np.concatenate(stream), rng=rng).posterior
    assert model.score(found[-1], held_out) > told.score(batch, held_out) - 0.02


def test_every_point_counts_once_unless_it_was_forgotten(rng):
    stream = [*(draw(rng, size, [0, 1]) for size in (10, 0, 300, 1, 900)), draw(rng, 600), draw(rng, 700)]
    counts = [
        posterior.contribution["weights"].sum() for posterior in db.streams.sequential(mixture("auto"), stream, rng=rng)
    ]
    np.testing.assert_allclose(counts, np.cumsum([len(chunk) for chunk in stream]), rtol=1e-9)


def test_a_component_opens_where_the_dirichlet_process_says_so(rng):
    """Against the rule written out for one component of known variance: n N(x; m, 1 + v) and c N(x; 0, 61)."""
    model = mixture("auto")
    start = last(model, [rng.normal(size=(1000, 2))], rng=rng)
    assert number(start) == 1
    points = np.column_stack([np.linspace(3.0, 8.0, 200), np.zeros(200)])
    mean, variance = start.parameters("components").values()
    for concentration in (0.01, 1.0, 100.0):
        new, _ = Stream(model, start, concentration, rng)._compare(points)
        there = 1000 * normal(points - mean, 1.0 + variance)
        np.testing.assert_array_equal(new, concentration * normal(points, 61.0) > there)
        assert 0 < new.sum() < 200


def normal(difference, variance):
    return np.exp(-0.5 * (difference**2).sum(axis=1) / variance) / (2 * np.pi * variance)


def test_components_are_joined_when_the_bound_of_all_points_rises(rng):
    """The gain less what two share is the change of the bound at given responsibilities, here written out."""
    model, points = mixture("auto"), draw(rng, 50, [0])
    shares = rng.dirichlet(np.ones(2), size=50)
    features = model.likelihood.features(points)

    def bound(responsibilities):
        structure = model.sized(responsibilities.shape[1]).structure
        natural = plus(model.emissions, dict(structure.prior), responsibilities.T @ features)
        families = structure.families
        value = sum(
            families[n].log_partition(natural[n]) - families[n].log_partition(structure.prior[n]) for n in natural
        )
        return natural, value - np.sum(responsibilities * np.log(responsibilities))

    natural, apart = bound(shares)
    _, together = bound(shares.sum(axis=1, keepdims=True))
    gain = join_gains(model.structure, natural)[0, 1] - mixed(shares[:, 0], shares[:, 1])
    assert gain == pytest.approx(together - apart, abs=1e-8)


def test_a_stray_point_is_forgotten_when_the_stream_has_doubled_twice(rng):
    stream = [draw(rng, 1500), np.array([[200.0, 200.0]]), *chunks(draw(rng, 6000))]
    found = [number(posterior) for posterior in db.streams.sequential(mixture("auto"), stream, rng=rng)]
    assert found[:2] == [6, 7]
    assert found[-1] == 6


def test_a_stream_goes_on_from_its_last_posterior(rng):
    model, stream = mixture("auto"), chunks(draw(rng, 2000), 250)
    half = last(model, stream[:4], rng=rng)
    whole = last(model, stream[4:], start=half, rng=rng)
    assert number(whole) == 6
    assert whole.contribution["weights"].sum() == pytest.approx(2000)
    assert model.score(whole, stream[0]) == pytest.approx(
        model.score(last(model, stream, rng=rng), stream[0]), abs=0.01
    )


def test_streams_of_several_sites_merge(rng):
    model = mixture("auto")
    sites = [last(model, chunks(draw(rng, 1000, seen)), rng=rng) for seen in ([0, 1, 2, 3], [2, 3, 4, 5])]
    merged = db.merge(sites, components=6)
    batch = mixture(6).fit(draw(rng, 2000), rng=rng).posterior
    held_out = draw(rng, 2000)
    # The sites see the middle clusters twice as often.
    assert model.score(merged, held_out) > model.score(batch, held_out) - 0.1


def test_memory_does_not_grow_with_the_stream(rng):
    model = mixture("auto")
    start = last(model, [draw(rng, 1000)], rng=rng)

    def peak(count):
        tracemalloc.start()
        last(model, (draw(rng, 1000) for _ in range(count)), start=start, rng=rng)
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return most

    peak(1)
    # Blocks grow until 16,000 points have been seen.
    assert peak(40) < 1.2 * peak(20)


def test_what_cannot_be_streamed_is_refused(rng):
    for model in (mixture(3), db.LatentDirichletAllocation("auto", ("a", "b")), None):
        with pytest.raises(ValueError, match='give it a mixture with components="auto"'):
            next(db.streams.sequential(model, [], rng=rng))
    with pytest.raises(ValueError, match="concentration must be a positive number"):
        next(db.streams.sequential(mixture("auto"), [], rng=rng, concentration=0.0))
    with pytest.raises(TypeError, match="rng must be of type Generator"):
        next(db.streams.sequential(mixture("auto"), [], rng="0"))
    other = db.Posterior.of_prior(mixture("auto", covariance="full").structure)
    with pytest.raises(db.errors.StructureMismatch, match="The start belongs to"):
        next(db.streams.sequential(mixture("auto"), [draw(rng, 5)], start=other, rng=rng))


def test_small_chunks_at_the_start_are_fitted_together(rng):
    points = draw(rng, 1100)
    found = list(db.streams.sequential(mixture("auto"), chunks(points, 100), rng=rng))
    assert [number(found[place]) for place in (3, 7, 9, 10)] == [6, 6, 6, 6]
    (whole,) = db.streams.sequential(mixture("auto"), [points], rng=rng)
    assert mixture("auto").score(found[-1], points) == pytest.approx(mixture("auto").score(whole, points), abs=1e-3)
