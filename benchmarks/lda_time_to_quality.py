"""How long LDA takes to reach a held-out score: decbayes, scikit-learn (batch, online), gensim, tomotopy; one thread.

20 Newsgroups, K = 20, document prior 0.1, topic prior 10 / W for all. The score is the log-likelihood per word of a
tenth of each held-out document's tokens given the rest; every library's topics are scored by the same code, and scoring
is not timed. Documents come in random order, which online methods need. For each library: its best score, and how
long it and decbayes took to come within 0.005 of that score, which is less than what another seed changes.
Seconds are processor time of a single-threaded process, so that other work on the machine does not count.

    python benchmarks/lda_time_to_quality.py [--quick]

The data folder is DECBAYES_DATA, or ../shared/data beside the checkout. The last line is one JSON object.
"""

import argparse
import json
import time
from dataclasses import dataclass, replace

import gensim
import numpy as np
import tomotopy
from lda_pass import news_counts
from scipy.sparse import csr_array
from sklearn.decomposition import LatentDirichletAllocation as PeerAllocation
from threadpoolctl import threadpool_limits

import decbayes as db

TOPICS, DOCUMENT_PRIOR, NEAR, SEEDS = 20, 0.1, 0.005, 5


@dataclass(frozen=True)
class Task:
    """The documents to learn from, how to score topics, and how long each library may go on."""

    model: db.LatentDirichletAllocation
    train: csr_array
    observed: csr_array
    held: csr_array
    quick: bool

    @property
    def topic_prior(self):
        return self.model.topic_prior

    def score(self, alpha):
        """The held-out score of Dirichlet topics, whoever found them."""
        contribution = np.maximum(np.asarray(alpha, dtype=np.float64) - self.topic_prior, 0.0)
        posterior = db.Posterior(self.model.structure, {"topics": contribution})
        return self.model.score(posterior, self.observed, self.held)


class Watch:
    """Seconds of work, stopped while topics are scored; the curve is (seconds, score)."""

    def __init__(self, task):
        self.task, self.curve, self.worked = task, [], 0.0
        self.begin = time.process_time()

    def note(self, alpha):
        self.worked += time.process_time() - self.begin
        self.curve.append((round(self.worked, 3), round(self.task.score(alpha), 4)))
        self.begin = time.process_time()


def decbayes_curve(task):
    """The default fit, cut off after so many passes, then run to its end, then the best bound of several starts."""
    cuts = [{"passes": passes} for passes in (1, 2, 3, 4, 5, 6, 8, 10, 12, 15)]
    curve = []
    for settings in (*cuts, {}, {"restarts": 2}, {"restarts": 5}):
        model = replace(task.model, ascent=replace(task.model.ascent, **settings))
        begin = time.process_time()
        posterior = model.fit(task.train, rng=np.random.default_rng(0)).posterior
        seconds = time.process_time() - begin
        curve.append((round(seconds, 3), round(task.model.score(posterior, task.observed, task.held), 4)))
    return curve


def decbayes_spread(task):
    """The final scores of fits with other seeds."""
    fits = [task.model.fit(task.train, rng=np.random.default_rng(seed)) for seed in range(SEEDS)]
    return [round(task.model.score(fit.posterior, task.observed, task.held), 4) for fit in fits]


def scikit_learn_curve(task, method, passes):
    class Noted(PeerAllocation):
        steps = 0

        def _em_step(self, X, total_samples, batch_update, parallel=None):
            super()._em_step(X, total_samples, batch_update, parallel)
            self.steps += 1
            per_pass = 1 if batch_update else -(-total_samples // self.batch_size)
            if self.steps % per_pass == 0:
                watch.note(self.components_)

    matrix = task.train.astype(np.float64)
    peer = Noted(
        TOPICS,
        doc_topic_prior=DOCUMENT_PRIOR,
        topic_word_prior=task.topic_prior,
        learning_method=method,
        max_iter=passes,
        total_samples=task.train.shape[0],
        random_state=0,
    )
    watch = Watch(task)
    peer.fit(matrix)
    return watch.curve


def gensim_curve(task, passes):
    corpus = gensim.matutils.Sparse2Corpus(task.train, documents_columns=False)
    corpus = [list(document) for document in corpus]
    watch = Watch(task)
    peer = gensim.models.LdaModel(
        num_topics=TOPICS,
        id2word={word: str(word) for word in range(task.train.shape[1])},
        alpha=[DOCUMENT_PRIOR] * TOPICS,
        eta=task.topic_prior,
        random_state=0,
        eval_every=None,
    )
    for _ in range(passes):
        peer.update(corpus, passes=1)
        watch.note(peer.state.get_lambda())
    return watch.curve


def tomotopy_curve(task, sweeps):
    peer = tomotopy.LDAModel(k=TOPICS, alpha=DOCUMENT_PRIOR, eta=task.topic_prior, seed=1)
    for first, last in zip(task.train.indptr, task.train.indptr[1:], strict=False):
        words = np.repeat(task.train.indices[first:last], task.train.data[first:last])
        if len(words):
            peer.add_doc(list(map(str, words)))
    watch = Watch(task)
    for _ in range(0, sweeps, 50):
        peer.train(50, workers=1)
        watch.note(tomotopy_topics(peer, task))
    return watch.curve


def tomotopy_topics(peer, task):
    alpha = np.full((TOPICS, task.train.shape[1]), task.topic_prior)
    words = np.array(list(map(int, peer.used_vocabs)))
    tokens = peer.get_count_by_topics()
    for topic in range(TOPICS):
        alpha[topic, words] = peer.get_topic_word_dist(topic) * (tokens[topic] + len(words) * task.topic_prior)
    return alpha


def seconds_to(curve, score):
    """When the curve first reaches the score, or None."""
    return next((seconds for seconds, reached in curve if reached >= score), None)


def make_task(quick):
    counts, vocabulary, held_out = news_counts()
    model = db.LatentDirichletAllocation(
        topics=TOPICS, vocabulary=vocabulary, document_prior=DOCUMENT_PRIOR, topic_prior=10 / len(vocabulary)
    )
    train, test = counts[~held_out], counts[held_out]
    observed, held = db.checking.hold_out(test, rng=np.random.default_rng(1))
    order = np.random.default_rng(2).permutation(train.shape[0])
    return Task(model, train[order[:2000] if quick else order], observed, held, quick)


def measure(task):
    quick = task.quick
    task.model.fit(task.train[:50], rng=np.random.default_rng(0))  # compiles
    curves = {"decbayes": decbayes_curve(task)}
    curves["scikit-learn batch"] = scikit_learn_curve(task, "batch", 8 if quick else 20)
    curves["scikit-learn online"] = scikit_learn_curve(task, "online", 5 if quick else 10)
    curves["gensim LdaModel"] = gensim_curve(task, 4 if quick else 10)
    curves["tomotopy LDAModel"] = tomotopy_curve(task, 200 if quick else 600)
    return curves


def report(curves):
    ours = curves["decbayes"]
    print(f"{'library':<20} {'best score':>11} {'its time':>10} {'decbayes':>12} {'ratio':>8}")
    for library, curve in curves.items():
        best = max(score for _, score in curve)
        theirs, own = seconds_to(curve, best - NEAR), seconds_to(ours, best - NEAR)
        reached = f"{own:>10.2f} s {theirs / own:>7.1f}×" if own else f"{'not reached':>12} {'':>8}"
        print(f"{library:<20} {best:>11.4f} {theirs:>8.2f} s {reached}")
    print("\ncurves: seconds score")
    for library, curve in curves.items():
        print(f"{library:<20} " + "  ".join(f"{seconds:.1f} {score:.3f}" for seconds, score in curve))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="2,000 documents and shorter runs: under a minute")
    quick = parser.parse_args().quick
    with threadpool_limits(1):
        task = make_task(quick)
        curves, spread = measure(task), decbayes_spread(task)
    report(curves)
    print(f"\ndecbayes, final score of {SEEDS} seeds: {spread}")
    print(json.dumps({"quick": quick, "curves": curves, "decbayes_seeds": spread}))


if __name__ == "__main__":
    main()
