"""Variational updates of latent Dirichlet allocation on a sparse count matrix; counts of its words.

Arrays over topics and words are word-major, (W, K), so that a word's K values are contiguous. For document d with
counts n_w, document topics q(θ) = Dirichlet(γ) and topics q(β_k) = Dirichlet(λ_k):

    φ_wk ∝ exp(E[log θ_k] + E[log β_kw]),     γ_k = α_k + Σ_w n_w φ_wk,     λ_kw = λ0_kw + Σ_d n_dw φ_dwk

φ is never stored. A word's exp E[log β] may be scaled by any constant without changing φ; each is scaled to a largest
value of 1, so a word that no topic has seen (ψ of a tiny prior underflows in exp) needs no special care.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types
from numba.extending import intrinsic
from numpy.typing import NDArray

from decbayes.kernels.compiled import compiled, compiled_exactly, inlined_reordered
from decbayes.kernels.sparse_rows import longest
from decbayes.kernels.special import bound_term, digamma, exp, exp_digamma, lgamma, log

Floats = NDArray[np.float64]
Integers = NDArray[np.int32]

LARGEST = np.iinfo(np.int32).max
TINY = 1e-280  # keeps n / Σ_k φ finite when every term underflows; such a word then counts for no topic


@intrinsic  # type: ignore[untyped-decorator]
def take_next(typing_context: Any, counter: Any) -> Any:
    """Fetch and increment the integer in an array of one; no two threads get the same number.

    Distributing work in Python would make threads wait for each other.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        return builder.atomic_rmw("add", array.data, context.get_constant(types.int64, 1), "monotonic")

    return types.int64(counter), generate


@compiled
def expect_topics(topics: Floats, totals: Floats, weights: Floats, scales: Floats) -> None:
    """Write exp(E[log β_kw] − s_w) into `weights` and s_w = max_k E[log β_kw] into `scales`."""
    words, components = topics.shape
    total_digamma = np.empty(components)
    for k in range(components):
        total_digamma[k] = digamma(totals[k])
    for w in range(words):
        scale = -np.inf
        for k in range(components):
            weights[w, k] = digamma(topics[w, k]) - total_digamma[k]
        for k in range(components):
            scale = max(scale, weights[w, k])
        for k in range(components):
            weights[w, k] = exp(weights[w, k] - scale)
        scales[w] = scale


@inlined_reordered
def _divergence(after: Floats, before: Floats) -> float:
    bound = 0.0
    for i in range(after.size):
        bound += bound_term(before[i], after[i], after[i] - before[i])
    return bound


@compiled
def divergence(after: Floats, before: Floats) -> float:
    """Σ lnΓ(after) − lnΓ(before) − (after − before) ψ(after): −KL of Dirichlets, except for the terms of their sums."""
    return _divergence(after, before)


@inlined_reordered
def _gather(counts: Integers, indices: Integers, weights: Floats, local_counts: Floats, local: Floats) -> None:
    """A document's counts and its words' weights, topic by topic, with zeros as padding."""
    size, components = counts.size, weights.shape[1]
    local[components:] = 0.0
    local_counts[size:] = 0.0
    for i in range(size):
        local_counts[i] = counts[i]
    for k in range(components):
        row = local[k]
        row[size:] = 0.0
        for i in range(size):
            row[i] = weights[indices[i], k]


@inlined_reordered
def _normalise(weights: Floats, proportions: Floats, norm: Floats) -> None:
    """norm_w = Σ_k weights_kw proportions_k, four topics at a time: `weights` has a multiple of four rows."""
    norm[:] = TINY
    for k in range(0, weights.shape[0], 4):
        first, second, third, fourth = weights[k], weights[k + 1], weights[k + 2], weights[k + 3]
        p, q, r, s = proportions[k], proportions[k + 1], proportions[k + 2], proportions[k + 3]
        for i in range(norm.size):
            norm[i] += p * first[i] + q * second[i] + r * third[i] + s * fourth[i]


@inlined_reordered
def _four_dots(ratio: Floats, weights: Floats, k: int, sums: Floats) -> None:
    first, second, third, fourth = weights[k], weights[k + 1], weights[k + 2], weights[k + 3]
    a, b, c, d = 0.0, 0.0, 0.0, 0.0
    for i in range(ratio.size):
        a += ratio[i] * first[i]
        b += ratio[i] * second[i]
        c += ratio[i] * third[i]
        d += ratio[i] * fourth[i]
    sums[k], sums[k + 1], sums[k + 2], sums[k + 3] = a, b, c, d


@inlined_reordered
def _update_document(
    counts: Floats, weights: Floats, prior: Floats, gamma: Floats, proportions: Floats, norm: Floats, sums: Floats
) -> float:
    """One coordinate step on φ and γ; returns the summed absolute change of γ."""
    _normalise(weights, proportions, norm)
    for i in range(norm.size):
        norm[i] = counts[i] / norm[i]
    for k in range(0, weights.shape[0], 4):
        _four_dots(norm, weights, k, sums)
    change = 0.0
    for k in range(gamma.size):
        updated = prior[k] + proportions[k] * sums[k]
        change += abs(updated - gamma[k])
        gamma[k] = updated
        proportions[k] = exp_digamma(updated)
    return change


@inlined_reordered
def _document_bound(counts: Floats, norm: Floats, prior: Floats, gamma: Floats) -> float:
    """A document's part of the bound, without the words' scales; terms in ψ(Σγ) cancel after at least one step."""
    bound = lgamma(prior.sum()) - lgamma(gamma.sum()) + _divergence(gamma, prior)
    for i in range(norm.size):
        bound += counts[i] * log(norm[i])
    return bound


@compiled
def update_documents(
    counts: Integers,
    indices: Integers,
    offsets: NDArray[np.int64],
    weights: Floats,
    scales: Floats,
    prior: Floats,
    before: Floats,
    gamma: Floats,
    proportions: Floats,
    ratios: Floats,
    bound: Floats,
    tolerance: float,
    most_steps: int,
    ends: NDArray[np.int64],
    counter: NDArray[np.int64],
) -> int:
    """Find γ of the documents offsets[d]:offsets[d + 1], starting from `before` or, if it has no rows, from 1.

    A document stops when the mean absolute change of its γ is below `tolerance`, or after `most_steps` (at least one).
    n_dw φ_dwk is then the entry's value in `ratios` times the document's row of `proportions` times weights_wk, and
    bound[d] is the document's part of the bound. A call takes parts of the documents, which end at `ends`, one after
    another until all are taken, possibly by other calls; it returns its number of steps.
    """
    components = gamma.shape[1]
    rows = (components + 3) // 4 * 4
    most = 8 * (longest(offsets[:-1], offsets[1:]) // 8 + 1)
    gathered, count_buffer, norm_buffer = np.empty(rows * most), np.empty(most), np.empty(most)
    shares, sums = np.zeros(rows), np.empty(rows)
    steps, part = 0, take_next(counter)
    while part < len(ends):
        for d in range(ends[part - 1] if part else 0, ends[part]):
            start, size = offsets[d], offsets[d + 1] - offsets[d]
            padded = (size + 7) // 8 * 8  # avoids the compiler's scalar remainder loops; padding words have count 0
            # One contiguous block per document, however long the longest is: distant rows would share cache sets.
            local = gathered[: rows * padded].reshape((rows, padded))
            n, norm = count_buffer[:padded], norm_buffer[:padded]
            words = indices[start : start + size]
            _gather(counts[start : start + size], words, weights, n, local)
            for k in range(components):
                gamma[d, k] = before[d, k] if len(before) else 1.0
                shares[k] = exp_digamma(gamma[d, k])
            for _ in range(most_steps):
                steps += 1
                change = _update_document(n, local, prior, gamma[d], shares, norm, sums)
                if change < tolerance * components:
                    break
            _normalise(local, shares, norm)
            bound[d] = _document_bound(n, norm, prior, gamma[d])
            for i in range(size):
                bound[d] += n[i] * scales[words[i]]
                ratios[start + i] = n[i] / norm[i]
            for k in range(components):
                proportions[d, k] = shares[k]
        part = take_next(counter)
    return steps


@compiled
def infer_documents(
    counts: Integers,
    indices: Integers,
    offsets: NDArray[np.int64],
    weights: Floats,
    prior: Floats,
    gamma: Floats,
    tolerance: float,
    most_steps: int,
) -> None:
    """Update γ as `update_documents` does and write γ / Σγ in its place, without results for topics or bound."""
    documents, components = gamma.shape
    rows = (components + 3) // 4 * 4
    most = 8 * (longest(offsets[:-1], offsets[1:]) // 8 + 1)
    gathered, count_buffer, norm_buffer = np.empty(rows * most), np.empty(most), np.empty(most)
    shares, sums, enough = np.zeros(rows), np.empty(rows), tolerance * components
    for d in range(documents):
        start, size = offsets[d], offsets[d + 1] - offsets[d]
        padded = (size + 7) // 8 * 8
        local = gathered[: rows * padded].reshape((rows, padded))
        n, norm = count_buffer[:padded], norm_buffer[:padded]
        _gather(counts[start : start + size], indices[start : start + size], weights, n, local)
        for k in range(components):
            shares[k] = exp_digamma(gamma[d, k])
        for _ in range(most_steps):
            change = _update_document(n, local, prior, gamma[d], shares, norm, sums)
            if change < enough:
                break
        total = gamma[d].sum()
        for k in range(components):
            gamma[d, k] /= total


@compiled
def sort_by_word(
    indices: Integers,
    offsets: NDArray[np.int64],
    starts: NDArray[np.int64],
    first: int,
    entries: Integers,
    documents: Integers,
) -> None:
    """Where each word from `first` on occurs: its `entries` and their `documents`, from starts[w] to starts[w + 1].

    Both are sorted. The length of `starts` gives the number of words.
    """
    words, places = len(starts) - 1, starts.copy()
    for document in range(len(offsets) - 1):
        for entry in range(offsets[document], offsets[document + 1]):
            word = indices[entry] - first
            if 0 <= word < words:
                entries[places[word]], documents[places[word]] = entry, document
                places[word] += 1


@compiled
def add_statistics(
    starts: NDArray[np.int64],
    entries: Integers,
    documents: Integers,
    ratios: Floats,
    proportions: Floats,
    statistics: Floats,
    ends: NDArray[np.int64],
    counter: NDArray[np.int64],
) -> None:
    """statistics_wk += Σ_d n_dw φ_dwk / weights_wk, over each word's documents in order.

    A word's sum does not depend on which other words or documents are in the same call; parts of the words are taken as
    in `update_documents`.
    """
    part = take_next(counter)
    while part < len(ends):
        for word in range(ends[part - 1] if part else 0, ends[part]):
            row = statistics[word]
            for place in range(starts[word], starts[word + 1]):
                ratio, shares = ratios[entries[place]], proportions[documents[place]]
                for k in range(len(row)):
                    row[k] += ratio * shares[k]
        part = take_next(counter)


@compiled
def keep_entries(statistics: Floats, least: float, indptr: NDArray[np.int64], indices: Integers, data: Floats) -> None:
    """The entries of (words, topics) statistics above `least`, as a CSR matrix of topics × words.

    A first call without room for entries computes `indptr`, a second one writes them.
    """
    words, topics = statistics.shape
    counting = len(data) == 0
    if counting:
        indptr[:] = 0
    places = indptr[:-1].copy()
    for word in range(words):
        for topic in range(topics):
            value = statistics[word, topic]
            if abs(value) > least:
                if not counting:
                    indices[places[topic]], data[places[topic]] = word, value
                places[topic] += 1
    if counting:
        for topic in range(topics):
            indptr[topic + 1] = indptr[topic] + places[topic]


@compiled_exactly
def add_words(
    data: NDArray[Any], columns: NDArray[Any], offsets: NDArray[Any], first: int, last: int, times: NDArray[np.int64]
) -> bool:
    """Add to `times` how often each word occurs in documents `first` to `last` − 1.

    False as soon as a document does not consist of positive counts of words in increasing order.
    """
    for document in range(first, last):
        start, stop, before = offsets[document], offsets[document + 1], -1
        if start < 0 or stop < start or stop > len(data):
            return False
        for entry in range(start, stop):
            word, count = columns[entry], data[entry]
            if word <= before or word >= len(times) or count < 1 or count > LARGEST:
                return False
            times[word] += count
            before = word
    return True
