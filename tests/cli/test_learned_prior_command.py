"""Document priors that are learned, on the command line and by agents."""

import json

import numpy as np

import decbayes as db


def texts(path, rng):
    kinds = [["apple", "pear", "plum"], ["hammer", "saw", "drill"]]
    lines = [" ".join(rng.choice(kinds[number % 4 == 0], 12)) for number in range(40)]
    path.write_text("\n".join(json.dumps({"text": line}) for line in lines), encoding="utf-8")


def test_sites_learn_and_merge_it(run, tmp_path, rng):
    for site in "ab":
        texts(tmp_path / f"{site}.jsonl", rng)
    assert run("fit topics a.jsonl --topics 2 --document-prior learn -o a.posterior")[0] == 0
    assert run("fit topics b.jsonl --like a.posterior -o b.posterior")[0] == 0
    assert run("merge a.posterior b.posterior -o both.posterior")[0] == 0
    both = db.load(tmp_path / "both.posterior")
    alpha = np.sort(db.model_for(both.structure).document_prior_of(both))
    assert alpha[1] > 1.5 * alpha[0]  # three of four documents are about fruit
    status, printed, _ = run("show both.posterior")
    assert (status, "document prior learn" in printed) == (0, True)
    status, _, errors = run("fit topics a.jsonl --topics 2 --document-prior nonsense -o c.posterior")
    assert (status != 0, "document-prior" in errors) == (True, True)


def test_topic_priors_that_sites_have_learned_apart_become_one(run, tmp_path, rng):
    for site, topics in (("a", 2), ("b", 3)):
        texts(tmp_path / f"{site}.jsonl", rng)
        options = "--vocabulary words.txt --topic-prior learn"
        if site == "a":
            assert run("words a.jsonl -o words.txt")[0] == 0
        assert run(f"fit topics {site}.jsonl --topics {topics} {options} -o {site}.posterior")[0] == 0
    status, _, errors = run("merge a.posterior b.posterior -o both.posterior")
    assert (status, "--topic-prior learn" in errors) == (1, True)
    status, _, errors = run("merge a.posterior b.posterior --topic-prior learn --document-prior 0.2 -o both.posterior")
    assert (status, "learned from the topics of all sites" in errors) == (0, True)
    both = db.model_for(db.load(tmp_path / "both.posterior").structure)
    assert both.document_prior == 0.2
    # The merge remembers the files that it was made of, whatever their priors were.
    status, _, errors = run("merge a.posterior both.posterior --topic-prior 0.1 -o more.posterior")
    assert (status, "hold the same data" in errors) == (1, True)
    assert run("fit topics b.jsonl --like both.posterior -o again.posterior")[0] == 0
