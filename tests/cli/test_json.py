"""Every command that prints results prints them as JSON, too, with the keys that its help names."""

import json
import re
from functools import cache, reduce

import numpy as np
import pytest
from parties import Means

import decbayes as db
from decbayes.cli import app
from decbayes.models.core.registry import SHIPPED
from decbayes.network import SqliteStore

PARAMETER = "factor component quantity entry mean deviation lower upper uncertainty"
CERTIFICATE = "name hosts signed_by valid_until fingerprint"
CHARTER = "group model settings members prior disclosure fingerprint"
FIT = "file observations components bound passes converged structure"
ORDER = "answer done"
LINES = {
    "columns a.csv": "column kind details",
    "words t.txt --least-documents 1 --most-share 1 -o p.words": "file words",
    "fit mean a.csv -o p.posterior": FIT,
    "fit mixture a.csv --components 2 --restarts 0 -o p.posterior": FIT,
    "fit mixture a.csv --prior a.posterior --forgetting 0.5 -o p.posterior": FIT,
    "merge a.posterior b.posterior -o p.posterior": (
        "slot id caption observations unit duplicates unlike times_chance by_chance sites"
    ),
    "refine a.csv --own a.posterior --others b.posterior -o p.posterior": "file round sites shift waiting",
    "show a.posterior": PARAMETER,
    "report a.posterior b.posterior --no-confidence -o p.html": "file posteriors bytes",
    "export a.posterior -o p.csv": "file rows",
    "export a.posterior -o -": "model structure posterior level uncertainty parameters",
    "transform a.csv a.posterior -o p.csv": "file rows unknown",
    "secure status sums": "round member key masked opening",
    "score a.csv a.posterior b.posterior": "posterior log_predictive",
    "score a.csv a.posterior --labels x": "posterior log_predictive adjusted_rand",
    "validate a.csv b.posterior": "posterior score error behind behind_error observations chosen",
    "validate a.csv a.posterior --approximation": "shape draws counting close",
    "calibrate a.posterior a.csv -o p.information": "file parameters observations",
    "calibrate a.posterior a.information -o p.posterior": PARAMETER,
    "overlap a.csv a.posterior b.posterior -o p.overlap": "component overlap",
    "quality t.posterior": "topic used words telling coherence diversity duplicates",
    "plan mean --sites 2 --observations 5 --data-sets 2": "coverage calibrated at_once right gap data_sets advice",
    "simulate --agents 3 --steps 5 --pause 0": (
        "model agents steps rounds observations messages bytes lost score score_at_once"
    ),
    "simulate --agents 3 --steps 5 --histories 1": "model agents steps histories",
    "simulate mean --agents 3 --steps 9 --pause 0": (
        "model agents steps rounds observations messages bytes lost score score_at_once"
    ),
    "keygen p.key": "file public_key",
    "charter show group.toml": CHARTER,
    "certificate authority p.pem": CERTIFICATE,
    "certificate request q.pem --host a.example": "request key",
    "posterior group.toml --store a.store": "observations counted missing not_counted flags same_data set",
    "tell retract a.store --for-good --wait 0": ORDER,
    "tell vote a.store 0123abcd --wait 0": ORDER,
    "charter propose remove a.store b --wait 0": ORDER,
}


def commands(group, words=()):
    """All commands that do something, by their words."""
    for name in group:
        if not name.startswith("-"):
            inner = [*commands(group[name], (*words, name))]
            yield from inner or [" ".join((*words, name))]


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder, rng = tmp_path_factory.mktemp("json"), np.random.default_rng(5)
    points = np.array([[0.0, 0.0], [9.0, 5.0]])[rng.integers(2, size=40)] + rng.normal(size=(40, 2))
    np.savetxt(folder / "a.csv", points, delimiter=",", header="x,y", comments="")
    model = db.GaussianMixture(2, 2, covariance="diagonal", columns=("x", "y"), ascent=db.Ascent(restarts=0))
    fits = [model.fit(part, rng=rng).posterior for part in (points, points[:25])]
    for name, posterior in zip("ab", fits, strict=True):
        db.save(posterior, folder / f"{name}.posterior")
    part = db.checking.Information.of(model, points, fits[0])
    (folder / "a.information").write_bytes(part.to_bytes())
    (folder / "t.txt").write_text("\n".join(["pear plum", "apple plum"] * 5), encoding="utf-8")
    topics = db.LatentDirichletAllocation(2, ("apple", "pear", "plum"))
    db.save(db.Posterior.of_prior(topics.structure), folder / "t.posterior")
    keys = {name: bytes([number]) * 32 for number, name in enumerate("abc")}
    db.secure.Folder.begin(folder / "sums", db.secure.Agreement("json", keys, fits[0]))
    party = Means(folder, 2)
    SqliteStore(folder / "a.store", party.charter).close()
    return folder


@pytest.mark.parametrize("line", LINES)
def test_each_line_is_an_object_with_the_keys_that_the_help_names(line, run, files, monkeypatch):
    monkeypatch.chdir(files)
    status, shown, errors = run(f"{line} --json")
    assert status == (3 if line.startswith("posterior ") else 0), errors  # nobody has been heard yet
    rows = [json.loads(row, parse_constant=None) for row in shown.splitlines()]
    keys = set(LINES[line].split())
    assert rows
    assert all(row.keys() == keys for row in rows)
    words = line.split()
    command = " ".join(
        words[
            : 3
            if "propose" in words
            else 2
            if words[0] in ("fit", "plan", "charter", "certificate", "secure", "tell")
            else 1
        ]
    )
    assert keys <= set(re.findall(r"\w+", help_of_json(command))), command


@cache
def help_of_json(command):
    """That every command has the option is tested in tests/test_docs_shape.py."""
    (option,) = (each for each in part_of(command).assemble_argument_collection() if each.name == "--json")
    return option.parameter.help


def part_of(command):
    return reduce(lambda part, word: part[word], command.split(), app)


def test_numbers_that_json_lacks_are_null(capsys):
    from decbayes.cli.shared.standard_streams import print_json

    print_json({"a": float("nan"), "b": [np.inf, np.float64(2.0)], "c": np.arange(2), "d": {1: (None, "x")}})
    assert json.loads(capsys.readouterr().out) == {"a": None, "b": [None, 2.0], "c": [0, 1], "d": {"1": [None, "x"]}}


def test_every_argument_of_every_command_is_explained():
    seen, shipped = 0, {command for _, command in SHIPPED.values()}
    for command in commands(app):
        group, *model = command.split()
        if group in ("fit", "plan", "simulate") and model and model[0] not in shipped:
            continue  # another test's own model
        for argument in part_of(command).assemble_argument_collection(parse_docstring=False):
            seen += bool(argument.parameter.help)
            assert argument.parameter.help or not argument.parse or argument.children, (command, argument.name)
    assert seen > 300
