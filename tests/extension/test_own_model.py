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
from decbayes.models.core.registry import MODELS
from decbayes.network import Charter, Identity
from decbayes.network.simulation.simulator import Simulation
from decbayes.network.simulation.topology import ring

HERE = Path(__file__).parent
RATES = np.array([[0.01, 9.0], [1.0, 0.02], [100.0, 200.0]])


@pytest.fixture
def mixture(monkeypatch):
    monkeypatch.syspath_prepend(HERE)
    from waiting_times import WaitingTimes

    monkeypatch.setattr(MODELS, "registered", {})
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


def test_a_report_shows_what_it_can_where_nobody_registered_the_model(mixture, rng, tmp_path, monkeypatch):
    fits = [mixture(components=2, dimension=1).fit(times(rng, 60)[:, :1], rng=rng) for _ in range(2)]
    monkeypatch.setattr(MODELS, "registered", {})
    alignment = db.align([fit.posterior for fit in fits])
    db.report(alignment, tmp_path / "report.html")
    report = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "2 components were found" in report
    assert f"{alignment.merged().mean('components').max():.3g}" in report
    assert "WaitingTimes (unknown here" in alignment.merged()._repr_html_()


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


@pytest.fixture
def others(monkeypatch):
    """The modules with a likelihood and a model of a user's own, freshly imported so that they register."""
    monkeypatch.syspath_prepend(HERE)
    monkeypatch.setattr(MODELS, "registered", {})
    for name in ("overdispersed", "single_rate"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    import overdispersed
    import single_rate

    return overdispersed, single_rate


def test_sites_with_other_settings_of_the_likelihood_do_not_merge(others, rng):
    """Settings that no prior holds: without them in the structure such sites would merge in silence."""
    counts = rng.poisson(3.0, size=(30, 2)).astype(float)
    two, five = (others[0].OverdispersedCounts(2, 2, r=r) for r in (2.0, 5.0))
    assert two.structure != five.structure
    with pytest.raises(db.errors.StructureMismatch):
        db.merge([two.fit(counts, rng=rng).posterior, five.fit(counts, rng=rng).posterior])
    assert db.model_for(five.structure).r == 5.0
    again = others[0].OverdispersedCounts(2, 2, r=5, sweeps=9)
    assert again.structure == five.structure, "5 is 5.0, and a local field is no part of the structure"
    assert db.model_for(five.structure.with_components(4)).components == 4


def test_a_likelihoods_own_field_is_part_of_the_structure_too(others):
    class Fixed(others[0].OverdispersedCounts):
        r_in_the_code = 2.0

        @property
        def likelihood(self):
            return others[0].NegativeBinomial(self.r_in_the_code)

    class Otherwise(Fixed):
        r_in_the_code = 3.0

    Otherwise.__name__ = Fixed.__name__
    assert Fixed(2, 1).structure != Otherwise(2, 1).structure
    db.register(Otherwise)
    with pytest.raises(db.errors.StructureMismatch):
        db.model_for(Fixed(2, 1).structure)


def test_what_the_structure_cannot_hold_is_refused_with_the_remedy(others):
    class Loose:
        family = db.families.Beta()

        def __init__(self, r):
            self.r = r

    class Careless(others[0].OverdispersedCounts):
        @property
        def likelihood(self):
            return Loose(self.r)

    with pytest.raises(db.errors.InvalidStructure, match="frozen dataclass"):
        _ = Careless(2, 1).structure
    with pytest.raises(db.errors.InvalidStructure, match="LOCAL"):
        _ = others[0].OverdispersedCounts(2, 1, r=object()).structure


def test_a_model_that_is_no_mixture_needs_no_more(others, rng, tmp_path):
    model = others[1].SingleRate(0.5, prior_shape=2.0)
    shards = [0.5 + rng.exponential(0.25, size=(100, 1)) for _ in range(3)]
    merged = db.merge(model.fit(shard).posterior for shard in shards)
    batch = model.fit(np.concatenate(shards))
    np.testing.assert_allclose(merged.natural["rate"], batch.posterior.natural["rate"])
    # The evidence of all data is that of the first part times the predictive density of each later one.
    earlier = [model.fit(np.concatenate(shards[:n])).posterior for n in (1, 2)]
    parts = [model.fit(shard, prior=prior) for shard, prior in zip(shards[1:], earlier, strict=True)]
    assert batch.bound[0] == pytest.approx(model.fit(shards[0]).bound[0] + sum(part.bound[0] for part in parts))
    db.save(merged, tmp_path / "m.posterior")
    assert db.model_for(db.load(tmp_path / "m.posterior").structure) == model
    assert model.structure != others[1].SingleRate(0.6, prior_shape=2.0).structure


ONE_BY_ONE = """
import sys
from decbayes.cli import main
for line in sys.argv[1:]:
    try:
        main(line.split())
    except SystemExit as ended:
        if isinstance(ended.code, str):
            print(ended.code, file=sys.stderr)
        print("ended", line.split()[0], 1 if isinstance(ended.code, str) else ended.code, flush=True)
"""


def run_outside(folder, *lines, extensions=""):
    """Command lines in a process of its own, which finds models as it finds those of any installed package."""
    paths = [str(Path(db.__file__).parents[1]), str(folder), str(HERE)]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths), "DECBAYES_EXTENSIONS": extensions}
    command = [sys.executable, "-c", ONE_BY_ONE, *lines]
    ended = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=folder, check=False)
    return [int(line.split()[-1]) for line in ended.stdout.splitlines() if line.startswith("ended ")], ended


def test_an_entry_point_brings_it_to_the_command_line(rng, tmp_path):
    information = tmp_path / "clocks-1.0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: clocks\nVersion: 1.0\n")
    entry = "WaitingTimes = waiting_times:WaitingTimes"
    (information / "entry_points.txt").write_text(f"[decbayes.models]\n{entry}\n")
    for name in "ab":
        rows = "\n".join(f"{x:.6g},{y:.6g}" for x, y in times(rng, 60))
        (tmp_path / f"{name}.csv").write_text(f"visits,calls\n{rows}\n")
    statuses, ended = run_outside(
        tmp_path,
        "fit times a.csv --components 3 --prior-rate 0.2 -o a.posterior",
        "fit times b.csv --like a.posterior -o b.posterior",
        "merge a.posterior b.posterior -o m.posterior --explain --no-confidence",
        "score b.csv a.posterior m.posterior",
        "show m.posterior",
        "fit times b.csv --prior-rate 0.5 --like a.posterior -o c.posterior",
        "fit times b.csv -o c.posterior",
        "show m.posterior --json",
        "simulate times --components 2 --dimension 1 --agents 3 --steps 15 --pause 0 --json",
    )
    assert statuses == [0, 0, 0, 0, 0, 2, 2, 0, 0], ended.stderr
    assert all(option in ended.stderr for option in ("--prior-rate", "--components"))
    (first, *_, last) = (line for line in ended.stdout.splitlines() if line.startswith("{"))
    assert json.loads(first)["factor"] == "components"
    assert json.loads(last)["model"] == "WaitingTimes"


def test_a_registration_alone_reaches_the_command_line(tmp_path):
    (tmp_path / "a.csv").write_text("visits,calls\n" + "\n".join(f"{n % 3},{n % 5}" for n in range(40)))
    line = "fit overdispersed a.csv --components 2 --r 5 -o a.posterior"
    statuses, ended = run_outside(tmp_path, line, extensions="overdispersed, single_rate")
    assert statuses == [0], ended.stderr
    assert db.load(tmp_path / "a.posterior").structure.model["r"] == 5
    assert run_outside(tmp_path, line)[0] == [2]
    statuses, lost = run_outside(tmp_path, line, extensions="nowhere")
    assert (statuses, "PYTHONPATH" in lost.stderr, "Traceback" in lost.stderr) == ([1], True, False)


@pytest.mark.parametrize(
    ("method", "returned"),
    [
        ("features", lambda points: points),
        ("features", lambda points: points.tolist()),
        ("coefficients", lambda natural: np.ones((len(natural), natural.shape[1] + 1))),
        ("contribution", lambda sums: sums[:, :1]),
        ("log_predictive", lambda natural, points: np.zeros((len(points), 1))),
    ],
)
def test_a_likelihood_that_returns_another_shape_is_refused_with_the_right_one(mixture, rng, method, returned):
    """NumPy stretches a column over all parameters, and the fit would be wrong without a word."""
    likelihood = mixture(components=2, dimension=2).likelihood
    clumsy = type("Clumsy", (type(likelihood),), {method: lambda self, *given: returned(*given)})()
    model = type("ClumsyTimes", (mixture,), {"likelihood": property(lambda self: clumsy)})
    with pytest.raises(db.errors.InvalidStructure, match=rf"Clumsy\.{method} (must|returns)"):
        model(components=2, dimension=2).fit(times(rng, 60), rng=rng)


def test_a_model_without_all_it_needs_is_refused_when_it_is_registered():
    half = type("Half", (db.extending.Model,), {"fit": lambda self, data: None})
    with pytest.raises(TypeError, match="Half needs assign, described, log_predictive as well"):
        db.register(half)
