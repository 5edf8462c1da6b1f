"""Mutated files and messages through the commands that read strangers' files: no traceback, no hang, no growth.

Files of every model are changed in three ways: bytes at random; numbers replaced by extreme ones, which keeps the file
well formed; and the description, with a fingerprint that fits. Each is read as all commands do; what is read is merged,
shown or exported in the same process, and one in ten goes through the whole of `decbayes merge`, which takes a second.
Every fourth file is of another kind, changed at random: a table (.csv, .csv.gz, .npy, .npz), counts of words (.npz), a
posterior with a manifest, a charter, a ledger, decisions. Messages of a network, changed in the same way, go into an
agent. Counted are exceptions other than an error in one line, runs of more than ten seconds, and growth of memory.

Run as `python benchmarks/file_fuzz.py [--files 4000] [--messages 20000] [--seed 0] [--seconds S] [--quick]`; the last
line is one JSON object.
"""

import argparse
import contextlib
import gzip
import io
import json
import resource
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load as load_arrays
from safetensors.numpy import save as save_arrays
from scipy.sparse import save_npz

import decbayes as db
from decbayes.cli import app, load_command
from decbayes.cli.shared.running import finish
from decbayes.disclosure import Entry, Ledger, Manifest, Rules
from decbayes.disclosure.manifest import KEY as MANIFEST
from decbayes.families.registry import registered
from decbayes.files import KEY, load, prior_from, save, to_bytes
from decbayes.structure import CoupledSet, Structure

sys.path[:0] = [str(Path(__file__).parents[1] / "tests"), str(Path(__file__).parents[1] / "tests" / "models")]
from codec_fuzz import CHARTER
from codec_fuzz import MEMBERS as KEYS
from codec_fuzz import fuzz as fuzz_messages
from damage import damaged
from groups import ballot_on, seated
from zoo import ZOO

from decbayes.network import Charter, Pool, Remove
from decbayes.network.runtime.store.offline import read_ballots, write_ballots

EXTREMES = (0.0, -1.0, 1e308, -1e308, 1e200, 1e100, 1e40, 1e18, 1e-308, 5e-324, -1e-9, np.nan, np.inf, 1e16)
# So many files of a model are changed one after the other.
RUN = 100
NAMES = ("\x1b[31mred", "a\nb", "", "x" * 5000, "\ud800", "../../etc", "=1+1")
SECONDS = 10


class Hung(BaseException):
    """A command that has not ended in time."""


def small_files(rng: np.random.Generator) -> Iterator[tuple[str, list[bytes]]]:
    """Three sites' files for each model."""
    for name, (model, size) in ZOO.items():
        fitted = model.fit(db.simulate(model, min(size, 40), rng=rng).data, rng=rng).posterior
        shards = [db.simulate(model, min(size, 40), rng=rng, posterior=fitted).data for _ in range(3)]
        yield name, [to_bytes(model.fit(shard, rng=rng).posterior) for shard in shards]


def header_of(content: bytes) -> dict[str, Any]:
    length = int.from_bytes(content[:8], "little")
    return json.loads(json.loads(content[8 : 8 + length])["__metadata__"][KEY])


def extreme_numbers(content: bytes, rng: np.random.Generator) -> bytes:
    """The same file with one to three other numbers; a prior is changed as well now and then."""
    arrays = {name: array.copy() for name, array in load_arrays(content).items()}
    for _ in range(int(rng.integers(1, 4))):
        names = sorted(name for name in arrays if name.startswith("contribution") or rng.random() < 0.2)
        name = names[int(rng.integers(len(names)))]
        flat = arrays[name].reshape(-1)
        if len(flat):
            place, extreme = int(rng.integers(len(flat))), EXTREMES[int(rng.integers(len(EXTREMES)))]
            with np.errstate(all="ignore"):
                value = flat[place] * 10.0 ** rng.integers(300) if rng.random() < 0.4 else extreme
                flat[place] = value if flat.dtype.kind == "f" else int(rng.integers(-5, 2**31 - 1))
            if rng.random() < 0.2:
                flat[:] = flat[place]
    return refitted(header_of(content), arrays)


def other_description(content: bytes, rng: np.random.Generator) -> bytes:
    """The same file with another description: a value anywhere in it is another one."""
    header, arrays = header_of(content), load_arrays(content)
    places = list(leaves(header))
    where, key = places[int(rng.integers(len(places)))]
    choices = [0, -1, 2**63, 2**40, 1e308, None, [], {}, True, *NAMES]
    where[key] = choices[int(rng.integers(len(choices)))]
    return refitted(header, arrays)


def leaves(value: object) -> Iterator[tuple[object, object]]:
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in pairs:
        yield value, key
        yield from leaves(part)


def refitted(header: dict[str, Any], arrays: dict[str, np.ndarray]) -> bytes:
    """The file with the fingerprint that its description asks for, where there is one."""
    with contextlib.suppress(Exception), warnings.catch_warnings(action="ignore"):
        described = header["structure"]
        structure = Structure(
            families={name: registered(family) for name, family in described["families"].items()},
            prior={name: prior_from(arrays, name, shape) for name, shape in described["shapes"].items()},
            symmetry=tuple(CoupledSet(tuple(factors)) for factors in described["symmetry"]),
            labels={name: tuple(words) for name, words in described["labels"].items()},
            sparse=frozenset(described["sparse"]),
            model=described["model"],
        )
        header = {**header, "fingerprint": structure.fingerprint}
    return bytes(save_arrays(arrays, metadata={KEY: json.dumps(header)}))


def random_damage(content: bytes, rng: np.random.Generator) -> bytes:
    return damaged([content], rng)


MUTATIONS: tuple[Callable[[bytes, np.random.Generator], bytes], ...] = (
    random_damage,
    extreme_numbers,
    extreme_numbers,
    other_description,
)


Reader = Callable[[Path], object]


def other_files(folder: Path, rng: np.random.Generator) -> list[tuple[str, bytes, Reader]]:
    """Files that are no bare posteriors, and what reads them."""
    mixture, topics = ZOO["diagonal"][0], ZOO["topics"][0]
    points = db.simulate(mixture, 40, rng=rng).data
    counts = db.simulate(topics, 12, rng=rng).data
    table = "\n".join(",".join(map(repr, row)) for row in points.tolist()).encode()
    packed, sparse = io.BytesIO(), io.BytesIO()
    np.savez_compressed(packed, data=points)
    save_npz(sparse, counts)
    posterior = mixture.fit(points, rng=rng).posterior
    manifest = Manifest(posterior.digest, "mixture", Rules(), "north", "2026-01-31", 40, 40, software="decbayes")
    save(posterior, folder / "released", note={MANIFEST: manifest.plain()})
    ledger, pool = Ledger(folder / "ledger"), Pool(CHARTER)
    for _ in range(3):
        ledger.append(Entry("2026-01-31", "a.posterior", "0" * 64, "north", "mixture", 40, "Kim"))
    pool.vote(ballot_on(Remove("agent 1"), seated(CHARTER, KEYS[:1]), CHARTER))
    write_ballots(folder / "ballots", pool)
    CHARTER.save(folder / "charter")
    return [
        ("table.csv", table, mixture.read),
        ("table.csv.gz", gzip.compress(table), mixture.read),
        ("table.npy", array_file(points), mixture.read),
        ("table.npz", packed.getvalue(), mixture.read),
        ("counts.npz", sparse.getvalue(), topics.read),
        ("released.posterior", (folder / "released").read_bytes(), partial(run, "show")),
        ("group.toml", (folder / "charter").read_bytes(), Charter.load),
        ("site.ledger", (folder / "ledger").read_bytes(), lambda path: Ledger(path).entries()),
        ("group.ballots", (folder / "ballots").read_bytes(), read_ballots),
    ]


def array_file(array: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


@cache
def parsed(*words: str) -> Callable[[], object]:
    """A command, ready to be called: its words are the same for many files, and parsing takes longer than reading."""
    load_command(*words)
    called, bound, *_ = app.parse_args(list(words), exit_on_error=False, print_error=False)
    return lambda: called(*bound.args, **bound.kwargs)


def run(*words: str | Path) -> object:
    return parsed(*map(str, words))()


def read_and_run(path: Path, words: list[str]) -> object:
    """All commands begin with reading the file: most are refused by that, and take no longer."""
    posterior = load(path)
    if words:
        return run(*words)
    return db.merge([posterior, *(load(path.with_name(f"{number}.posterior")) for number in (0, 1))])


def outcome(call: Callable[[], object]) -> str:
    """How a command ends: "fine", "refused", "hang", or the name of an exception with the line that raised it."""

    def too_long(*_: object) -> None:
        raise Hung

    # In seconds of processor time: other programs may keep this one waiting.
    signal.signal(signal.SIGPROF, too_long)
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    printed = io.StringIO()
    try:
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            finish(call, name="decbayes")
    except SystemExit as end:
        said = printed.getvalue() + str(end.code or "")
        if "\x1b" in said:
            return "escape sequence printed"
        return "refused" if isinstance(end.code, str) or end.code else "fine"
    except Hung:
        return "hang"
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        return f"{type(error).__name__} at {Path(last.filename).name}:{last.lineno}"
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    return "fine"


def commands(folder: Path, rng: np.random.Generator) -> list[str]:
    changed, sites = str(folder / "changed.posterior"), [str(folder / f"{number}.posterior") for number in (0, 1)]
    merged = str(folder / "merged.posterior")
    choices = [
        ["merge", *sites, changed, "--output", merged],
        ["merge", *sites, changed, "--output", merged, "--robust"],
        ["merge", *sites, changed, "--output", merged, "--explain"],
        ["show", changed],
        ["export", changed, "--output", str(folder / "out.csv"), "--rules", "none"],
    ]
    whole, kind = choices[int(rng.integers(3))], rng.random()
    return whole if kind < 0.1 else choices[3] if kind < 0.3 else choices[4] if kind < 0.5 else []


def memory() -> float:
    """The most megabytes used so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--files", type=int, default=4_000)
    parser.add_argument("--messages", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop after so long")
    parser.add_argument("--keep", type=Path, help="a folder for the files that fail")
    parser.add_argument("--quick", action="store_true", help="100 files and 1,000 messages")
    options = parser.parse_args()
    if options.quick:
        options.files, options.messages = 100, 1_000
    rng, started = np.random.default_rng(options.seed), time.perf_counter()
    zoo = list(small_files(np.random.default_rng(1)))
    kinds: Counter[str] = Counter()
    outcomes: Counter[str] = Counter()
    slowest, before = 0.0, 0.0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        others = other_files(folder, np.random.default_rng(1))
        for number in range(options.files):
            if time.perf_counter() - started > options.seconds:
                break
            model, contents = zoo[number // RUN % len(zoo)]
            if number % RUN == 0:
                for place, content in enumerate(contents):
                    (folder / f"{place}.posterior").write_bytes(content)
            if number % 4 == 3:
                kind, content, read = others[number // 4 % len(others)]
                target, changed = folder / kind, damaged([content], rng)
                call, said = partial(read, target), kind
            else:
                target, words = folder / "changed.posterior", commands(folder, rng)
                changed = MUTATIONS[int(rng.integers(len(MUTATIONS)))](contents[2], rng)
                call, said = partial(read_and_run, target, words), f"{model}: {' '.join(words) or 'db.merge'}"
                kind = "posterior"
            target.write_bytes(changed)
            kinds[kind] += 1
            begun = time.process_time()
            result = outcome(call)
            slowest = max(slowest, time.process_time() - begun)
            outcomes[result] += 1
            if result not in ("fine", "refused"):
                print(f"{said}: {result}", flush=True)
                if options.keep is not None:
                    options.keep.mkdir(exist_ok=True)
                    (options.keep / f"{number}-{target.name}").write_bytes(changed)
            if number == min(500, options.files // 4):
                before = memory()
    _, forgeries = fuzz_messages(options.messages, rng)
    for result, count in outcomes.most_common():
        print(f"{result:60s} {count:9,}")
    bad = sum(count for result, count in outcomes.items() if result not in ("fine", "refused"))
    summary = {
        "benchmark": "file_fuzz",
        "files": outcomes.total(),
        "kinds": dict(kinds),
        "messages": options.messages,
        "failures": bad,
        "forgeries": forgeries,
        "slowest_s": round(slowest, 1),
        "memory_growth_mb": round(memory() - before, 1),
        "seconds": round(time.perf_counter() - started, 1),
    }
    print(json.dumps(summary))


if __name__ == "__main__":
    main()
