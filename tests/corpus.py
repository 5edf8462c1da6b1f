"""A small corpus with clear topics, for the tests of topic models of all libraries."""

import numpy as np
from scipy.sparse import csr_array

TOPICS, WORDS = 3, 30
VOCABULARY = tuple(f"word{number:02}" for number in range(WORDS))


def counts(rng: np.random.Generator, documents: int = 120) -> csr_array:
    """Documents of about 40 words, most of them from one topic of ten words."""
    topics = np.kron(np.eye(TOPICS), np.full(WORDS // TOPICS, TOPICS / WORDS))
    shares = rng.dirichlet(np.full(TOPICS, 0.2), size=documents)
    return csr_array(np.array([rng.multinomial(40, share @ topics) for share in shares]))


def texts(matrix: csr_array) -> list[list[str]]:
    """The same documents as lists of words."""
    return [list(np.repeat(VOCABULARY, row)) for row in matrix.toarray()]
