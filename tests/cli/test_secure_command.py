"""Secure sums by files: one command per visit, and a line for everything that goes wrong."""

import json
import shutil

import numpy as np
import pytest

import decbayes as db
from decbayes.disclosure import Ledger
from decbayes.secure import Folder, Seat

SITES = ("north", "south", "west")
CENTRES = np.array([[-5.0, 0.0], [5.0, 0.0], [0.0, 8.0]])


def points(count, seed):
    rng = np.random.default_rng(seed)
    return CENTRES[rng.integers(3, size=count)] + rng.normal(size=(count, 2))


def write_table(path, rows):
    np.savetxt(path, rows, delimiter=",", header="x,y", comments="", fmt="%.4f")


@pytest.fixture(scope="module")
def made(tmp_path_factory, run_in):
    """Tables, keys and an anchor of public data."""
    folder = tmp_path_factory.mktemp("sites")
    for seed, site in enumerate((*SITES, "public")):
        write_table(folder / f"{site}.csv", points(60 + 10 * seed, seed))
        run_in(folder, *([f"keygen {site}.key"] if site in SITES else []))
    run_in(folder, "fit mixture public.csv --components 3 --restarts 0 -o public.posterior")
    return folder


@pytest.fixture
def begun(made, tmp_path, run):
    """Sites in a folder of their own, with an agreement; returns its fingerprint."""
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    return new(run)


def new(run, options="", sites=SITES, folder="sums"):
    from decbayes.network import Identity

    members = " ".join(f"--member {site}={Identity.load(f'{site}.key').public.hex()}" for site in sites)
    status, out, errors = run(f"secure new {folder} --anchor public.posterior {members} --rounds 2 {options} --json")
    assert status == 0, errors
    return json.loads(out)["fingerprint"]


def visit(run, site, agreed, options=""):
    # Two names for the same.
    command = (
        f"secure round sums {site}.csv" if site != "south" or options else f"refine {site}.csv --secure --folder sums"
    )
    return run(f"{command} --key {site}.key --agreed {agreed} --approve Kim --passes 50 {options}")


@pytest.mark.parametrize(
    "options", ["--secure", "--secure --folder sums", "--secure --folder sums --key a.key --site x", "--key a.key"]
)
def test_refine_says_what_secure_sums_need(run, options):
    status, _, errors = run(f"refine north.csv {options}")
    assert (status, "--secure" in errors) == (2, True)


def turns(run, agreed, times=1, sites=SITES, options=""):
    for _ in range(times):
        for site in sites:
            status, _, errors = visit(run, site, agreed, options)
            assert status == 0, errors


def test_a_few_visits_of_all_give_the_refined_posterior(run, begun, tmp_path):
    turns(run, begun, times=5)
    status, out, errors = run("secure result sums -o merged.posterior --json")
    assert (status, "round 2, 3 members, 210 rows" in errors, "Only the sum" in errors) == (0, True, True), errors
    found = json.loads(out)
    assert 0.0 <= found.pop("shift") < 0.1  # clusters far apart: nothing moves
    size = {"members": 3, "rows": 210, "persons": 210, "score": None}
    assert found == {"file": "merged.posterior", "round": 2, **size}
    model = db.GaussianMixture(3, 2, covariance="full")
    merged = db.load(tmp_path / "merged.posterior", rules=None)
    model, everything = db.model_for(merged.structure), np.concatenate([points(60 + 10 * s, s) for s in range(3)])
    batch = model.fit(everything, rng=0).posterior
    later = points(500, 77)
    assert model.score(merged, later) == pytest.approx(model.score(batch, later), abs=0.01)
    assert merged.contribution["weights"].sum() == pytest.approx(210, abs=1e-4)


def test_rows_that_are_held_back_are_scored_under_the_same_sums(run, begun, tmp_path):
    turns(run, begun, times=5, options="--hold-back 0.2")
    status, out, errors = run("secure result sums -o merged.posterior --json")
    assert (status, "42 held-back units have a log-likelihood of" in errors) == (0, True), errors
    first = db.secure.Folder("sums").results()[0].posterior
    model = db.model_for(first.structure)
    parts = [db.checking.hold_back(model, points(60 + 10 * seed, seed).round(4), share=0.2)[1] for seed in range(3)]
    assert json.loads(out)["score"] == pytest.approx(model.score(first, np.concatenate(parts)), abs=1e-4)


def test_every_release_is_in_the_ledger_before_it_leaves(run, begun, tmp_path):
    turns(run, begun, times=2)
    entries = Ledger(tmp_path / "releases.ledger").entries()
    assert {entry.file for entry in entries} >= {f"sums/round_1/{site}.masked" for site in SITES}
    assert {entry.reason for entry in entries} == {"masked, for a sum of 3 members"}
    assert {entry.approver for entry in entries} == {"Kim"}


def test_nothing_is_written_that_shows_a_members_numbers(run, begun, tmp_path):
    """Of what lies in the shared folder, nothing but openings and keys is shorter than masked numbers, and no masked
    numbers are close to any contribution."""
    turns(run, begun, times=2)
    packets = Folder("sums").opened().sums[0].of("masked")
    length = len(np.frombuffer(packets[0].body, dtype="<i8"))
    for message in packets:
        steps = np.abs(np.frombuffer(message.body, dtype="<i8").astype(float))
        assert np.median(steps) > 2**55
        assert len(steps) == length
    private = list(tmp_path.glob("*.key.sums/*"))
    assert private
    terms = Folder("sums").agreement.next_terms()
    seat = Seat.from_bytes(terms, (tmp_path / "north.key.sums" / f"{terms.digest.hex()[:32]}.seat").read_bytes())
    assert len(seat.added) == length
    kept = b"".join(file.read_bytes() for file in private)
    assert seat.added[:4].astype("<i8").tobytes() not in kept, "they follow from the key, and are not stored"
    assert all(file.stat().st_mode & 0o077 == 0 for file in private)


def test_nobody_takes_part_in_what_was_not_compared(run, begun):
    for said in ("", "--agreed 0123456789abcdef", f"--agreed {begun[:8]}"):
        status, _, errors = run(f"secure round sums north.csv --key north.key {said}")
        advised = "could have added keys or changed rules: compare it with the other members" in errors
        assert (status, advised) == (1, True)
    assert not list(Folder("sums").path.glob("round_*"))
    # Once compared, it need not be said again; a changed agreement must be.
    assert visit(run, "north", begun)[0] == 0
    assert run("secure round sums north.csv --key north.key")[0] == 0
    new(run, "--colluders 1 --name other", folder="others")
    status, _, errors = run("secure round others north.csv --key north.key")
    assert (status, "compare it" in errors) == (1, True)


def test_a_missing_member_is_left_out_by_all_before_the_first_sum(run, made, tmp_path, monkeypatch):
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    run("keygen east.key")
    write_table("east.csv", points(50, 9))
    agreed = new(run, sites=("east", *SITES))
    others = ("east", "north", "west")
    turns(run, agreed, sites=("east", *SITES))
    turns(run, agreed, sites=others)
    status, _, errors = visit(run, "east", agreed, "--without south")
    assert (status, "round 1: key sent" in errors) == (0, True), errors
    status, _, errors = visit(run, "north", agreed)
    assert (status, "east wants to continue without south: add --without south to agree" in errors) == (0, True), errors
    turns(run, agreed, times=3, sites=others, options="--without south")
    assert run("secure result sums -o m.posterior --round 1")[0] == 0
    status, _, errors = visit(run, "south", agreed)
    assert (status, "The others have opened a sum without south" in errors) == (1, True)
    status, _, errors = visit(run, "north", agreed, "--without west")
    assert (status, "A sum needs at least 3 members" in errors) == (1, True), errors


def test_too_few_members_cannot_go_on(run, begun):
    turns(run, begun)
    status, _, errors = visit(run, "north", begun, "--without west")
    assert (status, "A sum needs at least 3 members, not 2" in errors) == (1, True)


def test_damaged_and_foreign_files_are_named_and_left_alone(run, begun, tmp_path):
    turns(run, begun, sites=("north", "south"))
    place = tmp_path / "sums" / "round_1"
    (place / "west.key").write_bytes(b"junk")
    (place / "notes.txt").write_text("hello")
    shutil.copy(place / "north.key", place / "west.masked")
    status, _, errors = visit(run, "south", begun)
    assert status == 0
    assert "west.key: it is damaged, or not a message of a secure sum" in errors
    assert "notes.txt: not a file of this sum; it is left alone" in errors
    assert "west.masked: it is a message of 'north', under another name" in errors
    assert "waiting for the key of west" in errors
    status, _, errors = visit(run, "west", begun)
    assert (status, "west.key is not what this site has written" in errors) == (1, True)
    assert (place / "west.key").read_bytes() == b"junk"
    (place / "west.key").unlink()
    (place / "west.masked").unlink()
    assert visit(run, "west", begun)[0] == 0


def test_disclosure_rules_hold_at_each_site(run, begun, tmp_path, monkeypatch):
    monkeypatch.delenv("DECBAYES_RULES")
    agreed = new(run, folder="ruled")
    write_table("west.csv", points(12, 3))
    for site in SITES:
        line = f"secure round ruled {site}.csv --key {site}.key --agreed {agreed}"
        status, _, errors = run(f"{line} --approve Kim" if site != "north" else line)
    assert (status, "12" in errors, "20" in errors) == (1, True, True), errors
    status, _, errors = run(f"secure round ruled north.csv --key north.key --agreed {agreed}")
    assert (status, "say who approves that, --approve NAME" in errors) == (1, True), errors
    status, _, errors = run(f"secure round ruled north.csv --key north.key --agreed {agreed} --rules none")
    assert (status, "a site may only be stricter" in errors) == (1, True)
    assert not list((tmp_path / "ruled" / "round_1").glob("*.masked"))


def test_members_see_the_rules_before_they_agree_and_may_have_their_own(run, begun, tmp_path, monkeypatch):
    """An agreement without rules once looked like any other, and a site's own rules did not hold."""
    none = "disclosure: no rules: for public or made-up data. Anyone who can write there"
    assert none in run("secure round sums north.csv --key north.key")[2]
    assert "no rules: for public or made-up data" in run("secure status sums")[1]
    new(run, folder="ruled", options="--rules usual")
    assert "disclosure: least_cell 5, least_outcome 2" in run("secure round ruled north.csv --key north.key")[2]
    (tmp_path / "own.toml").write_text("least_observations = 400\n", encoding="utf-8")
    monkeypatch.setenv("DECBAYES_RULES", "own.toml")
    for site in SITES:
        status, _, errors = visit(run, site, begun, "--hold-back 0")
    assert (status, "at least 400" in errors) == (1, True), errors


def test_other_data_than_in_the_round_before_are_refused(run, begun):
    turns(run, begun, times=3)
    write_table("north.csv", points(70, 8))
    status, _, errors = visit(run, "north", begun)
    while "masked" not in errors and status == 0:
        turns(run, begun, sites=("south", "west"))
        status, _, errors = visit(run, "north", begun)
    assert (status, "to the last sum is not the posterior of these data alone" in errors) == (1, True), errors


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("secure new sums --anchor public.posterior --member a=00", "The key of 'a' is not 64 hexadecimal digits"),
        ("secure round sums north.csv --key west.pem", "west.pem"),
        ("secure round nothing north.csv --key north.key", "nothing holds no agreement.json"),
        ("secure result sums -o m.posterior", "No sum of round 1 is open yet: round 1 of 2: waiting for the key of"),
        ("secure status nothing", "holds no agreement.json"),
    ],
)
def test_bad_input_gets_one_line(run, begun, line, said):
    status, _, errors = run(line)
    assert (status, said in errors, len(errors.strip().splitlines())) == (1, True, 1), errors


def test_the_agreement_and_the_anchor_cannot_be_changed(run, begun, tmp_path):
    file = tmp_path / "sums" / "agreement.json"
    text = file.read_text()
    for changed in (text.replace('"rounds":2', '"rounds":9'), text.replace('"colluders":1', '"colluders":0'), "{}", ""):
        file.write_text(changed)
        status, _, errors = visit(run, "north", begun)
        assert (status, len(errors.strip().splitlines())) == (1, 1), errors
    file.write_text(text)
    run("fit mixture north.csv --like public.posterior -o sums/anchor.posterior")
    status, _, errors = visit(run, "north", begun)
    assert (status, "The anchor is not the one that was agreed on" in errors) == (1, True)


def test_status_says_whose_turn_it_is(run, begun):
    turns(run, begun, sites=("north",))
    status, out, errors = run("secure status sums")
    assert (status, "sent" in out) == (0, True)
    assert "round 1 of 2: waiting for the key of south, west" in errors
    status, out, _ = run("secure status sums --json")
    rows = [json.loads(line) for line in out.splitlines()]
    assert rows[0] == {"round": 1, "member": "north", "key": True, "masked": False, "opening": False}


def test_an_audit_shows_what_members_have_added_once_all_have_agreed(run, begun, tmp_path):
    status, _, errors = run("secure audit sums --key north.key --approve Kim")
    assert (status, "nothing to show" in errors) == (1, True), errors
    turns(run, begun, times=5)
    status, _, errors = run("secure audit sums --key north.key")
    assert (status, "--approve NAME" in errors) == (1, True)
    lines = len(Ledger(tmp_path / "releases.ledger").entries())
    for site in SITES:
        status, _, errors = run(f"secure audit sums --key {site}.key --approve Kim")
        assert (status, f"agreed to show what {site} has added" in errors) == (0, True), errors
        assert "it has not shown its numbers" in errors
    assert not [*tmp_path.glob("sums/round_*/*.shown")]
    entries = Ledger(tmp_path / "releases.ledger").entries()
    assert [entry.file for entry in entries[lines:]] == ["sums: audit"] * 3
    for site in SITES:
        assert run(f"secure audit sums --key {site}.key --approve Kim")[0] == 0
    status, out, _ = run("secure audit sums --parts parts --json")
    assert status == 0
    assert [json.loads(line) for line in out.splitlines()] == [
        {"member": site, "rows": 60 + 10 * seed, "problem": ""} for seed, site in enumerate(SITES)
    ]
    run("secure result sums -o merged.posterior")
    parts = [db.load(tmp_path / f"parts/{site}.posterior", rules=None) for site in SITES]
    merged = db.load(tmp_path / "merged.posterior", rules=None)
    for name, part in db.merging.product(parts).contribution.items():
        np.testing.assert_allclose(part, merged.contribution[name], atol=1e-4)
    assert len(Ledger(tmp_path / "releases.ledger").entries()) == len(entries), "once"
