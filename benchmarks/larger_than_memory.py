"""How much memory a fit of a large file takes, and that its result is that of the same data in memory.

    python benchmarks/larger_than_memory.py [--quick]

Topics of a sparse matrix (.npz, .mtx) and of texts (.jsonl, .parquet), and a mixture of a table (.npy as a memory map,
.parquet). Every fit has a process of its own; what it adds to the process is the peak of its memory less what it was
after a small fit of the same kind. The last line is one JSON object.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from growth import corpus
from scipy.io import mmwrite
from scipy.sparse import save_npz

WORDS, TOPICS, COLUMNS = 5_000, 10, 16

MEASURE = """
import json, sys
from pathlib import Path
import numpy as np
from scipy.sparse import load_npz
import decbayes as db

def peak():
    # The process's own; that of `resource` begins with the parent's.
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) / 1024

path, small, how, *sizes = sys.argv[1:]
words, topics, columns = map(int, sizes)
short = db.Ascent(passes=2, restarts=0, warm_up=1)
models = {
    "points": db.GaussianMixture(5, columns, covariance="diagonal", ascent=short),
    "counts": db.LatentDirichletAllocation(topics, tuple(f"w{number}" for number in range(words)), ascent=short),
}
models["texts"] = models["counts"]

def data_of(path):
    if how == "whole":
        return np.load(path) if path.suffix == ".npy" else load_npz(path)
    return np.load(path, mmap_mode="r") if path.suffix == ".npy" else path

def fitted(path):
    return models[path.stem].fit(data_of(path), rng=np.random.default_rng(0)).posterior

fitted(Path(small))
before = peak()
found = fitted(Path(path))
print(json.dumps({"added": peak() - before, "digest": str(found.digest)}))
"""


def written(folder, documents):
    """Files of so many documents, and of as many numbers."""
    counts = corpus(documents, WORDS)
    save_npz(folder / "counts.npz", counts, compressed=False)
    mmwrite(folder / "counts.mtx", counts, field="integer")
    texts = [" ".join(f"w{w}" for w in np.repeat(row.indices, row.data)) for row in counts]
    with (folder / "texts.jsonl").open("w") as file:
        file.writelines(json.dumps({"text": text}) + "\n" for text in texts)
    points = np.random.default_rng(0).normal(size=(4 * documents, COLUMNS))
    np.save(folder / "points.npy", points)
    pq.write_table(pa.table({"text": texts}), folder / "texts.parquet", row_group_size=5_000, compression="none")
    table = pa.table({f"x{column}": points[:, column] for column in range(COLUMNS)})
    pq.write_table(table, folder / "points.parquet", row_group_size=20_000, compression="none")


def measured(path, small, how="parts"):
    command = [sys.executable, "-c", MEASURE, str(path), str(small), how, *map(str, (WORDS, TOPICS, COLUMNS))]
    return json.loads(subprocess.run(command, capture_output=True, check=True).stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="files of some MiB, which are read at once")
    documents = 5_000 if parser.parse_args().quick else 250_000
    results, digests = {}, {}
    with TemporaryDirectory() as name:
        large, small = Path(name, "large"), Path(name, "small")
        for folder, count in ((large, documents), (small, 500)):
            folder.mkdir()
            written(folder, count)
        for path in sorted(large.iterdir()):
            found, size = measured(path, small / path.name), path.stat().st_size / 2**20
            digests.setdefault(path.stem, set()).add(found["digest"])
            results[path.name] = {"file": size, "added": found["added"]}
            print(f"{path.name:16} {size:6.0f} MiB, adds {found['added']:6.0f} MiB", flush=True)
        for held in ("points.npy", "counts.npz"):
            found = measured(large / held, small / held, "whole")
            digests[Path(held).stem].add(found["digest"])
            print(f"{held:16} in memory, adds {found['added']:6.0f} MiB", flush=True)
    same = {stem: len(found) == 1 for stem, found in digests.items()}
    print(f"the same bits from all files of the same data, and in memory: {same}")
    print(json.dumps({"benchmark": "larger_than_memory", "results": results, "same_bits": same}))


if __name__ == "__main__":
    main()
