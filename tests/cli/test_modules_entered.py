"""A command loads what it uses, and not the rest of the package."""

import subprocess
import sys


def modules_entered(*command, cwd):
    """How many of our modules one run of the command line has imported in the end."""
    code = (
        "import atexit, sys\n"
        "atexit.register(lambda: print(sum(name.split('.')[0] == 'decbayes' for name in sys.modules)))\n"
        "from decbayes.cli import main\n"
        f"main({[*map(str, command)]!r})"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=cwd)
    return int(run.stdout.split()[-1])


def test_a_command_loads_little_more_than_it_uses(tmp_path, run_in):
    """No other models, no solvers and views that nobody asked for: 191, 182 and 168 modules when all were loaded."""
    words = ["river", "fish", "boat", "lake", "bank", "money", "fund", "bond"]
    (tmp_path / "words.txt").write_text("\n".join(words))
    for site, first in (("a", 0), ("b", 1)):
        texts = [" ".join(words[(first + text) % 2 * 4 :][:4]) for text in range(30)]
        (tmp_path / f"{site}.jsonl").write_text("\n".join(f'{{"text": "{text}"}}' for text in texts))
    options = ("--vocabulary", "words.txt", "--topics", "2", "--passes", "3")
    run_in(tmp_path, " ".join(["fit topics b.jsonl", *options, "-o b.posterior"]))
    fit = modules_entered("fit", "topics", "a.jsonl", *options, "-o", "a.posterior", cwd=tmp_path)
    merge = modules_entered("merge", "a.posterior", "b.posterior", "-o", "both.posterior", cwd=tmp_path)
    rest = ("--own", "a.posterior", "--others", "b.posterior", "-o", "a.1.posterior")
    refine = modules_entered("refine", "a.jsonl", *rest, cwd=tmp_path)
    assert fit <= 118, fit
    assert merge <= 134, merge
    assert refine <= 134, refine


def test_help_and_version_do_without_numpy(tmp_path):
    """What somebody types first is answered at once: loading NumPy and SciPy takes longer than everything else."""
    for asked in ("--help", "--version"):
        code = (
            f"import sys\nfrom decbayes.cli import main\ntry:\n    main([{asked!r}])\n"
            "finally:\n    print('numpy' in sys.modules)"
        )
        run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path)
        assert run.stdout.split()[-1] == "False", asked
