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
    assert (status, "document_prior learn" in printed) == (0, True)
    status, _, errors = run("fit topics a.jsonl --topics 2 --document-prior nonsense -o c.posterior")
    assert (status != 0, "document-prior" in errors) == (True, True)
