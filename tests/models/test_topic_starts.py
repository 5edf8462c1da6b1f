"""Where fits of topics start."""

import numpy as np
from scipy.sparse import csr_array

from decbayes.models.core.counts import as_counts
from decbayes.models.topics._fitting import DISTINCTION, random_first


def test_a_random_start_draws_one_dirichlet_per_chosen_document(rng):
    """To the last bit, and leaving the generator where these draws would leave it."""
    table = csr_array(rng.poisson(0.4, size=(30, 50)))
    counts = as_counts(table, 50)
    one, other = np.random.default_rng(5), np.random.default_rng(5)
    first = random_first(counts, 6, one)
    written = first.written_out() - first.array
    rows = table.toarray()[:, counts.words]
    for topic, document in enumerate(other.choice(np.flatnonzero(rows.sum(axis=1)), 6, replace=False)):
        words = np.flatnonzero(rows[document])
        drawn = np.zeros(len(counts.words))
        drawn[words] = other.dirichlet(10.0 * rows[document, words])
        share = DISTINCTION * table.sum() / 6
        np.testing.assert_allclose(written[:, topic], share * drawn, atol=1e-12 * share)
        np.testing.assert_array_equal(first.added[2][first.added[1] == topic], share * drawn[words])
    assert one.random() == other.random()
