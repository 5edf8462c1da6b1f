"""How much data is behind a result: persons, documents and sequences, never weights."""

import re

import numpy as np
import pytest

import decbayes as db
from decbayes.models.core.registry import model_for
from decbayes.reporting.reports import page


def stretches(rng, count, length):
    paths = [np.cumsum(rng.random(length) < 0.2) % 2 for _ in range(count)]
    return [(8.0 * path + rng.normal(size=length))[:, None] for path in paths]


@pytest.fixture
def chains(rng):
    """Two sites of five and seven sequences of twenty steps."""
    model = db.HiddenMarkov(2, columns={"x": "real"})
    return db.align([model.fit(stretches(rng, count, 20), rng=rng).posterior for count in (5, 7)])


def test_the_steps_of_states_add_up_to_all_rows(chains):
    (coupled,) = chains.structure.symmetry
    assert db.merging.support(chains, coupled).sum(axis=1) == pytest.approx([100, 140])


def test_a_report_counts_sequences_and_its_shares_add_up(chains):
    text = page(chains, names=["a", "b"])
    assert "12 sequences at 2 sites" in text
    shares = [float(share) for share in re.findall(r"([\d.]+)%</span>", text.split('id="what-was-merged"')[1])]
    assert shares == pytest.approx([100 * 5 / 12, 100 * 7 / 12], abs=0.1)
    steps = [float(count.replace(",", "")) for count in re.findall(r"([\d,]+) steps \(", text)]
    assert sum(steps) == pytest.approx(240, abs=1)


def test_a_state_has_one_share_of_the_steps_and_another_name_for_that_of_the_long_run(chains):
    model = model_for(chains.structure)
    (row, _) = model.describe(chains.merged())
    assert "share" not in row
    assert row["share in the long run"] == pytest.approx(model.occupancy(chains.merged())[0])


def test_rows_of_a_regression_that_weigh_are_not_counted_by_their_weights(rng):
    """1,495 patients with 40 events each were called 60,326 observations."""
    model = db.PoissonRegression("y", columns={"x": "real", "y": "count"})
    sites = [np.column_stack([x, rng.poisson(40.0 * np.exp(0.1 * x))]) for x in rng.normal(size=(2, 30))]
    found = db.align([model.fit(rows).posterior for rows in sites])
    text = page(found, names=["a", "b"])
    assert "rests on the data of 2 sites" in text
    assert "observations at" not in text
    assert "60 observations at 2 sites" in page(found, names=["a", "b"], rows=[30, 30])


def test_rows_of_a_linear_regression_are_counted(rng):
    model = db.LinearRegression("y", columns={"x": "real", "y": "real"})
    found = db.align([model.fit(rng.normal(size=(rows, 2))).posterior for rows in (30, 50)])
    assert "80 observations at 2 sites" in page(found, names=["a", "b"])
