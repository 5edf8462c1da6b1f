"""Rounds in a shared folder: one command per site and round, whoever comes late or leaves."""

import json

import numpy as np
import pytest

import decbayes as db
from decbayes.errors import NothingToMerge, StructureMismatch
from decbayes.updates.exchange import Exchange
from decbayes.updates.rounds import Round, Sent

CENTRES = np.array([-20.0, 0.0, 20.0])


def write_sites(folder, *names, rows=60):
    rng = np.random.default_rng(3)
    shards = {}
    for place, name in enumerate(names):
        count = rows + place
        shards[name] = (rng.choice(CENTRES, count) + rng.normal(size=count)).round(3)
        (folder / f"{name}.csv").write_text("x\n" + "\n".join(map(str, shards[name])), encoding="utf-8")
    return {name: shard[:, None] for name, shard in shards.items()}


@pytest.fixture
def folder(run, tmp_path):
    """Three sites of a mixture that have sent their first posteriors, and a fourth that has not."""
    write_sites(tmp_path, "a", "b", "c", "late")
    (tmp_path / "shared").mkdir()
    first = "fit mixture a.csv --components 3 --variance 1 --prior-variance 900 --rules none -o shared/a.posterior"
    assert run(first)[0] == 0
    for name in "bc":
        line = f"fit mixture {name}.csv --like shared/a.posterior --rules none -o shared/{name}.posterior"
        assert run(line)[0] == 0
    return tmp_path / "shared"


def go(run, name, *, also=""):
    status, out, errors = run(f"refine {name}.csv --folder shared --json {also}")
    assert status == 0, errors
    return json.loads(out), errors


def test_one_command_per_site_and_round_has_the_bits_of_refine(run, folder):
    sites = {name: db.load(folder / f"{name}.posterior") for name in "abc"}
    shards = write_sites(folder.parent, "a", "b", "c")
    model = db.model_for(sites["a"].structure)
    expected = db.refine(model, [*shards.values()], [*sites.values()], rounds=2, rng=0, schedule="parallel")
    for number in (1, 2):
        for name in "cab":
            values, _ = go(run, name)
            assert (values["round"], values["file"]) == (number, f"shared/{name}.{number}.posterior")
    assert run("merge shared -o m.posterior")[0] == 0
    assert db.load(folder.parent / "m.posterior") == expected.merged


def test_a_site_whose_turn_it_is_not_waits(run, folder):
    assert go(run, "a")[0]["round"] == 1
    before = sorted(folder.iterdir())
    values, errors = go(run, "a")
    assert (values["waiting"], values["file"]) == (["b", "c"], None)
    assert "Waiting for b, c" in errors
    assert sorted(folder.iterdir()) == before
    # A merge has what is complete.
    assert "Round 1 of b, c is missing" in run("merge shared -o m.posterior")[2]
    assert db.load(folder.parent / "m.posterior") == db.merge([db.load(folder / f"{s}.posterior") for s in "abc"])


def test_a_late_site_joins_and_a_site_that_leaves_restarts_nothing(run, folder):
    for _ in range(2):
        for name in "abc":
            go(run, name)
    joined = run("refine late.csv --folder shared --site late --json")
    assert (joined[0], json.loads(joined[1])["round"]) == (0, 0)
    assert "late joins 3 sites" in joined[2]
    for name in ("a", "late", "b", "c"):
        values, _ = go(run, name)
        assert (values["round"], values["sites"]) == (3, 4)
    for path in folder.glob("b.*"):
        path.unlink()
    for name in ("a", "c", "late"):
        values, errors = go(run, name)
        assert (values["round"], values["sites"]) == (4, 3)
        assert "1 site of the last round left" in errors
    assert run("merge shared/a.4.posterior shared/c.4.posterior shared/late.4.posterior -o m.posterior")[0] == 0
    merged = db.load(folder.parent / "m.posterior")
    np.testing.assert_allclose(np.sort(merged.mean("components")[:, 0]), CENTRES, atol=0.5)
    assert merged.contribution["weights"].sum() == pytest.approx(60 + 62 + 63)
    # All that the late site and those that stayed know is what one fit of their data knows.
    shards = write_sites(folder.parent, "a", "b", "c", "late")
    model = db.model_for(merged.structure)
    whole = model.fit(np.concatenate([shards[name] for name in ("a", "c", "late")]), rng=0).posterior
    np.testing.assert_allclose(
        np.sort(merged.mean("components"), axis=0), np.sort(whole.mean("components"), axis=0), atol=1e-3
    )


def test_sites_that_fitted_too_few_components_find_the_number_together(run, folder):
    """All sites first fit many components; after three rounds what the data do not need is joined, at all sites."""
    (folder / "a.posterior").unlink()
    for name in "abc":
        like = "--variance 1 --prior-variance 900" if name == "a" else "--like shared/a.posterior"
        assert run(f"fit mixture {name}.csv --components 2 {like} --rules none -o shared/{name}.posterior")[0] == 0
    values, errors = go(run, "a", also="--components auto")
    assert (values["round"], values["file"]) == (0, "shared/a.0.posterior")
    assert "18 components, more than needed" in errors  # ten of the 183 rows for each
    assert (go(run, "a")[0]["waiting"], run("refine b.csv --folder shared --components 3")[0]) == (["b", "c"], 2)
    for name in "bc":
        assert go(run, name)[0]["file"] == f"shared/{name}.0.posterior"
    for number in (1, 2, 3):
        for name in "cab":
            assert go(run, name)[0]["round"] == number
            assert (
                Exchange.read(folder)
                .files[f"{name}.{number}.posterior"]
                .posterior.structure.components(db.load(folder / "a.posterior").structure.symmetry[0])
                == 18
            )
    status, _, errors = run("merge shared -o m.posterior")
    assert status == 0
    assert "18 were joined into 3" in errors
    merged = db.load(folder.parent / "m.posterior")
    np.testing.assert_allclose(np.sort(merged.mean("components").ravel()), CENTRES, atol=0.5)
    assert merged.contribution["weights"].sum() == pytest.approx(183)
    for name in "abc":
        go(run, name)
    assert run("merge shared -o m.posterior")[0] == 0
    assert len(db.load(folder.parent / "m.posterior").natural["weights"]) == 3


def test_a_round_can_follow_an_earlier_merge(run, folder):
    assert run("merge shared -o m.posterior")[0] == 0
    for name in "abc":
        go(run, name)
    line = "merge shared/a.1.posterior shared/b.1.posterior shared/c.1.posterior --since m.posterior --explain -o n"
    status, out, errors = run(line)
    assert (status, "3 components kept their ids" in errors) == (0, True), errors
    assert "which sites have it" in out
    earlier, later = db.load(folder.parent / "m.posterior"), db.load(folder.parent / "n")
    np.testing.assert_allclose(earlier.mean("components"), later.mean("components"), atol=0.5)


def test_who_these_data_are_from_is_found_or_asked(run, folder):
    (folder.parent / "mine.csv").write_bytes((folder.parent / "b.csv").read_bytes())
    status, out, _ = run("refine mine.csv --folder shared --json")
    assert (status, json.loads(out)["file"]) == (0, "shared/b.1.posterior")
    refused = {
        "refine late.csv --folder shared": "Which site is this? Give --site NAME: a, b, c",
        "refine b.csv --folder shared --site a": "not the posterior of these data",
        "refine a.csv --folder elsewhere": "is not a folder",
        "refine a.csv --folder shared --own shared/a.posterior": "leave out --own",
        "refine a.csv --own shared/a.posterior": "--folder; or --own, --others and --output",
        "refine a.csv --folder shared --components 2": "begun with 3 components",
    }
    for line, reason in refused.items():
        status, _, errors = run(line)
        assert (status in (1, 2), reason in errors) == (True, True), (line, errors)
    (folder.parent / "empty").mkdir()
    assert "The first site makes one" in run("refine a.csv --folder empty")[2]
    (folder / "x.posterior").write_bytes(b"half a file")
    assert "x.posterior" in run("refine a.csv --folder shared")[2]


def sent_by(model, rng, *names):
    shards = {name: rng.normal(size=(6, 1)) for name in names}
    return shards, {f"{name}.posterior": Sent(model.fit(shards[name], rng=rng).posterior) for name in names}


def test_models_without_components_go_through_rounds_too(rng):
    model = db.models.GaussianMean(variance=1.0)
    shards, files = sent_by(model, rng, "a", "b", "c")
    for name in "ab":
        turn = Exchange({k: v for k, v in files.items() if k[0] != "c"}).turn(name)
        files[turn.file] = Round.of(turn.inputs, in_step=False).refined(shards[name], rng=rng)
    turn = Exchange(files).turn("c")
    assert (turn.round, turn.due, len(turn.inputs)) == (1, True, 3)
    merged = Round.of(Exchange(files).turn("a").inputs, in_step=False).merged
    np.testing.assert_allclose(
        merged.mean("mean"), model.fit(np.concatenate([*shards.values()])).posterior.mean("mean"), rtol=1e-12
    )


def test_what_is_missing_or_there_twice_is_named(rng):
    model = db.GaussianMixture(2, 1, variance=1.0, prior_variance=9.0)
    shards, files = sent_by(model, rng, "a", "b")
    with pytest.raises(NothingToMerge, match="x has sent nothing yet; the sites here are a, b"):
        Exchange(files).turn("x")
    assert Exchange({"a.posterior": files["a.posterior"]}).turn("a").waiting == ("another site",)
    for number in (1, 2):
        for name in "ab":
            if (number, name) != (2, "b"):
                turn = Exchange(files).turn(name)
                files[turn.file] = Round.of(turn.inputs).refined(shards[name], rng=rng)
    assert Exchange(files).behind == ("b",)
    without = {name: sent for name, sent in files.items() if name != "a.1.posterior"}
    with pytest.raises(StructureMismatch, match=r"a\.1\.posterior is missing, which round 2 needs"):
        Exchange(without).turn("b")
    with pytest.raises(StructureMismatch, match="both round 0 of one site"):
        Exchange({**files, "copy.posterior": files["a.posterior"]}).turn("b")
