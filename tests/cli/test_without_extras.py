"""The command line as one gets it without extras: all help is there, and what a command needs is said in one line."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import decbayes as db

# Python takes a module that is None for one that is not there.
BLOCKED = ("zenoh", "cryptography", "matplotlib", "sklearn", "pandas", "pyarrow", "arviz_base", "gensim", "tomotopy")
BLOCKED += ("numpyro", "jax", "dask", "ray", "Stemmer", "xarray")
SCRIPT = f"""
import io, json, sys
from contextlib import redirect_stderr, redirect_stdout

sys.modules.update(dict.fromkeys({BLOCKED!r}))

from decbayes.cli import app, main


def commands(app, words=()):
    for name in app:
        if not name.startswith("-"):
            yield [*words, name]
            yield from commands(app[name], [*words, name])


def outcome(line):
    with redirect_stdout(io.StringIO()) as shown, redirect_stderr(io.StringIO()) as told:
        try:
            main(line)
        except SystemExit as end:
            status = end.code
    if isinstance(status, str):  # printed by the interpreter, after which the status is 1
        return 1, shown.getvalue(), told.getvalue() + status
    return status, shown.getvalue(), told.getvalue()


lines = json.loads(sys.argv[1]) or [[*command, "--help"] for command in commands(app)]
print(json.dumps({{" ".join(line): outcome(line) for line in lines}}))
"""

# A command line that needs an extra, what that brings, and what to ask pip for.
NEEDS = {
    "agent g.toml --key a.key --store a.store": ("zenoh and cryptography", "net"),
    "certificate authority a.pem": ("zenoh and cryptography", "net"),
    "certificate issue a.pem --authority b.pem --host c": ("zenoh and cryptography", "net"),
    "certificate request a.pem --host c": ("zenoh and cryptography", "net"),
    "certificate show a.pem": ("zenoh and cryptography", "net"),
    "certificate sign a.pem.request --authority b.pem -o a.pem": ("zenoh and cryptography", "net"),
    "charter add g.toml --member a=00": ("zenoh and cryptography", "net"),
    "charter new g.toml --group g --model GaussianMean --member a=00": ("zenoh and cryptography", "net"),
    "charter export g.toml --store a.store -o h": ("zenoh and cryptography", "net"),
    "charter show g.toml": ("zenoh and cryptography", "net"),
    "demo": ("zenoh, cryptography, matplotlib and sklearn", "demo"),
    "fit mixture a.parquet -o a.posterior": ("pyarrow", "parquet"),
    "keygen a.key": ("zenoh and cryptography", "net"),
    "merge a.posterior a.posterior -o b.posterior --picture a.png": ("matplotlib", "plot"),
    "posterior g.toml --agent 127.0.0.1:1 -o a.posterior": ("zenoh and cryptography", "net"),
    "posterior g.toml --store a.store -o a.posterior": ("zenoh and cryptography", "net"),
    "show a.posterior --picture a.png": ("matplotlib", "plot"),
    "simulate": ("zenoh and cryptography", "net"),
    "simulate --picture a.png": ("zenoh, cryptography and matplotlib", "net,plot"),
}


def outcomes(lines, folder):
    """Exit status, standard output and standard error of each line, in a process without the extras' libraries."""
    environment = os.environ | {"PYTHONPATH": str(Path(db.__file__).parents[1])}
    run = [sys.executable, "-c", SCRIPT, json.dumps(lines)]
    return json.loads(subprocess.run(run, capture_output=True, check=True, env=environment, cwd=folder).stdout)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """With a posterior, and a file that claims to be Parquet."""
    made = tmp_path_factory.mktemp("without-extras")
    db.save(db.Posterior.of_prior(db.GaussianMixture(2, dimension=1, variance=1.0).structure), made / "a.posterior")
    (made / "a.parquet").write_text("PAR1", encoding="utf-8")
    return made


@pytest.mark.slow
def test_every_command_shows_its_help(folder):
    found = outcomes([], folder)
    assert {"fit mixture --help", "charter export --help", "certificate sign --help", "demo --help"} <= found.keys()
    for line, (status, shown, told) in found.items():
        assert (status, told, f"decbayes {line.removesuffix(' --help')}" in shown) == (0, "", True), line


def test_what_a_command_needs_is_said_in_one_line_that_names_all_of_it(folder):
    found = outcomes([line.split() for line in NEEDS], folder)
    for line, (modules, extra) in NEEDS.items():
        status, shown, told = found[line]
        wanted = f"pip install 'decbayes[{extra}]' (in a clone: pip install '.[{extra}]')"
        assert (status, shown) == (1, ""), line
        assert told.startswith("decbayes: "), told
        assert told.endswith(f"needs {modules}, not installed yet: {wanted}"), told
        assert "\n" not in told
    assert {path.name for path in folder.iterdir()} == {"a.posterior", "a.parquet"}
