"""Small Gibbs samplers of the true posteriors, to compare intervals with. Nothing here is fast.

Each has `first(rng)`, a draw from the prior; `sweep(state, data, rng)`, which leaves the posterior as it is;
`data(state, rng)`, data given everything hidden; and `value(state)`, what intervals are about. A state is a dictionary.
Drawing data and sweeping in turn must leave the prior as it is: `tests/calibration/test_gibbs_samplers.py` checks that.
"""

import numpy as np
from numba import njit


class Mixture:
    """Any `GaussianMixture`: allocations given parameters, then parameters given allocations."""

    def __init__(self, model, size):
        self.model, self.size = model, size
        self.structure, self.likelihood = model.structure, model.likelihood

    def first(self, rng):
        return {**self._parameters(self.structure.prior, rng), "z": rng.integers(self.model.components, size=self.size)}

    def sweep(self, state, points, rng):
        scores = np.log(state["weights"]) + self._log_densities(points, state["components"])
        z = np.argmax(scores + rng.gumbel(size=scores.shape), axis=1)
        sums = np.eye(self.model.components)[z].T @ self.likelihood.features(points)
        after = {
            "weights": self.structure.prior["weights"] + sums[:, -1:],
            "components": self.structure.prior["components"] + self.likelihood.contribution(sums),
        }
        return {**self._parameters(after, rng), "z": z}

    def data(self, state, rng):
        return self.likelihood.draw(state["components"], state["z"], rng)

    def allocate(self, state, rng):
        """Allocations given the weights alone, for a draw of everything from the prior."""
        return {**state, "z": rng.choice(self.model.components, size=self.size, p=state["weights"])}

    def value(self, state):
        components = state["components"]
        told = components._asdict() if isinstance(components, tuple) else {"mean": components}
        return {**told, "weights": state["weights"]}

    def _parameters(self, natural, rng):
        drawn = {name: family.sample(natural[name], 1, rng) for name, family in self.structure.families.items()}
        components = drawn["components"]
        one = type(components)(*(part[0] for part in components)) if isinstance(components, tuple) else components[0]
        return {"weights": drawn["weights"][0], "components": one}

    def _log_densities(self, points, components):
        if not isinstance(components, tuple):
            return -0.5 * ((points[:, None] - components) ** 2).sum(axis=2) / self.model.variance
        away = points[:, None] - components.mean
        if components.precision.ndim == 3:
            squares = np.einsum("nki,kij,nkj->nk", away, components.precision, away)
            return 0.5 * (np.linalg.slogdet(components.precision)[1] - squares)
        precision = np.broadcast_to(components.precision.reshape(len(away[0]), -1), away.shape[1:])
        return 0.5 * (np.log(precision).sum(axis=1) - (away**2 * precision).sum(axis=2))


class Features:
    """`LatentFeatures`: each z given all others, then all features together, then how often they occur."""

    def __init__(self, model, size):
        self.model, self.size = model, size

    def first(self, rng):
        inclusion = rng.beta(*self.model.inclusion_prior, size=self.model.features)
        features = rng.normal(0, self.model.prior_variance**0.5, size=(self.model.features, self.model.dimension))
        return self.allocate({"inclusion": inclusion, "features": features}, rng)

    def allocate(self, state, rng):
        return {**state, "z": (rng.random((self.size, self.model.features)) < state["inclusion"]).astype(float)}

    def sweep(self, state, points, rng):
        z, features = state["z"].copy(), state["features"]
        odds = np.log(state["inclusion"]) - np.log1p(-state["inclusion"])
        for k in range(self.model.features):
            rest = points - z @ features + z[:, [k]] * features[k]
            gain = odds[k] + (rest @ features[k] - 0.5 * features[k] @ features[k]) / self.model.variance
            z[:, k] = rng.random(self.size) < 1 / (1 + np.exp(-gain))
        alpha, beta = self.model.inclusion_prior
        inclusion = rng.beta(alpha + z.sum(axis=0), beta + (1 - z).sum(axis=0))
        precision = z.T @ z / self.model.variance + np.eye(self.model.features) / self.model.prior_variance
        root = np.linalg.cholesky(np.linalg.inv(precision))
        mean = np.linalg.solve(precision, z.T @ points / self.model.variance)
        return {"inclusion": inclusion, "features": mean + root @ rng.standard_normal(mean.shape), "z": z}

    def data(self, state, rng):
        mean = state["z"] @ state["features"]
        return mean + self.model.variance**0.5 * rng.standard_normal(mean.shape)

    def value(self, state):
        return {"features": state["features"], "inclusion": state["inclusion"]}


class Topics:
    """`LatentDirichletAllocation`, topics and documents' shares integrated out: one word after another."""

    def __init__(self, model, documents, length):
        self.model, self.documents, self.length = model, documents, length
        self.alpha, self.beta = float(model.document_prior), float(model.topic_prior)
        self.words = len(model.vocabulary)

    def first(self, rng):
        topics = rng.dirichlet(np.full(self.words, self.beta), size=self.model.topics)
        return self.allocate({"topics": topics}, rng)

    def allocate(self, state, rng):
        shares = rng.dirichlet(np.full(self.model.topics, self.alpha), size=self.documents)
        z = np.array([rng.choice(self.model.topics, size=self.length, p=share) for share in shares])
        return {**state, "z": z}

    def sweep(self, state, words, rng):
        z = state["z"].copy()
        resample(z, words, self.model.topics, self.words, self.alpha, self.beta, rng.random(z.shape))
        counts = np.zeros((self.model.topics, self.words))
        np.add.at(counts, (z, words), 1)
        topics = np.array([rng.dirichlet(row + self.beta) for row in counts])
        return {"topics": topics, "z": z}

    def data(self, state, rng):
        cumulative = state["topics"].cumsum(axis=1)
        uniform = rng.random(state["z"].shape)
        words = (uniform[..., None] > cumulative[state["z"]]).sum(axis=-1)
        return np.minimum(words, self.words - 1)

    def value(self, state):
        return {"topics": state["topics"]}


@njit(cache=True)
def resample(z, words, topics, vocabulary, alpha, beta, uniform):
    """One collapsed sweep over all words, in place."""
    documents, length = z.shape
    counts, totals = np.zeros((vocabulary, topics)), np.zeros(topics)
    for d in range(documents):
        for n in range(length):
            counts[words[d, n], z[d, n]] += 1
            totals[z[d, n]] += 1
    weights = np.zeros(topics)
    for d in range(documents):
        own = np.zeros(topics)
        for n in range(length):
            own[z[d, n]] += 1
        for n in range(length):
            word, old = words[d, n], z[d, n]
            own[old] -= 1
            counts[word, old] -= 1
            totals[old] -= 1
            total = 0.0
            for k in range(topics):
                total += (own[k] + alpha) * (counts[word, k] + beta) / (totals[k] + vocabulary * beta)
                weights[k] = total
            new = 0
            while new < topics - 1 and weights[new] < uniform[d, n] * total:
                new += 1
            z[d, n] = new
            own[new] += 1
            counts[word, new] += 1
            totals[new] += 1


def draws(sampler, data, state, rng, *, burn_in, count):
    """Values of so many sweeps after the first ones."""
    drawn = []
    for sweep in range(burn_in + count):
        state = sampler.sweep(state, data, rng)
        if sweep >= burn_in:
            drawn.append(sampler.value(state))
    return {name: np.array([value[name] for value in drawn]) for name in drawn[0]}
