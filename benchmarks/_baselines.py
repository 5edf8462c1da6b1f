"""Other ways to make one set of topics of many sites' topics, from the same posteriors."""

import numpy as np
from scipy.cluster.hierarchy import fcluster, ward
from scipy.optimize import linear_sum_assignment
from scipy.sparse import csr_array, vstack

import decbayes as db

SIMILAR = 0.7
# SPAHM: sweeps over the sites, and how likely something new is.
SWEEPS, NEW = 3, 1.0


def grouped(posteriors, labels):
    """The posterior in which topics with the same label are one."""
    counts = vstack([csr_array(posterior.contribution["topics"]) for posterior in posteriors])
    number = int(labels.max()) + 1
    sums = csr_array((np.ones(len(labels)), (labels, np.arange(len(labels)))), shape=(number, len(labels))) @ counts
    return db.Posterior(posteriors[0].structure.with_components(number), {"topics": sums})


def probabilities(posteriors):
    return np.vstack([posterior.mean("topics") for posterior in posteriors])


def by_ward(posteriors, topics):
    return grouped(posteriors, fcluster(ward(probabilities(posteriors)), topics, "maxclust") - 1)


def by_cosine(posteriors):
    """A topic joins the first one it is similar to, or begins a new one: larger sites' topics come first."""
    shares = probabilities(posteriors)
    unit = shares / np.linalg.norm(shares, axis=1, keepdims=True)
    first, labels = [], np.empty(len(unit), dtype=int)
    for topic, row in enumerate(unit):
        similar = unit[first] @ row if first else np.zeros(0)
        if not len(similar) or similar.max() < SIMILAR:
            first.append(topic)
            labels[topic] = len(first) - 1
        else:
            labels[topic] = int(similar.argmax())
    return grouped(posteriors, labels)


def by_ensemble(posteriors):
    """gensim's clusters of topics: those it calls stable are topics, what it calls noise is left out."""
    from gensim.models.ensemblelda import CBDBSCAN, _calculate_asymmetric_distance_matrix_chunk, mass_masking

    shares = probabilities(posteriors)
    distances = _calculate_asymmetric_distance_matrix_chunk(shares, shares, 0, mass_masking, 0.95)
    clusters = CBDBSCAN(eps=0.1, min_samples=max(2, len(posteriors) // 2))
    clusters.fit(distances)
    labels = np.array([result.label if result.label is not None else -1 for result in clusters.results])
    if not (labels >= 0).any():
        return None
    names = {label: number for number, label in enumerate(sorted(set(labels[labels >= 0])))}
    merged = grouped(posteriors, np.array([names.get(label, len(names)) for label in labels]))
    return db.Posterior(
        merged.structure.with_components(len(names)), {"topics": csr_array(merged.contribution["topics"])[: len(names)]}
    )


def by_spahm(posteriors, noise):
    """Yurochkin et al. 2019: topics as points with Gaussian noise about global ones, as many as a Beta process takes.

    Each site's are matched to the others' by the Hungarian method, one to one, with room for new ones.

    Points are square roots of probabilities. `noise` is the variance at a site by that of global topics.
    """
    points = [np.sqrt(posterior.mean("topics")) for posterior in posteriors]
    spread = float(np.mean([(own**2).sum(axis=1).mean() for own in points])) / points[0].shape[1]
    weight = 1.0 / (noise * spread)
    held, labels = Matched(spread, weight, len(points)), [None] * len(points)
    for _ in range(SWEEPS):
        for site, own in enumerate(points):
            if labels[site] is not None:
                held.add(labels[site], -weight * own, -1)
            labels[site] = held.best(weight * own)
            held.add(labels[site], weight * own, 1)
    return grouped(posteriors, np.unique(np.concatenate(labels), return_inverse=True)[1])


class Matched:
    """Σ v/σ² and how many sites have each global topic; those that none has any more are skipped."""

    def __init__(self, spread, weight, sites):
        self.prior, self.weight, self.sites = 1.0 / spread, weight, sites
        self.sums, self.members = np.zeros((0, 0)), np.zeros(0, dtype=int)

    def best(self, own):
        """The global topic of each of a site's: those there are, or as many new ones as it has."""
        new = np.arange(len(own))
        free = (own**2).sum(axis=1)[:, None] / (self.prior + self.weight) + 2 * np.log(NEW / self.sites / (new + 1))
        if not self.members.any():
            return new + len(self.members)
        known = np.flatnonzero(self.members)
        sums, count = self.sums[known], self.members[known]
        square, precision = (sums**2).sum(axis=1), self.prior + count * self.weight
        joined = square + 2.0 * own @ sums.T + (own**2).sum(axis=1)[:, None]
        gain = joined / (precision + self.weight) - square / precision + 2 * np.log(count / (self.sites - count))
        columns = linear_sum_assignment(np.hstack([gain, free]), maximize=True)[1]
        return np.concatenate([known, len(self.members) + new])[columns]

    def add(self, labels, rows, sign):
        more = int(labels.max()) + 1 - len(self.members)
        if more > 0:
            self.sums = np.vstack([self.sums.reshape(-1, rows.shape[1]), np.zeros((more, rows.shape[1]))])
            self.members = np.append(self.members, np.zeros(more, dtype=int))
        self.sums[labels] += rows
        self.members[labels] += sign
