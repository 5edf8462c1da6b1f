"""Private releases under secure sums, by files: the noise is shared, the ledger is written before a part opens."""

import json
import shutil

import numpy as np
import pytest

import decbayes as db
from decbayes.disclosure import Ledger

SITES = ("north", "south", "west")
PLAN = "plan mixture --sites 3 --observations 700 --components 2 --dimension 1 --prior-strength 0.05"


@pytest.fixture(scope="module")
def made(tmp_path_factory, run_in):
    """Tables, keys and a prior."""
    folder, rng = tmp_path_factory.mktemp("sites"), np.random.default_rng(1)
    for site in (*SITES, "east"):
        rows = rng.choice([-3.0, 4.0], 700) + rng.normal(size=700)
        np.savetxt(folder / f"{site}.csv", rows, header="x", comments="", fmt="%.3f")
        run_in(folder, f"keygen {site}.key")
    run_in(folder, f"{PLAN} --private --epsilon 3 --shared-noise -o prior.posterior")
    run_in(folder, "fit mixture north.csv --like prior.posterior -o north.posterior")
    return folder


@pytest.fixture
def sites(made, tmp_path, monkeypatch):
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    return tmp_path


def new(run, options="--private --epsilon 3", names=SITES, folder="sums", anchor="prior.posterior"):
    from decbayes.network import Identity

    members = " ".join(f"--member {site}={Identity.load(f'{site}.key').public.hex()}" for site in names)
    return run(f"secure new {folder} --anchor {anchor} {members} {options} --json")


def visit(run, site, folder="sums", options=""):
    agreed = db.secure.Folder(folder).agreement.fingerprint
    return run(f"secure round {folder} {site}.csv --key {site}.key --ledger {site}.ledger --agreed {agreed} {options}")


def spent(site):
    return [entry.private for entry in Ledger(f"{site}.ledger").entries()]


def test_the_sum_has_one_noise_and_each_site_has_spent_the_promise(run, sites):
    status, out, errors = new(run)
    assert status == 0, errors
    assert "3 sites share one noise, of whom 1 may collude" in json.loads(out)["privacy"]
    for _ in range(3):
        for site in SITES:
            opened = "opening" in (p.suffix[1:] for p in sites.glob(f"sums/round_1/{site}.*"))
            assert bool(spent(site)) == opened
            status, _, errors = visit(run, site)
            assert status == 0, errors
    status, out, errors = run("secure result sums -o merged.posterior --json")
    assert status == 0, errors
    assert json.loads(out)["rows"] is None, "nobody knows how many rows there are"
    merged = db.load("merged.posterior")
    assert {remark.kind for remark in merged.remarks} >= {"differential privacy", "only sums"}
    assert sorted(merged.mean("components").round().ravel()) == [-3.0, 4.0]
    assert "ε = 3, δ = 1e-06 per person" in " ".join(run("show merged.posterior")[1].split())
    for site in SITES:
        (line,) = spent(site)
        assert line.mu == pytest.approx(db.Privacy(3.0, 1e-6).mu, rel=1e-3)
    release = db.secure.Folder("sums").results()[0].release
    assert release.variance == pytest.approx(3 / 2 * (2**22 / db.Privacy(3.0, 1e-6).mu) ** 2, rel=0.01)
    # A second study of the same persons has nothing to spend, and others do not wait for its numbers.
    assert new(run, "--private --epsilon 3 --name again", folder="again")[0] == 0
    for site in SITES:
        visit(run, site, "again")
    status, _, errors = visit(run, "north", "again")
    assert (status, "has spent ε = 3 of 3" in errors, errors.strip().count("\n")) == (1, True, 0), errors
    assert not (sites / "again/round_1/north.masked").exists()
    assert visit(run, "north", "again", "--data-set others")[0] == 0, "other persons have a budget of their own"


def test_members_who_trust_nobody_add_all_of_the_noise(run, sites):
    assert new(run, "--private --epsilon 3 --noise each")[0] == 0
    for site in SITES * 3:
        assert visit(run, site)[0] == 0
    release = db.secure.Folder("sums").results()[0].release
    assert release.variance == pytest.approx(3 * (2**22 / db.Privacy(3.0, 1e-6).mu) ** 2, rel=0.01)


def test_a_missing_member_is_left_out_and_the_others_add_more_noise(run, sites):
    assert new(run, names=("east", *SITES))[0] == 0
    for site in SITES:
        assert visit(run, site)[0] == 0
    for site in SITES * 3:
        assert visit(run, site, options="--without east")[0] == 0
    release = db.secure.Folder("sums").results()[0].release
    assert release.privacy.sites == 3
    assert release.variance == pytest.approx(3 / 2 * (2**22 / db.Privacy(3.0, 1e-6).mu) ** 2, rel=0.01)
    assert len(spent("north")) == 1


@pytest.mark.parametrize(
    ("options", "changed", "why"),
    [
        ("--private --epsilon 3", {"names": SITES[:2]}, "at least two honest sites"),
        ("--private --epsilon 3 --colluders 2", {}, "at least two honest sites"),
        ("--private --epsilon 3 --noise each --colluders 2", {}, "At least 4 members"),
        ("--private --epsilon 3", {"anchor": "north.posterior"}, "The anchor contains data"),
        ("--private --epsilon 3 --rounds 2", {}, "divides its budget among 1 rounds"),
        ("--private --epsilon 3 --spare 1", {}, "do not go with --private"),
        ("--private", {}, "--private needs --epsilon"),
        ("--epsilon 3", {}, "go with --private"),
    ],
)
def test_agreements_that_could_not_be_kept_are_refused_in_a_line(run, sites, options, changed, why):
    status, _, errors = new(run, options, **changed)
    assert status != 0
    assert why in " ".join(errors.split())
    assert not (sites / "sums").exists()


def test_what_is_in_no_budget_is_refused_and_nothing_is_sent(run, sites):
    assert new(run)[0] == 0
    for options in ("--hold-back 0.1", "--rules usual"):
        status, _, errors = visit(run, "north", options=options)
        assert (status, "do not go with private sums" in errors) == (2, True), errors
    assert not [*sites.glob("sums/round_*")]
    status, _, errors = run("refine north.csv --folder sums --site north")
    assert (status, "give --secure --key KEY to take part" in " ".join(errors.split())) == (2, True)


def test_clusters_need_no_file_of_a_prior_and_their_number_may_be_found_later(run, sites):
    """Options and the names of columns say all of the model."""
    (sites / "all").mkdir()
    fit = "fit mixture {0}.csv --components 4 --prior-strength 0.05 --private --epsilon 3 --site {0}"
    for site in SITES[:2]:
        status, _, errors = run(f"{fit} --ledger {{0}}.ledger -o all/{{0}}.0.release".format(site))
        assert status == 0, errors
    assert run("merge all -o merged.posterior --components auto")[0] == 0
    found = db.load("merged.posterior")
    assert sorted(found.mean("components").round().ravel()) == [-3.0, 4.0]
    status, _, errors = run("merge all -o merged.posterior --components largest")
    assert (status, "no largest site" in errors) == (2, True)
