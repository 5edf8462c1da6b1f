"""How many short texts per second and core get their topics: ours beside scikit-learn's and gensim's way.

    python benchmarks/transform.py --quick

Lines of 20 Newsgroups of 40 to 90 characters, from a file of JSON lines, get the shares of 20 topics. All three use the
same topics and the same words, handed over by `decbayes.interop`, and one thread. Times are those of the processor, not
of the clock, the best of nine rounds in turns, so that what else runs on the machine matters less. "command" is all of
`decbayes transform`, with the written CSV file. The others read JSON and count words as their own tutorials do it.
"""

import argparse
import contextlib
import gzip
import io
import json
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from _data import data_file
from gensim.utils import tokenize
from joblib import parallel_config
from sklearn.feature_extraction.text import CountVectorizer

import decbayes as db
from decbayes.cli import main as decbayes
from decbayes.interop import to_gensim, to_sklearn

BATCH = 2048


def newsgroups(most: int) -> list[str]:
    """Lines and sentences of messages, the length of a short text."""
    with gzip.open(data_file("20news", "20news_bydate.jsonl.gz"), "rt", encoding="utf-8") as file:
        texts = (json.loads(line)["text"] for line in file)
        parts = (part for text in texts for part in re.split(r"[.\n]", text) if 40 < len(part) < 90)
        return [part for part, _ in zip(parts, range(most), strict=False)]


def topics_of(texts: list[str], folder: Path, topics: int) -> db.Posterior:
    source = written(texts, folder / "train.jsonl")
    ascent = db.Ascent(passes=15, warm_up=5)
    model, counts = db.LatentDirichletAllocation.from_file(
        source, topics=topics, stop_words="english", most_share=0.1, ascent=ascent
    )
    return model.fit(counts, rng=np.random.default_rng(0)).posterior


def written(texts: list[str], path: Path) -> Path:
    path.write_text("\n".join(json.dumps({"text": text}) for text in texts), encoding="utf-8")
    return path


def batches(path: Path) -> Iterator[list[str]]:
    batch: list[str] = []
    with path.open(encoding="utf-8") as file:
        for line in file:
            batch.append(json.loads(line)["text"])
            if len(batch) == BATCH:
                yield batch
                batch = []
    if batch:
        yield batch


def ours(posterior: db.Posterior, path: Path) -> np.ndarray:
    return np.concatenate([block.values for block in db.models.transform(posterior, path)])


def command(posterior: db.Posterior, path: Path) -> None:
    target = path.with_suffix(".posterior")
    db.save(posterior, target)
    with contextlib.redirect_stderr(io.StringIO()), contextlib.suppress(SystemExit):
        decbayes(["transform", str(path), str(target), "-o", str(path.with_suffix(".csv"))])


def scikit_learn(posterior: db.Posterior) -> Callable[[Path], np.ndarray]:
    model = to_sklearn(posterior)
    words = CountVectorizer(vocabulary=list(posterior.structure.labels["topics"]))
    return lambda path: np.concatenate([model.transform(words.transform(batch)) for batch in batches(path)])


def gensim(posterior: db.Posterior) -> Callable[[Path], np.ndarray]:
    model = to_gensim(posterior)

    def run(path: Path) -> np.ndarray:
        found = []
        for batch in batches(path):
            bags = [model.id2word.doc2bow([*tokenize(text.lower())]) for text in batch]
            gamma, _ = model.inference(bags)
            found.append(gamma / gamma.sum(axis=1, keepdims=True))
        return np.concatenate(found)

    return run


def fastest(tasks: dict[str, Callable[[], Any]], rounds: int) -> dict[str, float]:
    """Processor seconds of each, the best of some rounds in turns."""
    best = dict.fromkeys(tasks, np.inf)
    for _ in range(rounds):
        for name, task in tasks.items():
            begun = time.process_time()
            task()
            best[name] = min(best[name], time.process_time() - begun)
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    quick = parser.parse_args().quick
    known = newsgroups(15_000 if quick else 60_000)
    texts = known[: len(known) // 3]
    with TemporaryDirectory() as name, parallel_config(backend="threading", n_jobs=1):
        folder = Path(name)
        posterior = topics_of(known, folder, 20)
        path = written(texts, folder / "short.jsonl")
        peers = {"scikit-learn": scikit_learn(posterior), "gensim": gensim(posterior)}
        shares = ours(posterior, path)  # and everything is compiled
        agree = {name: float(np.abs(peer(path) - shares).mean()) for name, peer in peers.items()}
        tasks: dict[str, Callable[[], Any]] = {
            "ours": lambda: ours(posterior, path),
            "command": lambda: command(posterior, path),
            **{name: (lambda peer=peer: peer(path)) for name, peer in peers.items()},
        }
        seconds = fastest(tasks, 1 if quick else 9)
    result = {
        "texts": len(texts),
        "words": len(posterior.structure.labels["topics"]),
        "texts per second and core": {name: round(len(texts) / each) for name, each in seconds.items()},
        "times as fast as": {name: round(seconds[name] / seconds["ours"], 1) for name in peers},
        "mean difference of a share": {name: round(each, 5) for name, each in agree.items()},
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
