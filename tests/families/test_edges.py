"""Where families end: shapes that grow, sums at the edge of the domain, statistics of squares."""

import numpy as np

import decbayes as db
from decbayes.families import Transitions, Weights


def test_a_prior_of_transitions_keeps_who_stays_when_it_grows():
    family, prior = Transitions(), np.where(np.eye(3, dtype=bool), 9.0, 2.0)
    assert family.exchangeable(prior)
    np.testing.assert_array_equal(family.resized(prior, 3), prior)
    np.testing.assert_array_equal(family.resized(prior, 4), np.where(np.eye(4, dtype=bool), 9.0, 2.0))
    assert not family.exchangeable(prior + np.arange(3.0))


def test_weights_at_the_edge_of_the_domain_have_moved_by_nothing_that_is_known():
    family, prior = Weights(), Weights().natural(alpha=[1.0, 2.0])
    found = family.divergences(prior, [np.array([[-1.0], [3.0]]), np.array([[1.0], [3.0]])])
    assert found[0] == 0.0
    assert found[1] > 0.0


def test_squares_are_those_of_the_rows_in_units_of_the_noise():
    """n and Σ y² E[1/σ²] of a regression of y on one constant column, from its data."""
    rng = np.random.default_rng(0)
    model = db.LinearRegression.from_frame({"y": (y := rng.normal(3.0, 2.0, size=40))}, target="y")
    posterior = model.fit({"y": y}).posterior
    ((name, family),) = posterior.structure.families.items()
    count, squares = family.squares(posterior.contribution[name], posterior.natural[name])
    parameters = family.parameters(posterior.natural[name])
    np.testing.assert_allclose(count, 40.0)
    assert posterior.uncertainty.startswith("exact")
    column = model.columns["y"]
    np.testing.assert_allclose(
        squares, (((y - column.centre) / column.scale) ** 2).sum() * parameters["shape"] / parameters["rate"], rtol=1e-9
    )


def test_what_is_in_the_domain_can_be_inverted(rng):
    """Rounding gave singular matrices of large numbers positive eigenvalues; merging such a file was a traceback."""
    family, size = db.families.FullGaussian(), 5
    large = 10.0 ** rng.uniform(14, 18, size=(2000, 1, 1)) * np.ones((size, size))
    precision = large + rng.uniform(0.1, 5, size=(2000, 1, size)) * np.eye(size)
    natural = np.concatenate([np.ones((2000, size)), -0.5 * precision.reshape(2000, -1)], axis=1)
    inside = family.contains_rows(natural)
    assert 0 < np.sum(np.linalg.eigvalsh(precision)[:, 0] > 0) > inside.sum()
    assert np.isfinite(family.row_terms(natural[inside])).all()
