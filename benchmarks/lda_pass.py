"""One pass of batch variational Bayes for LDA: decbayes against scikit-learn, the same work on one thread.

Both start from the same topics and the same document topics, with the same inner tolerance and cap, on the whole
20 Newsgroups matrix; that they did the same work is checked by comparing the resulting topics. Seconds are processor
time, so that other work on the machine does not count.

    python benchmarks/lda_pass.py [--quick]

The data folder is DECBAYES_DATA, or ../shared/data beside the checkout. The last line is one JSON object.
"""

import argparse
import json
import os
import threading
import time
from pathlib import Path

import joblib
import numpy as np
from _data import data_file
from scipy.sparse import csr_array
from sklearn.decomposition import LatentDirichletAllocation as PeerAllocation
from threadpoolctl import threadpool_limits

import decbayes as db
from decbayes.models.core.counts import as_counts
from decbayes.models.topics._passes import Statistics, Steps, Topics

TOPICS, DOCUMENT_PRIOR, TOLERANCE, STEPS, PASSES = 20, 0.1, 1e-3, 100, 3


def news_counts():
    """(counts, vocabulary, held-out documents) of 20 Newsgroups."""
    with np.load(data_file("20news", "20news_bow.npz"), allow_pickle=False) as file:
        parts = (file["data"].astype(np.int32), file["indices"], file["indptr"])
        return csr_array(parts, shape=file["shape"]), tuple(map(str, file["vocab"])), file["heldout"]


class TimedPeer(PeerAllocation):
    """scikit-learn's estimator, noting how long each E-step plus M-step takes."""

    def _em_step(self, *args, **kwargs):
        begin = time.process_time()
        result = super()._em_step(*args, **kwargs)
        self.seconds_ = [*getattr(self, "seconds_", []), time.process_time() - begin]
        return result


def peer_passes(counts, topic_prior):
    peer = TimedPeer(
        TOPICS,
        doc_topic_prior=DOCUMENT_PRIOR,
        topic_word_prior=topic_prior,
        learning_method="batch",
        max_iter=PASSES,
        mean_change_tol=TOLERANCE,
        max_doc_update_iter=STEPS,
        random_state=0,
    ).fit(counts.astype(np.float64))
    return peer.seconds_, peer.components_


def our_passes(counts, topic_prior):
    draws = np.random.RandomState(0)  # scikit-learn's generator, so that both start from the same numbers
    topics = np.ascontiguousarray(draws.gamma(100.0, 0.01, (TOPICS, counts.shape[1])).T)
    documents, seconds = as_counts(counts, counts.shape[1]), []
    steps = Steps(np.full(TOPICS, DOCUMENT_PRIOR), TOLERANCE, STEPS)
    for _ in range(PASSES):
        begin = time.process_time()
        gamma = draws.gamma(100.0, 0.01, (counts.shape[0], TOPICS))
        found = Statistics(Topics(topics[documents.words], topics.sum(axis=0)))
        with joblib.parallel_config("threading", n_jobs=1):
            found.add(documents, steps, gamma)
        topics = np.full_like(topics, topic_prior)
        topics[documents.words] += found.finish()
        seconds.append(time.process_time() - begin)
    return seconds, topics.T


def probabilities(topics):
    return topics / topics.sum(axis=1, keepdims=True)


class PeakMemory:
    """How far the process's resident memory rose within the block."""

    def __enter__(self):
        self.before = self.peak = self.resident()
        self.running = True
        self.watcher = threading.Thread(target=self.watch)
        self.watcher.start()
        return self

    def __exit__(self, *error):
        self.running = False
        self.watcher.join()
        self.rise = self.peak - self.before

    def watch(self):
        while self.running:
            self.peak = max(self.peak, self.resident())
            time.sleep(0.002)

    @staticmethod
    def resident():
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")


def memory_of_a_fit(counts, vocabulary, topic_prior):
    """Bytes that a fit needs beyond its input, and the input's own size."""
    model = db.LatentDirichletAllocation(
        topics=TOPICS, vocabulary=vocabulary, topic_prior=topic_prior, ascent=db.Ascent(passes=3, warm_up=2)
    )
    model.fit(counts[:50], rng=np.random.default_rng(0))
    with PeakMemory() as memory:
        model.fit(counts, rng=np.random.default_rng(0))
    return memory.rise, sum(part.nbytes for part in (counts.data, counts.indices, counts.indptr))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="every ninth document only")
    quick = parser.parse_args().quick
    counts, vocabulary, _ = news_counts()
    counts = counts[::9] if quick else counts
    topic_prior = 10 / counts.shape[1]
    our_passes(counts[:50], topic_prior)  # compiles
    rise, input_size = memory_of_a_fit(counts, vocabulary, topic_prior)
    with threadpool_limits(1):
        ours, our_topics = our_passes(counts, topic_prior)
        theirs, their_topics = peer_passes(counts, topic_prior)
    # As probabilities: scikit-learn's digamma is good to 1e-9 only, which a hundred inner steps can amplify.
    difference = float(np.max(np.abs(probabilities(our_topics) - probabilities(their_topics))))
    print(f"{counts.shape[0]:,} documents, {counts.nnz:,} non-zeros, K = {TOPICS}, tolerance {TOLERANCE}, cap {STEPS}")
    print(f"{'pass':>6} {'scikit-learn':>14} {'decbayes':>10} {'ratio':>7}")
    for number, (peer, own) in enumerate(zip(theirs, ours, strict=True), start=1):
        print(f"{number:>6} {peer:>12.2f} s {own:>8.3f} s {peer / own:>6.1f}×")
    ratio = sum(theirs) / sum(ours)
    allowed = 3 * input_size + 8 * TOPICS * counts.shape[1]
    print(f"{'all':>6} {sum(theirs):>12.2f} s {sum(ours):>8.3f} s {ratio:>6.1f}×")
    print(f"largest difference between the topics' word probabilities: {difference:.1e}")
    print(f"memory of a fit: {rise / 2**20:.1f} MiB; 3 × input + K × W: {allowed / 2**20:.1f} MiB")
    figures = {"scikit_learn_s": theirs, "decbayes_s": ours, "ratio": ratio, "difference": difference}
    print(json.dumps(figures | {"quick": quick, "memory_bytes": rise, "allowed_bytes": allowed}))


if __name__ == "__main__":
    main()
