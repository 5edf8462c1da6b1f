"""A group of agents whose sites differ: each keeps its own part, and all end where one fit of all rows would."""

import numpy as np
import pandas as pd
import pytest
from parties import identities

import decbayes as db
from decbayes.calibration.intervals import by_response
from decbayes.cli import main
from decbayes.disclosure import Rules as DisclosureRules
from decbayes.network import Charter, Rules
from decbayes.network.protocol.limits import Limits
from decbayes.network.protocol.records.notes import information_on
from decbayes.network.simulation.simulator import CALM, Simulation
from decbayes.network.simulation.topology import clique

MEMBERS = identities(4)
REAL = db.columns.plain({"x": db.columns.Gaussian(), "y": db.columns.Gaussian()})
COLUMNS = db.columns.plain({"x": db.columns.Gaussian(), "y": db.columns.Poisson()})


def test_agents_refine_coefficients_that_differ_from_site_to_site(rng):
    charter = Charter(
        group="clinics",
        model_name="PoissonRegression",
        settings={"target": "y", "columns": COLUMNS, "varying": ["intercept"]},
        members={f"site {index}": member.public for index, member in enumerate(MEMBERS)},
        limits=Limits(members=8, refinements=20),
        rules=Rules(intervals=True),
    )
    simulation = Simulation(charter, MEMBERS, rng=rng, weather=CALM)
    simulation.links = clique(len(MEMBERS), rng)
    frames = []
    for number, site in enumerate(simulation.sites):
        x = rng.normal(size=50)
        y = rng.poisson(np.exp(0.5 + (-1) ** number + 0.4 * x))
        frames.append(pd.DataFrame({"x": x, "y": y, "clinic": str(number)}))
        site.shards["own"] = np.column_stack([x, y])
        simulation.start(site)
    simulation.round()
    for _ in range(4):
        for site in simulation.sites:
            simulation.perform(site, site.agent.refine(rng=rng))
            simulation.round()
    merged = simulation.sites[0].agent.posterior()
    whole = db.PoissonRegression("y", columns=charter.model.columns, varying=("intercept",), by="clinic")
    exact = whole.fit(pd.concat(frames), rng=rng).posterior
    pairs = zip(charter.model.describe(merged), whole.describe(exact), strict=True)
    for own, other in pairs:
        assert abs(own["mean"] - other["mean"]) < 0.05 * other["deviation"]
    for site in simulation.sites:
        simulation.perform(site, site.agent.attach(site.agent.look()))
    simulation.round()
    belief = simulation.sites[0].agent.pool.believed()
    expected = db.calibrate(charter.model, [site.shards["own"] for site in simulation.sites], merged)
    assert (belief.why, belief.posterior.uncertainty) == ("", expected.uncertainty)
    assert "half-Cauchy between sites" in expected.uncertainty
    ((own,), (other,)) = map(charter.model.between, (belief.posterior, expected))
    assert [own["low"], own["high"]] == pytest.approx([other["low"], other["high"]])


def test_agents_explain_membership_in_classes_by_a_charter_that_carries_them(rng, tmp_path):
    frames = []
    for _ in MEMBERS[:3]:
        x = rng.normal(size=80)
        ill = rng.random(80) < 1 / (1 + np.exp(-1.2 * x))
        frames.append(pd.DataFrame({"x": x} | {name: rng.random(80) < np.where(ill, 0.85, 0.15) for name in "abcd"}))
    whole = pd.concat(frames)
    classes = db.LatentClasses.from_frame(whole, names="abcd", components=2).fit(whole, rng=0).posterior
    db.save(classes, tmp_path / "classes.posterior")
    members = [f"--member=site{index}={member.public.hex()}" for index, member in enumerate(MEMBERS[:3])]
    words = ["charter", "new", str(tmp_path / "group.toml"), "--group", "g", "--model", "ClassMembership", *members]
    words += ["--set", f"classes={tmp_path / 'classes.posterior'}", "--set", 'columns=[["x", "real", 0.0, 1.0]]']
    with pytest.raises(SystemExit, match="0"):
        main([*words, "--rules", "none"])
    charter = Charter.load(tmp_path / "group.toml")
    simulation = Simulation(charter, MEMBERS[:3], rng=rng, weather=CALM)
    simulation.links = clique(3, rng)
    for frame, site in zip(frames, simulation.sites, strict=True):
        frame.to_csv(tmp_path / "rows.csv", index=False)
        site.shards["own"] = charter.model.read(tmp_path / "rows.csv")
        simulation.start(site)
    simulation.round()
    for site in [*simulation.sites] * 3:
        simulation.perform(site, site.agent.refine(rng=rng))
        simulation.round()
    merged, exact = simulation.sites[0].agent.posterior(), charter.model.fit(whole).posterior
    assert merged.mean("coefficients") == pytest.approx(exact.mean("coefficients"), abs=1e-4)
    assert charter.model.coefficients(merged)[1]["high"] < -0.5 or charter.model.coefficients(merged)[1]["low"] > 0.5


def test_notes_under_disclosure_rules_calibrate_what_varies_as_without(rng):
    """Rounded to six digits, sums for many deviations would give other intervals, or none."""
    charter = Charter(
        group="clinics",
        model_name="LinearRegression",
        settings={"target": "y", "columns": REAL, "varying": ["intercept"]},
        members={f"site {index}": member.public for index, member in enumerate(MEMBERS)},
        limits=Limits(members=8),
        rules=Rules(intervals=True),
    )
    x, level = rng.normal(size=(6, 300)), rng.normal(0.0, 1.0, (6, 1))
    shards = [np.column_stack(rows) for rows in zip(x, level + 0.4 * x + rng.normal(size=x.shape), strict=True)]
    model = charter.model
    merged = db.refine(model, shards, [model.fit(shard).posterior for shard in shards], rounds=3, rng=rng).merged
    notes = [information_on(charter, merged, shard, DisclosureRules()) for shard in shards]
    ((ours,), (plain,)) = map(model.between, (by_response(merged, notes), db.calibrate(model, shards, merged)))
    assert [ours["low"], ours["high"]] == pytest.approx([plain["low"], plain["high"]], rel=1e-6)
