"""Doubts about a fit of texts: too short or repeated texts, topics of few documents or of words of all documents."""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from decbayes.families import Array, Dirichlet
from decbayes.models.core.counts import Counts
from decbayes.models.core.evaluation import hold_out
from decbayes.models.topics._fitting import document_topics, topics_at
from decbayes.models.topics._passes import Steps
from decbayes.models.topics._prediction import PREDICTION_STEPS, PREDICTION_TOLERANCE
from decbayes.models.topics.quality import Quality
from decbayes.posterior import Posterior
from decbayes.remarks import Remark

if TYPE_CHECKING:
    from decbayes.kernels.cuda.device import Device

# Documents to check for short texts, the share of their words to hold out, and the fewest held-out words to judge by.
LOOKED_AT, HELD, ENOUGH = 300, 0.3, 50
# Longer documents, in words on average, are not checked.
SHORT = 30
TINY = 1e-12
# Fewest documents per topic. With fewer than TIMES as many per topic, most fits have some topics of fewer documents:
# then only many such topics, or one document with a GIANT share of all words, are worth a remark.
LEAST, TIMES, GIANT = 5, 4, 0.25
FEW_DOCUMENTS = "few documents"
MOST_LISTED = 100
# Words that are in this share of all documents, with rates whose variance is less than this many squared means, are
# function words in any language, or tell as little. If AMONG of a topic's BEGINNING first words are such, nobody left
# them out; one topic in ONE_IN, or one site, is worth a remark. With fewer than PAIRS of the same word expected by
# chance, the variance is not known.
COMMON, VARIES, PAIRS = 0.25, 0.5, 30.0
BEGINNING, AMONG, ONE_IN = 3, 2, 5
FUNCTION_WORDS, EVEN_WORDS = "function words", "words that are spread evenly over documents, such as function words"
LEAVE_OUT_REPEATS = (
    "Leave copies out, unless each is a document of its own: their topics look too frequent and too certain, and rules "
    "on rare words and small topics count every copy."
)
# Documents with the same counts of at least this many words are copies; shorter ones may be alike by chance.
TELLING = 20


def doubts(model: Any, posterior: Posterior, counts: Counts, device: "Device | None") -> tuple[Remark, ...]:
    doubted = *short_texts(model, posterior, counts), *few_documents(model, posterior, counts, device)
    return (*doubted, *repeats(counts), *function_words(posterior, even_words(model.units(counts), counts)))


def repeats(counts: Counts) -> tuple[Remark, ...]:
    """A remark if documents repeat others: their words count too often, also by the rules on rare words.

    Each word has an arbitrary number: documents with the same sums of these, modulo 2⁶⁴, are equal.
    """
    numbers = np.random.default_rng(0).integers(2**63, size=len(counts.words), dtype=np.uint64)
    keys = list[NDArray[np.uint64]]()
    for part in map(counts.part, counts.blocks()):
        times = np.asarray(part.data, dtype=np.uint64)
        ends, lengths = (np.append(np.uint64(0), np.cumsum(of)) for of in (times * numbers[part.columns], times))
        sums, words = (np.diff(of[part.offsets]) for of in (ends, lengths))
        keys.append(sums[words >= TELLING])
    known = np.concatenate(keys) if keys else np.zeros(0)
    number = len(known) - len(np.unique(known))
    if number < LEAST:
        return ()
    what = f"At least {number:,} of {len(counts):,} documents have the same words as others."
    # A merge repeats the warnings of its sites, and no notes.
    many = ONE_IN * number >= len(counts)
    return (Remark("repeated documents", what, LEAVE_OUT_REPEATS, "", "warning" if many else "note"),)


def even_words(lengths: Array, counts: Counts) -> NDArray[np.int64]:
    """The numbers of common words whose rate hardly varies between documents.

    With n words in a document, x of them this one, at a rate with mean f and variance v: E x (x − 1) = n² (f² + v).
    Long documents count as one of the median length, so that none decides.
    """
    if not (counts.frequencies >= COMMON * len(counts)).any():
        return np.zeros(0, dtype=np.int64)
    scale = np.minimum(1.0, np.median(lengths[lengths > 0.0]) / np.maximum(lengths, 1.0))
    documents, times, pairs = np.zeros((3, len(counts.words)))
    for span in counts.blocks():
        part = counts.part(span)
        shorter = scale[span][part.rows()]
        parts = (documents, None), (times, part.data * shorter), (pairs, part.data * (part.data - 1.0) * shorter**2)
        for total, weights in parts:
            total += np.bincount(part.columns, weights, minlength=len(total))
    expected = (times / (lengths @ scale)) ** 2 * ((lengths * scale) ** 2).sum()
    even = (pairs < (1.0 + VARIES) * expected) & (expected >= PAIRS) & (documents >= COMMON * len(counts))
    return np.asarray(counts.words[even])


def function_words(posterior: Posterior, even: NDArray[np.int64]) -> tuple[Remark, ...]:
    """A remark if topics begin with words that tell little about documents, such as "the" and "of"."""
    if len(even) < AMONG:
        return ()  # ranking all words takes as long as a pass
    quality = Quality(posterior, BEGINNING)
    topics = quality.columns[quality.used]
    number = int((np.isin(topics, even).sum(axis=1) >= AMONG).sum())
    if not number or ONE_IN * number < len(topics) or len(topics) < 2:
        return ()
    what = f"{number} of {len(topics)} topics {'begins' if number == 1 else 'begin'} with {EVEN_WORDS}."
    return (Remark(FUNCTION_WORDS, what, LEAVE_OUT, "", "note"),)


LEAVE_OUT = (
    "Make the list of words with --stop-words (a language, or a file with one word per line) or a smaller "
    "--most-share, also where lists are joined, and fit again."
)


def few_documents(model: Any, posterior: Posterior, counts: Counts, device: "Device | None") -> tuple[Remark, ...]:
    """A remark on topics that have half of their words from fewer than five documents: often one odd document.

    Many short documents may still be about the topic, so this is no reason to drop it. The remark leaves the site: it
    names no words, and no number of documents below five.
    """
    learned = np.asarray(posterior.contribution["topics"].sum(axis=1)).ravel()
    lengths, used = model.units(counts), int((learned >= 1.0).sum())
    if used and np.count_nonzero(lengths) < len(learned):
        return (MORE_TOPICS,)
    suspect = (learned >= 1.0) & (LEAST * lengths.max(initial=0.0) >= learned)
    if not suspect.any():
        return ()
    words = words_of_longest(model, posterior, counts, learned[suspect].min() / LEAST**2, device)
    few = np.flatnonzero(suspect & of_few(words, learned))
    share = float(lengths.max() / lengths.sum())
    enough = len(counts) >= TIMES * LEAST * len(learned)
    giant = share if (2 * words[np.argmax(words.sum(axis=1)), few] >= learned[few]).any() and share >= GIANT else 0.0
    scarce = len(counts) < LEAST * used and 2 * len(few) > used
    if giant and not scarce:
        return (few_documents_remark(few.tolist(), giant),)
    if enough:
        return (few_documents_remark(few.tolist()),) if len(few) else ()
    return (many_of_few(len(few), used, giant),) if ONE_IN * len(few) >= used else ()


def words_of_longest(model: Any, posterior: Posterior, counts: Counts, least: float, device: "Device | None") -> Array:
    """Documents × topics: how many words of each topic the documents with at least this many words have."""
    documents = counts.documents(np.flatnonzero(model.units(counts) >= least))
    alpha = model.document_prior_of(posterior)
    steps = Steps(alpha, PREDICTION_TOLERANCE, PREDICTION_STEPS)
    gamma, _ = document_topics(documents, topics_at(posterior, documents), steps, device)
    return np.asarray(np.maximum(gamma - alpha, 0.0))


def of_few(words: Array, learned: Array) -> NDArray[np.bool_]:
    """Whether fewer than five documents have half of each topic's words, and these are less even than in five.

    (Σ n)² / Σ n² is the number of documents if these have equal numbers n of a topic's words. Only long documents can
    make it small.
    """
    longest = np.sort(words, axis=0)[1 - LEAST :]
    return np.asarray((2 * longest.sum(axis=0) >= learned) & (learned**2 < LEAST * (words**2).sum(axis=0)))


def few_documents_remark(topics: list[int], giant: float = 0.0) -> Remark:
    """Topics of few documents by number; and the share of all words that one document has, if it is large."""
    named = ", ".join(map(str, topics[:MOST_LISTED]))
    more = f" and {len(topics) - MOST_LISTED} more" if topics[MOST_LISTED:] else ""
    return Remark(
        FEW_DOCUMENTS,
        f"Topics {named}{more} each have half of their words from fewer than {LEAST} documents." if topics[1:] else
        f"Topic {named} has half of its words from fewer than {LEAST} documents.",
        "Leave it out if it is odd, or divide it into parts." if giant else
        "Look at the longest documents there. Leave one out if it is odd, such as a list or another language.",
        of_giant(giant),
        "note",
    )  # fmt: skip


def many_of_few(number: int, used: int, giant: float = 0.0) -> Remark:
    """Not by number: merges put such topics of several sites together, which predict better than fewer."""
    have = "has half of its words" if number == 1 else "each have half of their words"
    what = f"{number} of {used} topics {have} from fewer than {LEAST} documents."
    return Remark(FEW_DOCUMENTS, what, OF_FEW, of_giant(giant), "note")


def of_giant(share: float) -> str:
    return f"One document has {share:.0%} of all words." if share else ""


OF_FEW = (
    "Merged with those of other sites they rest on more, so keep them for a merge. To read them alone, fit fewer "
    "topics, or leave out long documents that are odd."
)


MORE_TOPICS = Remark("more topics", "There are more topics than documents.", "Fit fewer topics.")


def topics_of_few(remarks: Sequence[Remark]) -> list[int]:
    """The topics that a site's remarks name; those of a merge have their names in brackets, too."""
    texts = [re.sub(r" \([^()]*\)", "", remark.what) for remark in remarks if remark.kind == FEW_DOCUMENTS]
    named = [re.match(r"Topics? ([\d,; ]+)", text) for text in texts]
    return [int(number) for found in named if found for number in re.findall(r"\d+", found[1])]


def matrix_of(model: Any, counts: Counts, span: slice) -> csr_array:
    """Some documents × all words of the vocabulary."""
    part = counts.part(span)
    entries = (np.asarray(part.data, dtype=np.int64), (part.rows(), counts.words[part.columns]))
    matrix = csr_array(entries, shape=(len(part), len(model.vocabulary)))
    matrix.sort_indices()
    return matrix


def short_texts(model: Any, posterior: Posterior, counts: Counts) -> tuple[Remark, ...]:
    """A remark if held-out words of the first documents are predicted worse than by frequencies alone.

    A document's own contribution to topics and frequencies is removed before its words are predicted.
    """
    if not len(counts) or counts.tokens > SHORT * len(counts):
        return ()
    documents = matrix_of(model, counts, slice(0, min(LOOKED_AT, len(counts))))
    observed, held_out = hold_out(documents, share=HELD, rng=np.random.default_rng(0))
    if held_out.sum() < ENOUGH:
        return ()
    topics, plain = scores(model, posterior, documents, csr_array(observed), csr_array(held_out))
    if topics >= plain:
        return ()
    length = documents.sum() / max(documents.shape[0], 1)
    return (
        Remark(
            "short texts",
            "These topics predict words worse than plain word frequencies do.",
            "Fit fewer topics, or join short texts of one author or day into one document.",
            f"{topics:.2f} nats per word instead of {plain:.2f}; documents have {length:.0f} words on average.",
        ),
    )


def scores(
    model: Any, posterior: Posterior, documents: csr_array, observed: csr_array, held: csr_array
) -> tuple[float, float]:
    """Log probability per held-out word, by topics and by frequencies."""
    (alpha,) = Dirichlet().columns(posterior.natural["topics"])
    shares, whole = model.assign(posterior, observed), model.assign(posterior, documents)
    frequency = alpha.sum(axis=0)
    by_topics = by_frequency = 0.0
    totals = alpha.sum(axis=1)
    for row in range(documents.shape[0]):
        span = slice(documents.indptr[row], documents.indptr[row + 1])
        words, count = documents.indices[span], documents.data[span].astype(float)
        joint = whole[row][:, None] * alpha[:, words] / totals[:, None]
        added = count * joint / joint.sum(axis=0)
        rest = np.maximum(alpha[:, words] - added, TINY) / (totals - added.sum(axis=1))[:, None]
        plain = np.maximum(frequency[words] - count, TINY) / (frequency.sum() - count.sum())
        target = slice(held.indptr[row], held.indptr[row + 1])
        places, times = np.searchsorted(words, held.indices[target]), held.data[target]
        by_topics += float(times @ np.log((shares[row] @ rest)[places]))
        by_frequency += float(times @ np.log(plain[places]))
    return by_topics / float(held.sum()), by_frequency / float(held.sum())
