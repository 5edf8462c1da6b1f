"""`decbayes prevalence`: sums leave a site, shares come back."""

import json

import numpy as np

import decbayes as db

THEMES = {"sea": "anchor mast tide quay crew", "chess": "pawn rook clock check mate"}


def test_shares_of_two_offices_over_time(run, tmp_path):
    rng = np.random.default_rng(0)
    words = sorted(word for theme in THEMES.values() for word in theme.split())
    (tmp_path / "words.txt").write_text("\n".join(words))
    for office, rest in (("a", 0.2), ("b", 0.6)):
        lines = []
        for n in range(60):
            month = 1 + n // 20
            theme = "chess" if rng.random() < rest + 0.1 * month else "sea"
            text = " ".join(rng.choice(THEMES[theme].split(), 10))
            lines.append(json.dumps({"day": f"2024-0{month}-11", "text": text}))
        (tmp_path / f"{office}.jsonl").write_text("\n".join(lines))
        fit = f"fit topics {office}.jsonl --vocabulary words.txt --topics 2 --topic-prior 0.1 -o {office}.posterior"
        assert run(fit)[0] == 0
    assert run("merge a.posterior b.posterior -o m.posterior")[0] == 0
    for office in "ab":
        line = f"prevalence m.posterior {office}.jsonl --date day --site {office} -o {office}.prevalence"
        assert run(line)[0] == 0
    status, out, _ = run("prevalence m.posterior a.prevalence b.prevalence --json --picture shares.png")
    rows = [json.loads(line) for line in out.splitlines()]
    merged = db.load(tmp_path / "m.posterior")
    chess = int(merged.mean("topics")[:, merged.structure.labels["topics"].index("rook")].argmax())
    share = {(row["site"], row["period"]): row for row in rows if row["topic"] == chess}
    assert (status, (tmp_path / "shares.png").exists()) == (0, True)
    assert {period for _, period in share} == {"all", "2024-01", "2024-02", "2024-03"}
    assert share["b", "all"]["low"] > share["a", "all"]["high"]
    assert share["all", "2024-03"]["share"] > share["all", "2024-01"]["share"]
    assert "share: mean share of documents" in run("prevalence m.posterior a.prevalence")[1]
    refused = {
        "prevalence m.posterior a.jsonl --date text": "a date such as 2024-05-31",
        "prevalence m.posterior a.prevalence a.prevalence": "given twice",
        "prevalence a.posterior a.prevalence": "other topics",
        "prevalence m.posterior a.jsonl --date day --by day -o m.posterior": "m.posterior",
    }
    for line, reason in refused.items():
        status, _, errors = run(line)
        assert (status in (1, 2), reason in errors) == (True, True), (line, errors)
    (tmp_path / "few.jsonl").write_text("\n".join((tmp_path / "a.jsonl").read_text().splitlines()[:3]))
    assert run("prevalence m.posterior few.jsonl --rules usual -o few.prevalence")[0] == 1
