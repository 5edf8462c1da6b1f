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


def test_effects_of_covariates_in_a_shared_folder(run, tmp_path):
    rng = np.random.default_rng(0)
    words = sorted(word for theme in THEMES.values() for word in theme.split())
    (tmp_path / "words.txt").write_text("\n".join(words))
    (tmp_path / "shared").mkdir()
    for office in "ab":
        lines = []
        for n in range(60):
            port = n % 2 == 0
            share = rng.beta(*(1.2, 0.4) if port else (0.4, 0.8))
            themes = np.where(rng.random(20) < share, "sea", "chess")
            text = " ".join(rng.choice(THEMES[theme].split()) for theme in themes)
            place = {"kind": "port" if port else "inland"} if n else {}  # one letter without a kind is left out
            lines.append(json.dumps({"text": text, "day": f"2024-0{1 + n % 9}-11", **place}))
        (tmp_path / f"{office}.jsonl").write_text("\n".join(reversed(lines)))
        fit = f"fit topics {office}.jsonl --vocabulary words.txt --topics 2 --topic-prior 0.1 -o {office}.posterior"
        assert run(fit)[0] == 0
    assert run("merge a.posterior b.posterior -o m.posterior")[0] == 0
    lines = {office: f"prevalence m.posterior {office}.jsonl --folder shared" for office in "ab"}
    assert "name covariates with --formula" in run(lines["a"])[2]
    assert run(f"{lines['a']} --formula kind+day")[0] == 0
    assert "waiting for another site" in run(lines["a"])[2]
    assert "Leave the formula out" in run(f"{lines['b']} --formula kind")[2]
    assert run(lines["b"])[0] == 0
    status, out, errors = run("prevalence m.posterior shared/a.prevalence shared/b.prevalence")
    assert (status, "Another round" in errors, "ratio" in out) == (0, True, True)
    assert run(lines["a"])[0] == 0
    assert "waiting for b" in run(lines["a"])[2]
    assert run(lines["b"])[0] == 0
    files = [f"shared/{office}{number}.prevalence" for office in "ab" for number in ("", ".1")]
    assert "The last round moved estimates" in run(f"prevalence m.posterior {' '.join(files)}")[2]
    assert [run(lines[office])[0] for office in "ab"] == [0, 0]
    files += ["shared/a.2.prevalence", "shared/b.2.prevalence"]
    status, out, errors = run(f"prevalence m.posterior {' '.join(files)} --json --picture effects.png")
    assert (status, (tmp_path / "effects.png").exists()) == (0, True)
    assert "Further rounds change little" in errors
    rows = [json.loads(line) for line in out.splitlines()]
    merged = db.load(tmp_path / "m.posterior")
    sea = int(merged.mean("topics")[:, merged.structure.labels["topics"].index("tide")].argmax())
    ((ratio, low),) = [(row["ratio"], row["low"]) for row in rows if row["topic"] == sea and row["term"] == "kind=port"]
    assert ratio > low > 1.3
    assert {row["term"] for row in rows} == {"kind=port", "day"}
    assert json.loads((tmp_path / "shared/a.1.prevalence").read_text())["sites"]["a"]["documents"] == 59
    refused = {
        "prevalence m.posterior a.jsonl --formula wind": "wind",
        "prevalence m.posterior a.jsonl --formula kind --date day": "--date does not go with --formula",
        "prevalence m.posterior shared/a.prevalence shared/a.prevalence": "given twice",
        "prevalence a.posterior shared/a.prevalence shared/b.prevalence": "on other topics",
        "prevalence m.posterior a.jsonl --folder nowhere": "is not a folder",
        "prevalence m.posterior a.jsonl --rules usual --formula day*kind*kind --folder shared": "formula",
    }
    for line, reason in refused.items():
        status, _, errors = run(line)
        assert (status in (1, 2), reason in errors) == (True, True), (line, errors)
