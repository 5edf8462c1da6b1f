"""A model from outside the package, in one file and with one registration, works everywhere the shipped ones do."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import expon, lomax

import decbayes as db
from decbayes.models.core import registry
from decbayes.network import Charter, Identity
from decbayes.network.simulation.simulator import Simulation
from decbayes.network.simulation.topology import ring

HERE = Path(__file__).parent
RATES = np.array([[0.01, 9.0], [1.0, 0.02], [100.0, 200.0]])


@pytest.fixture
def mixture(monkeypatch):
    monkeypatch.syspath_prepend(HERE)
    from waiting_times import WaitingTimes

    monkeypatch.setattr(registry, "_registered", {})
    return db.register(WaitingTimes)


def times(rng, size):
    return rng.exponential(1.0 / RATES[rng.integers(3, size=size)])


def test_it_fits_merges_and_predicts(mixture, rng):
    model = mixture(components=3, dimension=2)
    shards = [times(rng, 200) for _ in range(4)]
    fits = [model.fit(shard, rng=rng) for shard in shards]
    for fit in fits:
        assert (np.diff(fit.bound) > -1e-7).all()
    merged = db.merge(fit.posterior for fit in fits)
    order = np.argsort(merged.mean("components")[:, 0])
    np.testing.assert_allclose(merged.mean("components")[order], RATES, rtol=0.25)
    new = times(rng, 500)
    batch = model.fit(np.concatenate(shards), rng=rng).posterior
    assert abs(model.score(merged, new) - model.score(batch, new)) < 0.01
    shares = model.assign(merged, new)
    np.testing.assert_allclose(shares.sum(axis=1), 1.0)
    nearest = expon.logpdf(new[:, None], scale=1 / RATES).sum(axis=2).argmax(axis=1)
    assert (shares[:, order].argmax(axis=1) == nearest).mean() > 0.95


def test_its_density_is_that_of_scipy(mixture, rng):
    model = mixture(components=2, dimension=1)
    posterior = model.fit(rng.exponential(5.0, size=(30, 1)), rng=rng).posterior
    shape, rate = (np.ravel(part) for part in posterior.parameters("components").values())
    points = np.arange(12.0)
    parts = [lomax.pdf(points, s, scale=r) for s, r in zip(shape, rate, strict=True)]
    np.testing.assert_allclose(np.exp(model.log_predictive(posterior, points)), posterior.mean("weights") @ parts)


def test_a_file_is_enough_to_have_the_model_back(mixture, rng, tmp_path):
    model = mixture(components=2, dimension=2, prior_shape=3.0, columns=("visits", "calls"))
    posterior = model.fit(times(rng, 50), rng=rng).posterior
    db.save(posterior, tmp_path / "a.posterior")
    read = db.load(tmp_path / "a.posterior")
    assert db.model_for(read.structure).structure == model.structure
    assert db.model_for(read.structure).columns == ("visits", "calls")


def test_agents_fit_merge_and_refine_it(mixture, rng):
    keys = [Identity.generate() for _ in range(3)]
    members = {f"site-{number}": key.public for number, key in enumerate(keys)}
    settings = {"components": 3, "dimension": 2, "prior_rate": 0.2}
    simulation = Simulation(Charter("clocks", "WaitingTimes", settings, members), keys, rng=rng)
    shards = [times(rng, 150) for _ in keys]
    for site, shard in zip(simulation.sites, shards, strict=True):
        site.shards["times"] = shard
        simulation.start(site)
    simulation.connect(ring(3, rng))
    for _ in range(10):
        simulation.round()
    for site in simulation.sites:
        simulation.perform(site, site.agent.refine(rng=rng))
    for _ in range(10):
        simulation.round()
    posteriors = {site.agent.posterior() for site in simulation.sites}
    assert len(posteriors) == 1
    model, new = mixture(**settings), times(rng, 500)
    batch = model.fit(np.concatenate(shards), rng=rng).posterior
    assert abs(model.score(posteriors.pop(), new) - model.score(batch, new)) < 0.01


def run_outside(folder, *words):
    """The command line in a process of its own, which finds the model as it finds that of any installed package."""
    paths = [str(Path(db.__file__).parents[1]), str(folder), str(HERE)]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths)}
    command = [sys.executable, "-m", "decbayes", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, env=environment, cwd=folder, check=False)


def test_an_entry_point_brings_it_to_the_command_line(rng, tmp_path):
    information = tmp_path / "clocks-1.0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: clocks\nVersion: 1.0\n")
    entry = "WaitingTimes = waiting_times:WaitingTimes"
    (information / "entry_points.txt").write_text(f"[decbayes.models]\n{entry}\n")
    for name in "ab":
        rows = "\n".join(f"{x:.6g},{y:.6g}" for x, y in times(rng, 150))
        (tmp_path / f"{name}.csv").write_text(f"visits,calls\n{rows}\n")
    lines = [
        "fit times a.csv --components 3 --prior-rate 0.2 -o a.posterior",
        "fit times b.csv --like a.posterior -o b.posterior",
        "merge a.posterior b.posterior -o m.posterior --explain",
        "score b.csv a.posterior m.posterior",
        "show m.posterior",
        "show m.posterior --json",
    ]
    for line in lines:
        ended = run_outside(tmp_path, *line.split())
        assert ended.returncode == 0, ended.stderr
    assert json.loads(ended.stdout.splitlines()[0])["factor"] == "components"
    line = "fit times b.csv --prior-rate 0.5 --like a.posterior -o c.posterior"
    refused = run_outside(tmp_path, *line.split())
    assert (refused.returncode, "--prior-rate" in refused.stderr) == (2, True)
    nameless = run_outside(tmp_path, *["fit", "times", "b.csv", "-o", "c.posterior"])
    assert (nameless.returncode, "--components" in nameless.stderr) == (2, True)
