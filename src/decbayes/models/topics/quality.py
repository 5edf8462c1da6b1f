"""The quality of topics for readers: coherence of top words, diversity, near-duplicates, telling words.

Coherence is the normalised pointwise mutual information of pairs of a topic's top words within documents,

    NPMI(v, w) = log(p(v, w) / p(v) p(w)) / −log p(v, w),        −1 never together, 0 independent, 1 always together.

It needs documents, and these stay at their sites. Counts for the top words alone add up across sites: how many
documents contain each word, and each pair of one topic. Sites hide small counts. A hidden count is between 0 and the
largest that may be hidden, which bounds NPMI; half of it is assumed. If the bounds are far apart, NPMI is not known.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, vstack
from scipy.special import rel_entr

from decbayes.base.arguments import check_kind, check_whole
from decbayes.errors import InvalidData, StructureMismatch
from decbayes.families import Array
from decbayes.families.dirichlets.relevance import leading
from decbayes.families.matrices import mirrored, upper
from decbayes.models.core.persons import EACH, Persons
from decbayes.posterior import Posterior

FACTOR = "topics"
# Added to probabilities of pairs, as in gensim: a pair that never occurs has −1, not −∞.
NEVER = 1e-12
# If the bounds on a topic's coherence are further apart than this, it is not known. In 20 Newsgroups at 5 to 20 sites,
# half of what may be hidden is right to 0.02 below this width, and to 0.1 at unlike sites; above, to 0.2 and more.
WIDEST, UNKNOWN = 0.5, "not known"
# The least count that files written before they said so show, unless a smaller one is among them.
USUAL_LEAST = 5
# Affinity Σ √(p q) from which two topics count as nearly the same.
NEARLY_THE_SAME = 0.9

# Number of words that name a topic.
NAMING = 3

FORMAT = "decbayes co-occurrence 1"


@dataclass(frozen=True, eq=False)
class CoOccurrence:
    """The number of documents that contain top words of each topic, alone and in pairs; those of several sites add up.

    `together[k, i, j]` counts documents with words i and j of topic k, and with word i where i = j. `hidden` is how
    many more there may be, since sites hide small counts.
    """

    words: tuple[tuple[str, ...], ...]
    documents: int
    together: NDArray[np.int64]
    hidden: Any = 0

    def __post_init__(self) -> None:
        counts = np.asarray(self.together)
        size = len(self.words[0]) if self.words else 0
        alone = np.einsum("kii->ki", counts) if counts.ndim == 3 else counts
        proper = (
            counts.shape == (len(self.words), size, size)
            and counts.dtype.kind == "i"
            and all(len(listed) == size for listed in self.words)
            and (counts >= 0).all()
            and (counts == counts.transpose(0, 2, 1)).all()
            and (counts <= np.minimum(alone[:, :, None], alone[:, None, :])).all()
            and (counts <= self.documents).all()
        )
        if not proper:
            raise InvalidData("Counts of words in documents contradict each other: they were damaged or made up.")
        object.__setattr__(self, "hidden", np.broadcast_to(self.hidden, counts.shape))

    def __add__(self, other: "CoOccurrence") -> "CoOccurrence":
        if self.words != other.words:
            raise StructureMismatch(
                "These counts are of different words: all sites must count for the same posterior and number of words."
            )
        documents, together = self.documents + other.documents, self.together + other.together
        return replace(self, documents=documents, together=together, hidden=self.hidden + other.hidden)

    def without_few(self, least: int) -> "CoOccurrence":
        """Replace counts below `least` by zero, so that nothing is said about fewer documents."""
        few, most = self.together < least, min(max(least - 1, 0), self.documents)
        return replace(self, together=np.where(few, 0, self.together), hidden=np.where(few, most, 0))

    def coherence(self) -> Array:
        """The mean NPMI of each topic's pairs of words; pairs with a word that no document has count 0.

        NaN if it is not known: no document has two of the words, or too many counts are hidden.
        """
        low, high = self.bounds()
        return np.where(high - low <= WIDEST, self._coherence(self.hidden / 2, self.hidden / 2), np.nan)

    def bounds(self) -> tuple[Array, Array]:
        """The least and the largest coherence of each topic, whatever the hidden counts are."""
        return self._coherence(0, self.hidden), self._coherence(self.hidden, 0)

    def _coherence(self, more_pairs: Any, more_alone: Any) -> Array:
        """The coherence if this many more documents have the pairs, and the single words."""
        if not self.documents:
            raise InvalidData("There are no documents, so there is nothing to say about coherence.")
        first, second = np.triu_indices(self.together.shape[1], k=1)
        most = np.einsum("kii->ki", np.minimum(self.together + self.hidden, self.documents))
        pairs = np.minimum((self.together + more_pairs)[:, first, second], np.minimum(most[:, first], most[:, second]))
        alone = np.minimum(np.einsum("kii->ki", self.together + more_alone), most)
        one, other = (np.maximum(alone[:, place], pairs) / self.documents for place in (first, second))
        shares, product = pairs / self.documents, one * other
        with np.errstate(divide="ignore", invalid="ignore"):
            values = np.log((shares + NEVER) / product) / -np.log(shares + NEVER)
        occurs = (most > 0).sum(axis=1) > 1
        return np.where(occurs, np.where(product > 0.0, values, 0.0).mean(axis=1), np.nan)

    def coherence_texts(self) -> list[str]:
        """The coherence of each topic, in words."""
        return [UNKNOWN if np.isnan(value) else f"{value:.3f}" for value in self.coherence()]

    def said(self, topics: NDArray[np.intp]) -> str:
        """The mean coherence of these topics, as far as it is known, in words."""
        values, low, high = (values[topics] for values in (self.coherence(), *self.bounds()))
        known, absent = np.isfinite(values), np.isnan(high)
        pairs = np.triu(self.hidden[topics] > 0, k=1).sum()
        mean = f"{values[known].mean():.3f}" if known.any() else UNKNOWN
        if pairs and known.any():
            mean += f" ({low[known].mean():.3f} to {high[known].mean():.3f}, whatever the hidden counts are)"
        said = [f"coherence (NPMI) {mean} on {self.documents:,} documents"]
        if absent.any():
            said.append(f"without {absent.sum()} of {len(topics)} topics, whose words do not occur")
        if pairs:
            every = len(topics) * len(np.triu_indices(self.together.shape[1], k=1)[0])
            said.append(f"sites hide counts of {pairs:,} of {every:,} pairs of words")
        if not (known | absent).all():
            many = f"too many for {(~known & ~absent).sum()} of {len(topics)} topics"
            said.append(f"{many}: count fewer words (--top)")
        return "; ".join(said)

    def plain(self) -> dict[str, Any]:
        """As JSON has it: each topic's words, and its counts on and above the diagonal, row by row."""
        counts, hidden = upper(self.together).tolist(), upper(self.hidden).tolist()
        words = [*map(list, self.words)]
        return {"format": FORMAT, "documents": self.documents, "words": words, "counts": counts, "hidden": hidden}

    @classmethod
    def of_plain(cls, stored: Any) -> "CoOccurrence":
        """Read the output of `plain`; refuse anything else."""
        try:
            words = tuple(tuple(map(str, listed)) for listed in stored["words"])
            size, documents = len(words[0]), stored["documents"]
            counts = np.array(stored["counts"])
            hidden = np.array(stored["hidden"]) if "hidden" in stored else usually_hidden(counts)
            if stored["format"] != FORMAT or type(documents) is not int or hidden.min(initial=0) < 0:
                raise ValueError
            if {counts.dtype.kind, hidden.dtype.kind} != {"i"} or hidden.max(initial=0) > documents:
                raise ValueError
            if {counts.shape, hidden.shape} != {(len(words), size * (size + 1) // 2)}:
                raise ValueError
            together, more = (mirrored(values.astype(np.int64), size) for values in (counts, hidden))
        except (KeyError, TypeError, ValueError, IndexError):
            raise InvalidData("This does not hold counts of words in documents, as `decbayes quality` does.") from None
        return cls(words, documents, together, more)


def usually_hidden(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """How many documents zeros may hide in a file that does not say so: its least count shows, or the usual one."""
    return np.where(counts > 0, 0, min(USUAL_LEAST, counts[counts > 0].min(initial=USUAL_LEAST)) - 1)


@dataclass(frozen=True)
class Quality:
    """The quality of topics by themselves; with documents, see `co_occurrence`.

    `top` is the number of words that represent a topic.

    >>> words = ["ball", "goal", "team", "vote", "party", "law"]
    >>> counts = np.array([[5, 4, 3, 0, 0, 0], [0, 0, 0, 4, 5, 3]] * 5)
    >>> posterior = db.LatentDirichletAllocation(2, words).fit(counts, rng=0).posterior
    >>> db.texts.Quality(posterior, top=3).diversity
    1.0
    """

    posterior: Posterior
    top: int = 10

    def __post_init__(self) -> None:
        check_kind(Posterior, posterior=self.posterior)
        check_whole(1, top=self.top)
        if FACTOR not in self.posterior.structure.labels:
            raise InvalidData("Only topics have words; this posterior has none.")

    @cached_property
    def learned(self) -> Array:
        """The number of words each topic has learned from."""
        return np.asarray(self.posterior.contribution[FACTOR].sum(axis=1)).ravel()

    @cached_property
    def used(self) -> NDArray[np.intp]:
        """Topics that have learned from at least one word."""
        return np.flatnonzero(self.learned >= 1.0)

    @cached_property
    def shares(self) -> Array:
        return np.asarray(self.posterior.mean(FACTOR))

    @cached_property
    def columns(self) -> NDArray[np.intp]:
        """(topics, top): the leading words of each topic."""
        return self.posterior.leading(FACTOR, self.top)

    @property
    def words(self) -> tuple[tuple[str, ...], ...]:
        return self._named(self.columns)

    @property
    def diversity(self) -> float:
        """The share of distinct words among the top words of all topics: 1 if no two topics share any."""
        listed = self.columns[self.used]
        return len(np.unique(listed)) / max(1, listed.size)

    def said(self) -> str:
        """The diversity of topics, in words."""
        return f"diversity {self.diversity:.2f}: the share of different words among the top {self.top} of all topics"

    @cached_property
    def affinity(self) -> Array:
        """(topics, topics): Σ_w √(p_w q_w), 1 for the same topic."""
        roots = np.sqrt(self.shares)
        return np.asarray(roots @ roots.T)

    @property
    def duplicates(self) -> tuple[tuple[int, int], ...]:
        """Pairs of topics that are nearly the same."""
        pairs = [(int(j), int(k)) for j in self.used for k in self.used if j < k]
        return tuple(pair for pair in pairs if self.affinity[pair] >= NEARLY_THE_SAME)

    @cached_property
    def telling(self) -> tuple[tuple[str, ...], ...]:
        """The words that tell each topic from all together: the largest terms of Σ_w p(w | k) log p(w | k) / p(w)."""
        learned = self.learned
        weights = learned / learned.sum() if learned.sum() > 0 else np.full(len(learned), 1.0 / len(learned))
        terms = rel_entr(self.shares, weights @ self.shares)
        return self._named(leading(terms, self.top))

    @property
    def names(self) -> tuple[str, ...]:
        """A name for each topic: as people have given it, or else its most telling words."""
        names = self.posterior.names or ("",) * len(self.telling)
        pairs = zip(names, self.telling, self.learned >= 1.0, strict=True)
        return tuple(name or (", ".join(words[:NAMING]) if used else "") for name, words, used in pairs)

    def co_occurrence(self, blocks: Iterable[csr_array], persons: Persons = EACH) -> CoOccurrence:
        """Count the top words in documents × words counts, given block by block.

        If `persons` have several documents, count persons who have a document with both words.
        """
        columns = np.unique(self.columns)
        total, documents = np.zeros((len(columns), len(columns)), dtype=np.int64), 0
        present = ((csr_array(counts)[:, columns] > 0).astype(np.int64) for counts in blocks)
        for pairs, count in counted_pairs(present, persons):
            total, documents = total + pairs, documents + count
        places = np.searchsorted(columns, self.columns)
        return CoOccurrence(self.words, documents, total[places[:, :, None], places[:, None, :]])

    def _named(self, columns: NDArray[np.intp]) -> tuple[tuple[str, ...], ...]:
        labels = self.posterior.structure.labels[FACTOR]
        return tuple(tuple(labels[column] for column in row) for row in columns.tolist())


def counted_pairs(blocks: Iterable[csr_array], persons: Persons) -> Iterator[tuple[NDArray[np.int64], int]]:
    """The number of documents, or of persons with a document, that contain pairs of words; and their total number."""
    if persons.numbers is None:
        for block in blocks:
            yield (block.T @ block).toarray(), block.shape[0]
        return
    documents = csr_array(vstack(list(blocks)))
    for rows in persons.checked(documents.shape[0]).rows(documents.shape[0]):
        block = documents[rows]
        yield ((block.T @ block).toarray() > 0).astype(np.int64), 1
