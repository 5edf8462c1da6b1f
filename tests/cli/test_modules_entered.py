"""A command loads what it uses, and not the rest of the package."""

import json
import subprocess
import sys

COUNTED = """
import json, os, sys
import cyclopts, numba, numpy, rich.table, safetensors.numpy, scipy.optimize, scipy.sparse, scipy.special

for line in json.loads(sys.argv[1]):
    if not os.fork():  # each begins without a module of ours, and none of them loads the others' again
        import atexit

        def count():
            print("loaded", sum(name.split(".")[0] == "decbayes" for name in sys.modules), "scipy.stats" in sys.modules)

        atexit.register(count)
        from decbayes.cli import main

        main(line.split())
    assert os.wait()[1] == 0, line
"""


def modules_entered(*lines, cwd):
    """How many of our modules each command line has imported in the end; never SciPy's statistics, half a second."""
    run = [sys.executable, "-c", COUNTED, json.dumps(lines)]
    shown = subprocess.run(run, capture_output=True, text=True, check=True, cwd=cwd).stdout
    loaded = [line.split()[1:] for line in shown.splitlines() if line.startswith("loaded ")]
    assert {statistics for _, statistics in loaded} == {"False"}
    return [int(count) for count, _ in loaded]


def test_a_command_loads_little_more_than_it_uses(tmp_path, run_in):
    """No other models, no solvers and views that nobody asked for: 191, 182 and 168 modules when all were loaded."""
    words = ["river", "fish", "boat", "lake", "bank", "money", "fund", "bond"]
    (tmp_path / "words.txt").write_text("\n".join(words))
    for site, first in (("a", 0), ("b", 1)):
        texts = [" ".join(words[(first + text) % 2 * 4 :][:4]) for text in range(30)]
        (tmp_path / f"{site}.jsonl").write_text("\n".join(f'{{"text": "{text}"}}' for text in texts))
    fit = "fit topics {0}.jsonl --vocabulary words.txt --topics 2 --passes 3 -o {0}.posterior"
    run_in(tmp_path, fit.format("b"))
    fit, merge, refine = modules_entered(
        fit.format("a"),
        "merge a.posterior b.posterior -o both.posterior",
        "refine a.jsonl --own a.posterior --others b.posterior -o a.1.posterior",
        cwd=tmp_path,
    )
    assert fit <= 118, fit
    assert merge <= 139, merge
    assert refine <= 142, refine


def test_help_and_version_do_without_numpy(tmp_path):
    """What somebody types first is answered at once: loading NumPy and SciPy takes longer than everything else."""
    for asked in ("--help", "--version"):
        code = (
            f"import sys\nfrom decbayes.cli import main\ntry:\n    main([{asked!r}])\n"
            "finally:\n    print('numpy' in sys.modules)"
        )
        run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path)
        assert run.stdout.split()[-1] == "False", asked
