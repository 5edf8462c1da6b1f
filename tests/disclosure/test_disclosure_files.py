"""Files say how they were made; receivers refuse what breaks their rules; releases are signed and recorded."""

import json
from pathlib import Path

import numpy as np
import pytest

import decbayes as db
from decbayes.disclosure import Ledger, Rules
from decbayes.disclosure.manifest import manifest_in
from decbayes.errors import DamagedLedger, NotDisclosed
from decbayes.files import load, load_note, save

MODEL = db.GaussianMixture(2, 1, variance=1.0, prior_variance=100.0)


@pytest.fixture
def points(rng):
    return np.concatenate([rng.normal(size=(60, 1)), 9.0 + rng.normal(size=(40, 1))])


@pytest.fixture
def draft(points, tmp_path):
    np.save("a.npy", points)
    path = tmp_path / "a.posterior"
    db.save(MODEL.fit(points, rng=1).posterior, path, data=points, site="north")
    return path


def test_a_draft_says_how_it_was_made(draft):
    manifest = manifest_in(load_note(draft))
    assert (manifest.site, manifest.rows, manifest.released, manifest.rules) == ("north", 100, False, Rules())
    assert manifest.posterior == load(draft).digest
    assert manifest.software == f"decbayes {db.__version__}"


def test_a_file_without_rules_says_so(points):
    db.save(MODEL.fit(points[:5], rng=1).posterior, "a", data=points[:5], rules=None)
    assert load_note("a")["manifest"]["rules"] is None
    with pytest.raises(NotDisclosed, match="without disclosure rules"):
        db.load("a", rules=Rules())


def test_receivers_refuse_files_that_break_their_rules(draft, points):
    assert db.load(draft, rules=Rules()) == load(draft)
    with pytest.raises(NotDisclosed, match="looser rules than asked for: least_cell"):
        db.load(draft, rules=Rules(least_cell=10))
    with pytest.raises(NotDisclosed, match="is a draft"):
        db.load(draft, rules=Rules(approval=True))
    save(load(draft), "plain")
    with pytest.raises(NotDisclosed, match="does not say"):
        db.load("plain", rules=Rules())


def test_a_manifest_of_another_posterior_is_refused(draft, points):
    other = MODEL.fit(points[::2], rng=1).posterior
    save(other, "b", note=load_note(draft))
    with pytest.raises(NotDisclosed, match="about another posterior"):
        db.load("b", rules=Rules())


@pytest.mark.parametrize("damage", [{"rows": "many"}, {"rules": {"cells": 5}}, {"changed": 3}])
def test_a_damaged_manifest_is_refused(draft, damage):
    note = load_note(draft)
    save(load(draft), "b", note=note | {"manifest": note["manifest"] | damage})
    with pytest.raises(NotDisclosed, match="manifest cannot be read"):
        db.load("b", rules=Rules())


def test_a_release_is_recorded_and_signed(run, draft):
    assert run("keygen a.key")[0] == 0
    status, _, errors = run(
        ["release", "a.posterior", "--approve", "Dr Kim", "--reason", "study", "--key", "a.key", "--data", "a.npy"]
    )
    assert status == 0, errors
    assert db.load(draft, rules=Rules(approval=True)) == load(draft)
    (entry,) = Ledger("releases.ledger").entries()
    assert (entry.approver, entry.reason, entry.rows, len(entry.members)) == ("Dr Kim", "study", 100, 100)
    status, shown, _ = run("ledger --json")
    assert json.loads(shown)["approver"] == "Dr Kim"
    assert run("release a.posterior --approve Lee")[2].count("already") == 1


def test_a_changed_manifest_or_no_signature_is_noticed(run, draft):
    run("keygen a.key")
    run("release a.posterior --approve Kim --key a.key --data a.npy")
    note = load_note(draft)
    save(load(draft), "b", note=note | {"manifest": note["manifest"] | {"approver": "Lee"}})
    with pytest.raises(NotDisclosed, match="changed after it was signed"):
        db.load("b", rules=Rules(approval=True))
    save(load(draft), "c", note=note | {"manifest": note["manifest"] | {"signature": ""}})
    with pytest.raises(NotDisclosed, match="not signed"):
        db.load("c", rules=Rules(approval=True))


@pytest.mark.parametrize(("more", "refused"), [(1, True), (4, True), (5, False), (0, False)])
def test_two_releases_may_not_differ_by_a_few_records(run, draft, points, more, refused):
    assert run("release a.posterior --approve Kim --data a.npy")[0] == 0
    later = points[: len(points) - more]
    np.save("b.npy", later)
    db.save(MODEL.fit(later, rng=1).posterior, "b.posterior", data=later)
    status, _, errors = run("release b.posterior --approve Kim --data b.npy")
    assert (status == 1) == refused, errors
    assert (f"differs by {more} person" in errors) == refused
    assert len(Ledger("releases.ledger").entries()) == 2 - refused
    assert manifest_in(load_note("b.posterior")).released != refused


def test_nothing_is_released_on_a_damaged_ledger(run, draft, tmp_path):
    (tmp_path / "releases.ledger").write_bytes(b"{}\n")
    status, _, errors = run("release a.posterior --approve Kim --data a.npy")
    assert status == 1
    assert "cannot be read" in errors
    assert not manifest_in(load_note(draft)).released
    with pytest.raises(DamagedLedger):
        Ledger("releases.ledger").entries()


def test_merge_takes_drafts_with_a_remark_and_refuses_them_where_rules_ask_for_approval(run, draft, tmp_path):
    status, _, errors = run("merge a.posterior -o m.posterior")
    assert status == 0
    assert "Drafts, not released yet: 1 of 1 file." in errors
    assert run("merge a.posterior a.posterior -o two.posterior --duplicates allow")[0] == 0
    assert "drafts" not in run("report two.posterior -o two.html")[2], "a merge is none"
    (tmp_path / "rules.toml").write_text("approval = true\n")
    status, _, errors = run("merge a.posterior -o n.posterior --rules rules.toml")
    assert status == 1
    assert "is a draft" in errors
    assert not (tmp_path / "n.posterior").exists()


def test_a_merge_states_no_rule_that_one_of_its_files_does_not_obey(run, points):
    for name, part, least in (("a", points[::2], 4), ("b", points[1::2], 8)):
        rules = Rules(least_cell=least, least_documents=12 - least)
        db.save(MODEL.fit(part, rng=1).posterior, name, data=part, rules=rules)
    assert run("merge a b -o m")[0] == 0
    stated = manifest_in(load_note("m")).rules
    assert (stated.least_cell, stated.least_documents) == (4, 4)


def test_who_follows_a_file_with_rules_cannot_do_without(run, points, draft, tmp_path):
    np.save("b.npy", points[::2])
    status, _, errors = run("fit mixture b.npy --like a.posterior --rules none -o b")
    assert status == 1
    assert "may only be stricter" in errors
    assert not (tmp_path / "b").exists()


def test_a_merge_says_how_many_are_in_it(run, points):
    for name, part in (("a", points[::2]), ("b", points[1::2])):
        db.save(MODEL.fit(part, rng=1).posterior, name, data=part)
    assert run("merge a b -o m")[0] == 0
    manifest = manifest_in(load_note("m"))
    assert (manifest.rows, manifest.rules, manifest.posterior) == (100, Rules(), load("m").digest)


def test_a_site_may_only_be_stricter_than_the_file_it_follows(run, points, draft, tmp_path):
    (tmp_path / "rules.toml").write_text("least_cell = 2\nleast_outcome = 2\nleast_observations = 2\n")
    np.save("few.npy", points[:10])
    status, _, errors = run("fit mixture few.npy --like a.posterior --rules rules.toml -o b")
    assert status == 1
    assert "at least 20" in errors


def test_preview_shows_what_the_file_says_and_its_status(run, draft, points):
    status, shown, _ = run("preview a.posterior --data a.npy -o page.html")
    assert status == 0
    assert "smallest component" in shown
    assert "No rule is broken" in shown
    assert "for you only" in run("preview a.posterior --data a.npy -o page.html")[2]
    save(MODEL.fit(np.append(points, [[50.0]], axis=0), rng=3).posterior, "bad.posterior")
    np.save("bad.npy", np.append(points, [[50.0]], axis=0))
    three = db.GaussianMixture(3, 1, variance=1.0, prior_variance=100.0)
    save(three.fit(np.append(points, [[50.0]], axis=0), rng=3).posterior, "bad.posterior")
    status, shown, _ = run("preview bad.posterior --data bad.npy")
    assert status == 3
    assert "must not leave" in shown


def test_other_data_are_not_the_data_behind_a_file(run, draft, points, tmp_path):
    np.save("other.npy", points + 1.0)
    np.save("fewer.npy", points[1:])
    for name, why in (
        ("other", "do not match the sums in the file"),
        ("fewer", "99 rows, and the file was made from 100"),
    ):
        status, shown, _ = run(f"preview a.posterior --data {name}.npy")
        assert (status, why in shown) == (3, True)
        status, _, errors = run(f"release a.posterior --approve Kim --data {name}.npy")
        assert (status, why in errors) == (1, True)
    assert "--data" in run("release a.posterior --approve Kim")[2]
    assert not manifest_in(load_note(draft)).released
    for wrong in (["--approve", "Kim", "--key", "no.key"], ["--approve", " "]):
        assert run(["release", "a.posterior", "--data", "a.npy", *wrong])[0] == 1
    assert not list(tmp_path.glob("releases.*"))


def test_the_ledger_and_its_key_stay_with_the_data(run, draft, tmp_path):
    """With the key others could look records up among the digests, and a released file may lie where all can read."""
    (tmp_path / "shared").mkdir()
    Path("a.posterior").rename("shared/a.posterior")
    assert run("release shared/a.posterior --approve Kim --data a.npy")[0] == 0
    assert [path.name for path in Path("shared").iterdir()] == ["a.posterior"]
    assert len(Ledger("releases.ledger").entries()) == 1
    Path("shared/releases.ledger").touch()
    for command in ("preview shared/a.posterior --data a.npy", "release shared/a.posterior --approve Kim --data a.npy"):
        status, _, errors = run(command)
        assert (status, "beside the file, not beside the data" in errors) == (1, True)
    assert run("preview shared/a.posterior --data a.npy --ledger releases.ledger")[0] == 0


def test_a_preview_without_data_says_that_nothing_was_checked(run, draft, points):
    status, shown, _ = run("preview a.posterior")
    assert status == 0
    assert "The data were not checked" in shown
    assert "No rule is broken" not in shown
    assert "The data were not checked" not in run("preview a.posterior --data a.npy")[1]
    db.save(MODEL.fit(points, rng=1).posterior, "b.posterior", rules=None)
    status, _, errors = run("release b.posterior --approve Kim")
    assert (status, "Not checked: cells, persons" in " ".join(errors.split())) == (0, True)


def test_data_are_compared_with_those_of_a_release_by_their_keyed_digest(run, draft, points):
    """The same sums, and yet other records."""
    assert run("release a.posterior --approve Kim --data a.npy")[0] == 0
    status, shown, _ = run("preview a.posterior --data a.npy")
    assert (status, "are those of the release" in shown) == (0, True)
    other = points.copy()
    other[0], other[1] = points[:2].mean(axis=0) + 0.01, points[:2].mean(axis=0) - 0.01
    np.save("other.npy", other)
    status, shown, _ = run("preview a.posterior --data other.npy")
    assert (status, "are not those of the release" in shown) == (3, True)


def test_a_file_under_rules_is_judged_by_these_or_by_stricter_ones(run, draft, tmp_path):
    assert "which still apply" in run("preview a.posterior --data a.npy --rules none")[2]
    (tmp_path / "loose.toml").write_text("least_cell = 2\nleast_outcome = 2\n")
    (tmp_path / "strict.toml").write_text("least_observations = 200\n")
    assert run("preview a.posterior --data a.npy --rules loose.toml")[0] == 0
    assert run("preview a.posterior --data a.npy --rules strict.toml")[0] == 3
    assert "a file needs at least 200" in run("release a.posterior --approve Kim --data a.npy --rules strict.toml")[2]


@pytest.mark.parametrize(("changed", "refused"), [(3, True), (5, False)])
def test_a_changed_record_counts_once_and_equal_records_count_each(run, draft, points, changed, refused):
    assert run("release a.posterior --approve Kim --data a.npy")[0] == 0
    later = points.copy()
    later[:changed] += 0.5
    np.save("b.npy", later)
    db.save(MODEL.fit(later, rng=1).posterior, "b.posterior", data=later)
    status, _, errors = run("release b.posterior --approve Kim --data b.npy")
    assert (status == 1) == refused, errors


def test_one_more_record_like_another_is_noticed(run, points):
    answers = np.repeat(np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0]]), 30, axis=0)
    model = db.BernoulliMixture(1, 2)
    for name, data in (("a", answers), ("b", np.append(answers, answers[:1], axis=0))):
        np.save(f"{name}.npy", data)
        db.save(model.fit(data, rng=1).posterior, f"{name}.posterior", data=data)
    assert run("release a.posterior --approve Kim --data a.npy")[0] == 0
    assert "differs by 1 person" in run("release b.posterior --approve Kim --data b.npy")[2]


def test_a_preview_says_what_a_merge_will_show(run, draft, points, rng):
    far = np.append(points, rng.normal(80.0, 1.0, size=(40, 1)), axis=0)
    three = db.GaussianMixture(3, 1, variance=1.0, prior_variance=1000.0)
    one = db.GaussianMixture(3, 1, variance=1.0, prior_variance=1000.0)
    np.save("far.npy", far)
    db.save(three.fit(far, rng=2).posterior, "mine.posterior", data=far)
    db.save(one.fit(points, rng=1).posterior, "theirs.posterior", data=points)
    _, shown, _ = run("preview mine.posterior --data far.npy --others theirs.posterior --json")
    said = {json.loads(line)["topic"]: json.loads(line)["text"] for line in shown.splitlines()}
    assert "the sums of 2 files" in said["the merge shows"]
    assert "1 component of yours" in said["the merge shows"]
