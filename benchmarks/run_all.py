"""Run every benchmark of this folder and write their figures side by side.

    python benchmarks/run_all.py [--quick] [--only NAME] [--output FOLDER]

Each benchmark runs in a process of its own and prints one JSON object as its last line. All of them are saved as
`benchmarks.json`, and as tables in `benchmarks.md`.
"""

import argparse
import json
import platform
import subprocess
import sys
import time
from pathlib import Path

FOLDER = Path(__file__).parent


def scripts(only):
    names = sorted(
        path.stem for path in FOLDER.glob("*.py") if not path.stem.startswith("_") and path.stem != "run_all"
    )
    return [name for name in names if only in name]


def run(name, quick):
    """The figures of one benchmark, or why there are none."""
    begin = time.perf_counter()
    command = [sys.executable, str(FOLDER / f"{name}.py"), *(["--quick"] if quick else [])]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    lines = done.stdout.strip().splitlines()
    if done.returncode or not lines:
        return {"failed": done.stderr.strip().splitlines()[-1:] or ["no output"]}
    try:
        figures = json.loads(lines[-1])
    except ValueError:
        return {"failed": ["its last line is not JSON"]}
    return figures | {"benchmark_seconds": round(time.perf_counter() - begin, 1)}


def flat(value, path=()):
    """(path, leaf) of everything in nested mappings."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from flat(inner, (*path, str(key)))
    else:
        yield path, value


def table(figures):
    lines = ["| figure | value |", "|---|---|"]
    lines += [f"| {' / '.join(path)} | {text(value)} |" for path, value in flat(figures)]
    return "\n".join(lines)


def text(value):
    if isinstance(value, float):
        return f"{value:.6g}"
    return ", ".join(map(text, value)) if isinstance(value, list) else str(value)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="every benchmark in its quick form, under a minute each")
    parser.add_argument("--only", default="", help="benchmarks whose name contains this")
    parser.add_argument("--output", type=Path, default=Path("out/benchmarks"))
    arguments = parser.parse_args()
    arguments.output.mkdir(parents=True, exist_ok=True)
    results = {"machine": f"{platform.machine()}, Python {platform.python_version()}"}
    for name in scripts(arguments.only):
        print(f"{name} …", flush=True)
        results[name] = run(name, arguments.quick)
        print(table(results[name]), flush=True)
    (arguments.output / "benchmarks.json").write_text(json.dumps(results, indent=1))
    sections = [f"# {name}\n\n{table(figures)}\n" for name, figures in results.items() if isinstance(figures, dict)]
    (arguments.output / "benchmarks.md").write_text("\n".join(sections))
    if any("failed" in figures for figures in results.values() if isinstance(figures, dict)):
        sys.exit(1)


if __name__ == "__main__":
    main()
