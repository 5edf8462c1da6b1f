"""Rounds of refinement by files: the same bits as in one process, and nothing counts twice."""

import json
from pathlib import Path

import numpy as np
import pytest

import decbayes as db
from decbayes import devices
from decbayes.cli.commands.everyday import fit as fit_command
from decbayes.errors import InvalidFile, StructureMismatch
from decbayes.files import load_note
from decbayes.models.topics import lda
from decbayes.updates.rounds import Round, Sent, check_once, together

SITES = ("a", "b", "c")
THEMES = ["vaccine dose ward nurse mask", "anchor mast tide crew quay", "pawn rook bishop clock gambit"]


def write_offices(folder):
    rng = np.random.default_rng(4)
    for site in SITES:
        texts = [" ".join(rng.choice(THEMES[rng.integers(3)].split(), 8)) for _ in range(12)]
        (folder / f"{site}.jsonl").write_text("\n".join(json.dumps(text) for text in texts), encoding="utf-8")


def others(site, number):
    return " ".join(name_of(each, number) for each in SITES if each != site)


def name_of(site, number):
    return f"{site}.{number}.posterior" if number else f"{site}.posterior"


def fitted(run, folder):
    write_offices(folder)
    fit = "--topics 3 --topic-prior 0.1 --least-documents 1 --most-share 1"
    assert run(f"fit topics a.jsonl {fit} -o a.posterior")[0] == 0
    for seed, site in enumerate("bc"):
        assert run(f"fit topics {site}.jsonl --like a.posterior --seed {seed} -o {site}.posterior")[0] == 0


def one_round(run, number):
    for site in SITES:
        own = name_of(site, number - 1)
        line = f"refine {site}.jsonl --own {own} --others {others(site, number - 1)} -o {name_of(site, number)}"
        status, _, errors = run(line)
        assert (status, f"round {number} of 3 sites; it moves the merge by" in errors) == (0, True), errors


def test_three_rounds_by_files_have_the_bits_of_refine(run, tmp_path):
    fitted(run, tmp_path)
    posteriors = [db.load(tmp_path / name_of(site, 0)) for site in SITES]
    model = db.model_for(posteriors[0].structure)
    shards = [model.read(tmp_path / f"{site}.jsonl") for site in SITES]
    expected = db.refine(model, shards, posteriors, rounds=3, rng=np.random.default_rng(0), schedule="parallel")
    for number in (1, 2, 3):
        one_round(run, number)
    for site, posterior in zip(SITES, expected.posteriors, strict=True):
        assert db.load(tmp_path / name_of(site, 3)) == posterior
    status, _, errors = run("merge c.3.posterior a.3.posterior b.3.posterior -o m.posterior")
    assert (status, "Posteriors of round 3, in common slots." in errors) == (0, True)
    assert db.load(tmp_path / "m.posterior") == expected.merged
    # Once more is the same file.
    before = (tmp_path / "a.3.posterior").read_bytes()
    assert run("refine a.jsonl --own a.2.posterior --others c.2.posterior b.2.posterior -o a.3.posterior")[0] == 0
    assert (tmp_path / "a.3.posterior").read_bytes() == before


def test_what_would_count_twice_is_refused(run, tmp_path):
    fitted(run, tmp_path)
    one_round(run, 1)
    (tmp_path / "copy.posterior").write_bytes((tmp_path / "b.posterior").read_bytes())
    assert run("refine a.jsonl --own a.1.posterior --others b.1.posterior c.1.posterior -o a.2.posterior")[0] == 0
    assert run("merge b.posterior c.posterior -o bc.posterior")[0] == 0
    (tmp_path / "half.jsonl").write_text(
        "\n".join((tmp_path / "a.jsonl").read_text().splitlines()[:6]), encoding="utf-8"
    )
    refused = {
        "refine a.jsonl --own a.posterior --others a.1.posterior b.posterior -o no": "hold the same data",
        "refine a.jsonl --own a.posterior --others b.posterior copy.posterior -o no": "hold the same data",
        "refine a.jsonl --own a.posterior --others a.posterior b.posterior -o no": "(again) and a.posterior",
        "refine a.jsonl --own a.posterior --others b.posterior bc.posterior -o no": "hold the same data",
        "refine a.jsonl --own a.2.posterior --others b.1.posterior c.1.posterior -o no": "is of round 1, a.2",
        "refine half.jsonl --own a.posterior --others b.posterior c.posterior -o no": "not the posterior of these data",
        "refine a.jsonl --own a.1.posterior --others b.1.posterior c.1.posterior --components 4 -o no": "first round",
        "merge a.1.posterior a.posterior -o no": "hold the same data",
        "merge b.posterior bc.posterior -o no": "hold the same data",
        "merge a.1.posterior b.1.posterior c.posterior -o no": "round",
        "merge a.1.posterior b.1.posterior c.1.posterior --components 2 -o no": "already in common slots",
    }
    for line, reason in refused.items():
        status, _, errors = run(line)
        assert (status in (1, 2), reason in errors) == (True, True), (line, errors)
    assert not (tmp_path / "no").exists()
    rounds = [Sent.of(db.load(tmp_path / f"{s}.1.posterior"), load_note(tmp_path / f"{s}.1.posterior")) for s in SITES]
    elsewhere = Sent(rounds[2].posterior, rounds[2].holds, 1, rounds[2].sites, "f" * 64)
    with pytest.raises(StructureMismatch, match="different exchanges"):
        Round.of({"a": rounds[0], "b": rounds[1], "c": elsewhere})


def test_data_that_were_held_back_stay_so(run, tmp_path):
    fitted(run, tmp_path)
    for site in SITES:
        assert run(f"fit topics {site}.jsonl --like a.posterior --hold-back 0.25 -o {site}.less.posterior")[0] == 0
    line = "refine a.jsonl --own a.less.posterior --others b.less.posterior c.less.posterior -o a.1.posterior"
    assert "not the posterior of these data" in run(line)[2]
    assert run(f"{line} --hold-back 0.25")[0] == 0


def test_a_day_on_top_of_another_counts_once(run, tmp_path):
    fitted(run, tmp_path)
    assert run("fit topics b.jsonl --prior a.posterior -o ab.posterior")[0] == 0
    a, ab = (db.load(tmp_path / f"{name}.posterior") for name in ("a", "ab"))
    model = db.model_for(a.structure)
    counts = model.read(tmp_path / "b.jsonl")
    assert ab == model.fit(counts, prior=a, start=a, rng=np.random.default_rng(0)).posterior
    assert model.tally(ab).contradiction(12 * 8 * 2) is None
    status, _, errors = run("merge a.posterior ab.posterior -o no")
    assert (status, "hold the same data" in errors) == (1, True)
    for line in ("--prior a.posterior --like a.posterior", "--prior a.posterior --topics 7"):
        assert run(f"fit topics b.jsonl {line} -o no")[0] in (1, 2)
    assert not (tmp_path / "no").exists()


def test_mixtures_too_and_part_of_the_way(rng):
    model = db.GaussianMixture(components=2, dimension=1, variance=1.0, prior_variance=20.0)
    shards = [rng.normal(rng.choice([-4.0, 4.0], 9))[:, None] for _ in range(3)]
    posteriors = [model.fit(shard, rng=rng).posterior for shard in shards]
    sent = {str(site): Sent(posterior) for site, posterior in enumerate(posteriors)}
    assert together(sent) is None
    for _ in range(2):
        names = list(sent)
        turned = [{name: sent[name] for name in [*names[site:], *names[:site]]} for site in range(3)]
        step = [Round.of(view).refined(shard, rng=rng, damping=0.7) for view, shard in zip(turned, shards, strict=True)]
        sent = dict(zip(names, step, strict=True))
    refinement = db.refine(model, shards, posteriors, rounds=2, rng=rng, schedule="parallel", damping=0.7)
    assert tuple(each.posterior for each in sent.values()) == refinement.posteriors
    assert together(sent).merged == refinement.merged
    whole = db.refine(model, shards, posteriors, rounds=2, rng=rng, schedule="parallel")
    assert whole.merged != refinement.merged


@pytest.mark.parametrize(
    "note",
    [
        {"holds": ["short"]},
        {"holds": 3},
        {"sites": ["0" * 64]},
        {"round": 1},
        {"round": -1},
        {"round": "x"},
        {"round": 1, "sites": ["0" * 64] * 2, "exchange": "0" * 64},
        {"round": 1, "sites": ["0" * 64]},
    ],
)
def test_notes_that_make_no_sense_are_refused(note, tmp_path):
    posterior = db.Posterior.of_prior(db.models.GaussianMean(dimension=1).structure)
    db.save(posterior, tmp_path / "a.posterior", note=note)
    assert db.load(tmp_path / "a.posterior") == posterior
    with pytest.raises(InvalidFile, match="note on data and rounds"):
        Sent.of(posterior, load_note(tmp_path / "a.posterior"))


def test_notes_are_no_part_of_a_posterior(tmp_path):
    posterior = db.Posterior.of_prior(db.models.GaussianMean(dimension=1).structure)
    db.save(posterior, tmp_path / "plain.posterior")
    assert load_note(tmp_path / "plain.posterior") == {}
    Path(tmp_path / "other").write_bytes(b"nothing")
    with pytest.raises(InvalidFile, match="damaged"):
        load_note(tmp_path / "other")
    check_once({"a": Sent(posterior)})


def test_another_day_forgets_what_the_new_letters_contradict(run, tmp_path):
    rng = np.random.default_rng(0)
    kinds = {"monday": ["apple pear plum", "saw drill nail"], "tuesday": ["apple pear plum", "mast tide quay"]}
    for day, themes in kinds.items():
        lines = [" ".join(rng.choice(themes[number % 2].split(), 10)) for number in range(60)]
        (tmp_path / f"{day}.txt").write_text("\n".join(lines), encoding="utf-8")
    assert run("words monday.txt tuesday.txt -o words.txt")[0] == 0
    assert run("fit topics monday.txt --topics 2 --vocabulary words.txt -o monday.posterior")[0] == 0
    for forgetting in ("0.3", "learn"):
        command = f"fit topics tuesday.txt --prior monday.posterior --forgetting {forgetting} -o {forgetting}.posterior"
        assert run(command)[0] == 0
    fixed, learned = (db.load(tmp_path / f"{name}.posterior") for name in ("0.3", "learn"))
    assert fixed.contribution["topics"].sum() == pytest.approx(600 + 0.7 * 600, rel=1e-6)
    gone = [fixed.structure.labels["topics"].index(word) for word in ("saw", "drill", "nail")]
    assert learned.contribution["topics"][:, gone].sum() < 0.1 * fixed.contribution["topics"][:, gone].sum()
    assert len(set(learned.ids)) == 2
    status, _, errors = run("merge monday.posterior learn.posterior -o both.posterior")
    assert (status, "hold the same data" in errors) == (1, True)
    status, _, errors = run("fit topics tuesday.txt --topics 2 --forgetting 0.1 -o x.posterior")
    assert (status, "--prior" in errors) == (2, True)
    status, _, errors = run("fit topics tuesday.txt --prior monday.posterior --forgetting 2 -o x.posterior")
    assert (status, "from 0 to below 1" in errors) == (2, True)


def test_another_day_is_a_fit_like_others(run, tmp_path, monkeypatch):
    for name, text in (("monday", "apple pear"), ("tuesday", "apple plum"), ("nothing", "unknown words")):
        (tmp_path / f"{name}.txt").write_text("\n".join([text] * 8), encoding="utf-8")
    assert run("words monday.txt tuesday.txt -o words.txt")[0] == 0
    assert run("fit topics monday.txt --topics 2 --vocabulary words.txt -o monday.posterior")[0] == 0
    on_top = "--prior monday.posterior --forgetting"
    status, _, errors = run(f"fit topics missing.txt {on_top} 2 -o x.posterior")
    assert (status, "from 0 to below 1" in errors) == (2, True)  # before any data are read
    for forgetting in ("0.3", "learn"):
        status, _, errors = run(f"fit topics nothing.txt {on_top} {forgetting} -o x.posterior")
        assert (status, "nothing that the model can use" in errors) == (1, True)
    assert not (tmp_path / "x.posterior").exists()
    (tmp_path / "x.posterior.unfinished").mkdir()
    (tmp_path / "x.posterior.unfinished" / "note.json").write_text("{}", encoding="utf-8")
    used = []
    monkeypatch.setattr(lda, "device_for", lambda name: used.append(name or devices._used))
    monkeypatch.setattr(fit_command, "available_device", lambda name: name)
    assert run(f"fit topics tuesday.txt {on_top} 0.3 --device cuda -o x.posterior")[0] == 0
    assert set(used) == {"cuda"}
    assert not (tmp_path / "x.posterior.unfinished").exists()
