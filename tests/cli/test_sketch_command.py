"""`decbayes sketch`, and a merge that sees sketches beside the files."""

import json


def test_a_merge_says_how_much_is_counted_twice(run, tmp_path):
    shared = [f"river boat lake {n}" for n in range(12)]
    for name, words in (("a", "money fund"), ("b", "pawn rook")):
        lines = [*shared, *(f"{words} {name}{n}" for n in range(18))]
        (tmp_path / f"{name}.jsonl").write_text("\n".join(json.dumps({"text": text}) for text in lines))
        assert run(f"sketch {name}.jsonl --key group.key -o {name}.sketch")[0] == 0
    assert (tmp_path / "group.key").stat().st_mode & 0o077 == 0
    assert run("fit topics a.jsonl --topics 2 --most-share 1 -o a.posterior")[0] == 0
    assert run("fit topics b.jsonl --topics 2 --most-share 1 -o b.posterior")[0] == 0
    status, _, errors = run("merge a.posterior b.posterior -o m.posterior")
    told = " ".join(errors.split())
    assert (status, "20% of the 60 documents in sketches count more than once" in told) == (0, True)
    assert "count more than once" in run("show m.posterior")[1]
    assert "a and b 12" in " ".join(run("sketch a.sketch b.sketch")[1].split())
    assert json.loads(run("sketch a.sketch b.sketch --json")[1]) == {"sites": ["a", "b"], "shared": 12}
    (tmp_path / "c.posterior").write_bytes((tmp_path / "b.posterior").read_bytes())
    assert run("merge a.posterior b.posterior c.posterior -o m.posterior --duplicates allow")[0] == 0
    assert "not compared with others' documents: c." in " ".join(run("show m.posterior --remarks")[1].split())
    refused = {
        "sketch a.jsonl -o c.sketch": "needs --key",
        "sketch a.posterior b.sketch": "",
        "sketch a.sketch a.jsonl": "",
    }
    for line, reason in refused.items():
        status, _, errors = run(line)
        assert (status in (1, 2), reason in errors) == (True, True), (line, errors)
