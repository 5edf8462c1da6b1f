"""Is a learned document prior worth it? Fixed and learned priors, ours and gensim's, on 20 Newsgroups.

    python benchmarks/document_prior.py --topics 20 --seeds 3
    python benchmarks/document_prior.py --words  # the prior of the words in a topic: 0.1, 0.01 and learned

Scores are log-likelihoods per held-out word: a tenth of the words of the held-out documents, given the rest of each.
"bound" is the variational bound per word of the training documents. The last columns are scores of the same topics with
α scaled: mean-field inference is too sure of a document's topics, so that the α that explains the documents best is not
the one that predicts best. "5 sites" are fitted on their own and merged; each has its own α, and the merge that of all.
gensim fits with alpha="auto" or "symmetric"; its topics and its α are scored by our model.
"""

import argparse
import json
from dataclasses import replace
from typing import Any

import numpy as np
from _data import data_file
from scipy.sparse import csr_array

import decbayes as db
from decbayes.interop import from_gensim

SITES = 5
SCALES = (1.0, 2.0, 4.0)


def newsgroups() -> tuple[csr_array, csr_array, tuple[str, ...]]:
    stored = np.load(data_file("20news", "20news_bow.npz"), allow_pickle=False)
    parts = stored["data"].astype(np.int32), stored["indices"], stored["indptr"]
    counts = csr_array(parts, shape=tuple(stored["shape"]))
    return (
        counts[np.flatnonzero(~stored["heldout"])],
        counts[np.flatnonzero(stored["heldout"])],
        tuple(stored["vocab"]),
    )


def model(prior: Any, topics: int, words: tuple[str, ...]) -> db.LatentDirichletAllocation:
    ascent = db.Ascent(passes=40, tolerance=1e-3, warm_up=10)
    return db.LatentDirichletAllocation(topics, words, prior, 10 / len(words), ascent=ascent)


def scaled_scores(posterior: db.Posterior, test: Any, topics: int, words: tuple[str, ...]) -> list[float]:
    """Scores of the same topics with the posterior's α times each scale."""
    own = db.model_for(posterior.structure)
    alpha = own.document_prior_of(posterior)
    found = []
    for scale in SCALES:
        fixed = model(tuple(scale * alpha), topics, words)
        found.append(fixed.score(on_fixed(fixed, posterior), *test))
    return found


def on_fixed(fixed: db.LatentDirichletAllocation, posterior: db.Posterior) -> db.Posterior:
    return db.Posterior(fixed.structure, {"topics": posterior.contribution["topics"]})


def show(
    name: str, posterior: db.Posterior, test: Any, topics: int, words: Any, bound: float | None = None
) -> dict[str, float]:
    scores = scaled_scores(posterior, test, topics, words)
    total = db.model_for(posterior.structure).document_prior_of(posterior).sum()
    told = f"{bound:8.4f}" if bound is not None else " " * 8
    print(f"{name:28} {told}  {total:7.3f}  " + "  ".join(f"{score:8.4f}" for score in scores), flush=True)
    return {name: scores[0]}


def ours(
    prior: Any, training: csr_array, test: Any, topics: int, words: tuple[str, ...], seed: int
) -> dict[str, float]:
    own = model(prior, topics, words)
    fit = own.fit(training, rng=np.random.default_rng(seed))
    return show(f"document_prior={prior}", fit.posterior, test, topics, words, fit.bound[-1] / training.sum())


def word_priors(training: csr_array, test: Any, topics: int, words: tuple[str, ...], seed: int) -> dict[str, float]:
    """Scores with several priors of the words in a topic."""
    found = {}
    for prior in (0.1, 0.01, 0.001, "learn"):
        own = replace(model(0.1, topics, words), topic_prior=prior)
        fit = own.fit(training, rng=np.random.default_rng(seed))
        said = db.model_for(fit.posterior.structure).topic_prior
        name = f"topic_prior={prior}" + (f" ({said:g})" if prior == "learn" else "")
        found[name] = own.score(fit.posterior, *test)
        print(f"{name:28} {fit.bound[-1] / training.sum():8.4f}  {'':7}  {found[name]:8.4f}", flush=True)
    return found


def sites(
    prior: Any, training: csr_array, test: Any, topics: int, words: tuple[str, ...], seed: int
) -> dict[str, float]:
    rng = np.random.default_rng(seed)
    shards = [training[part] for part in np.array_split(rng.permutation(training.shape[0]), SITES)]
    fits = model(prior, topics, words).fit_many(shards, rng=rng)
    merged = db.merge([fit.posterior for fit in fits])
    return show(f"{SITES} sites, {prior}", merged, test, topics, words)


def gensims(
    alpha: str, training: csr_array, test: Any, topics: int, words: tuple[str, ...], seed: int
) -> dict[str, float]:
    from gensim.matutils import Sparse2Corpus
    from gensim.models import LdaModel

    fitted = LdaModel(
        Sparse2Corpus(training, documents_columns=False),
        num_topics=topics,
        id2word=dict(enumerate(words)),
        alpha=alpha,
        eta=10 / len(words),
        passes=5,
        random_state=seed,
    )
    return show(f"gensim alpha={alpha}", from_gensim(fitted), test, topics, words)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--topics", type=int, default=20)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--quick", action="store_true", help="five topics, without gensim")
    parser.add_argument("--only", choices=["ours", "gensim"], help="half of it")
    parser.add_argument("--words", action="store_true", help="the prior of the words in a topic instead")
    options = parser.parse_args()
    if options.quick:
        options.topics, options.only = 5, "ours"
    results: dict[str, Any] = {}
    training, heldout, words = newsgroups()
    test = db.checking.hold_out(heldout, rng=np.random.default_rng(0))
    for seed in range(1, options.seeds + 1):
        print(f"seed {seed}, {options.topics} topics")
        print(f"{'':28} {'bound':>8}  {'Σ α':>7}  " + "  ".join(f"{f'× {scale:g}':>8}" for scale in SCALES))
        rest, found = (training, test, options.topics, words, seed), {}
        results[f"seed {seed}"] = found
        if options.words:
            found |= word_priors(*rest)
            continue
        if options.only != "gensim":
            for prior in (0.1, 1 / options.topics, "learn"):
                found |= ours(prior, *rest)
            for prior in (0.1, "learn"):
                found |= sites(prior, *rest)
        if options.only != "ours":
            for alpha in ("symmetric", "auto"):
                found |= gensims(alpha, *rest)
    print(json.dumps({"benchmark": "document_prior", "settings": vars(options), **results}))


if __name__ == "__main__":
    main()
