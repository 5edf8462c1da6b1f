"""Sites some of which are faulty: what they have seen, what the faulty ones make of it, and how far a merge is off.

Each kind of data has `draw` for what a site has seen and what is what in it, `spoilt` for what a faulty site pretends
to have seen, `distances` of components in posterior deviations, and `scored` for a held-out score.
"""

from typing import Any

import numpy as np
from scipy.sparse import csr_array

import decbayes as db
from decbayes.posterior import Posterior

MANY = 50.0  # of a Dirichlet distribution: sites that have everything alike
HAVE = 0.6  # of all components, sites that differ
FAR = 15.0  # where colluding sites put a cluster
WORDS, LENGTH = 200, 60
ITEMS = 30
STEPS = 10  # of a sequence


def shares_of(rng: np.random.Generator, unlike: bool, number: int) -> np.ndarray:
    shares = rng.dirichlet(np.full(number, MANY))
    if unlike:
        shares = shares * np.isin(np.arange(number), rng.choice(number, round(HAVE * number), replace=False))
    return shares / shares.sum()


def generic_distances(reference: Posterior, merged: Posterior, factors: tuple[str, ...]) -> np.ndarray:
    """The root mean square over all parameters of these factors, of each component from each."""
    squares = []
    for name in factors:
        right, spread, found = reference.mean(name), reference.deviation(name), merged.mean(name)
        apart = (right[:, None] - found) / spread[:, None]
        squares.append(apart.reshape(*apart.shape[:2], -1) ** 2)
    return np.sqrt(np.concatenate(squares, axis=2).mean(axis=2))


class Clusters:
    """A Gaussian mixture of five clusters; a shard is points and their labels."""

    attacks = ("units10", "units100", "random", "inflated", "copies", "displaced", "colluding")
    observations, held_out = 150, 2000

    def __init__(self, rng: np.random.Generator, number: int = 5, dimension: int = 2) -> None:
        self.number, self.dimension = number, dimension
        self.reach = max(12.0, 4.5 * number if dimension == 1 else 0.0)
        self.model = self.sized(number)
        self.places = self._apart(rng)

    def sized(self, components: int) -> Any:
        spread = {"variance": 1.0, "prior_variance": max(100.0, 0.5 * self.reach**2)}
        return db.GaussianMixture(components, self.dimension, **spread, ascent=db.Ascent(restarts=4))

    def _apart(self, rng: np.random.Generator) -> np.ndarray:
        """Places that are at least six deviations apart."""
        if self.dimension == 1:
            return 7.0 * (rng.permutation(self.number)[:, None] - 0.5 * self.number)
        while True:
            places = rng.uniform(-12, 12, size=(self.number, self.dimension))
            apart = np.linalg.norm(places[:, None] - places, axis=2) + 100 * np.eye(self.number)
            if apart.min() > 6:
                return places

    def draw(self, rng: np.random.Generator, count: int, *, unlike: bool) -> tuple[np.ndarray, np.ndarray]:
        labels = rng.choice(self.number, size=count, p=shares_of(rng, unlike, self.number))
        return self.places[labels] + rng.normal(size=(count, self.dimension)), labels

    def spoilt(self, attack: str, shard: tuple[np.ndarray, np.ndarray], rng: np.random.Generator) -> np.ndarray:
        points, labels = shard[0].copy(), shard[1]
        most = labels == np.bincount(labels).argmax()
        if attack.startswith("units"):
            return points * float(attack.removeprefix("units"))
        if attack == "random":
            places = rng.uniform(-self.reach, self.reach, size=self.places.shape)
            return places[labels] + rng.normal(size=points.shape)
        if attack == "colluding":
            points[most] = FAR + self.reach - 12.0 + rng.normal(size=points[most].shape)
            return points
        way = rng.normal(size=self.dimension)
        points[most] += 4 * way / np.linalg.norm(way)
        return points

    def distances(self, reference: Posterior, merged: Posterior) -> np.ndarray:
        """Of each mean of the reference from each merged one, in the reference's deviations."""
        right, spread = reference.mean("components"), reference.deviation("components")
        found = merged.mean("components")
        return np.linalg.norm((right[:, None] - found) / spread[:, None], axis=2)

    def scored(self, posterior: Posterior, held_out: np.ndarray) -> float:
        size = posterior.structure.components(posterior.structure.symmetry[0])
        return float(self.sized(size).score(posterior, held_out))


class Diagonal(Clusters):
    """The same with unknown variances."""

    covariance = "diagonal"

    def sized(self, components: int) -> Any:
        return db.GaussianMixture(components, self.dimension, covariance=self.covariance, ascent=db.Ascent(restarts=4))


class Small(Diagonal):
    """The same with 40 points per site, of three clusters that may overlap."""

    observations = 40

    def __init__(self, rng: np.random.Generator, number: int = 3, dimension: int = 2) -> None:
        super().__init__(rng, number, dimension)

    def _apart(self, rng: np.random.Generator) -> np.ndarray:
        return rng.uniform(-10, 10, size=(self.number, self.dimension))


class Full(Diagonal):
    """The same with unknown covariances."""

    covariance = "full"


class States(Clusters):
    """A hidden Markov model whose states are the clusters; a shard is sequences of ten steps and their labels."""

    observations, held_out = 300, 2000

    def sized(self, components: int) -> Any:
        columns = {f"x{one}": db.columns.Gaussian(0.0, 0.5 * self.reach) for one in range(self.dimension)}
        return db.HiddenMarkov(states=components, columns=columns, ascent=db.Ascent(restarts=4))

    def draw(self, rng: np.random.Generator, count: int, *, unlike: bool) -> tuple[Any, np.ndarray]:
        shares = shares_of(rng, unlike, self.number)
        labels = rng.choice(self.number, size=(max(count // STEPS, 2), STEPS), p=shares)
        for step in range(1, STEPS):
            stays = rng.random(len(labels)) < 0.6
            labels[:, step] = np.where(stays, labels[:, step - 1], labels[:, step])
        return [*self.places[labels] + rng.normal(size=(*labels.shape, self.dimension))], labels

    def spoilt(self, attack: str, shard: tuple[Any, np.ndarray], rng: np.random.Generator) -> Any:
        joined = np.concatenate(shard[0]), shard[1].ravel()
        return [*super().spoilt(attack, joined, rng).reshape(*shard[1].shape, self.dimension)]

    def distances(self, reference: Posterior, merged: Posterior) -> np.ndarray:
        names = tuple(name for name in reference.structure.families if name not in ("start", "transitions"))
        return generic_distances(reference, merged, names)


class Topics:
    """Five topics of 200 words; a shard is counts of words in documents of 60 words, and each document's topics."""

    attacks = ("random", "inflated", "copies", "displaced", "colluding")
    observations, held_out = 40, 300

    def __init__(self, rng: np.random.Generator, number: int = 5, dimension: int = 2) -> None:
        self.number, self.model = number, self.sized(number)
        self.topics = rng.dirichlet(np.full(WORDS, 0.05), size=number)
        self.lie = rng.dirichlet(np.full(WORDS, 0.05))

    def sized(self, components: int) -> Any:
        return db.LatentDirichletAllocation(components, tuple(f"w{word}" for word in range(WORDS)), topic_prior=0.05)

    def draw(self, rng: np.random.Generator, count: int, *, unlike: bool) -> tuple[np.ndarray, np.ndarray]:
        mixes = rng.dirichlet(0.5 * shares_of(rng, unlike, self.number) + 1e-3, size=count)
        return self._counts(mixes, self.topics, rng), mixes

    def _counts(self, mixes: np.ndarray, topics: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        return np.array([rng.multinomial(LENGTH, mix @ topics / (mix @ topics).sum()) for mix in mixes])

    def spoilt(self, attack: str, shard: tuple[np.ndarray, np.ndarray], rng: np.random.Generator) -> np.ndarray:
        mixes, topics = shard[1], self.topics.copy()
        most = int(mixes.sum(axis=0).argmax())
        if attack == "random":
            topics = rng.dirichlet(np.full(WORDS, 0.05), size=self.number)
        elif attack == "colluding":
            topics[most] = self.lie
        else:
            # Half of the topic's probability goes to other words.
            topics[most] = 0.5 * topics[most] + 0.5 * rng.permutation(topics[most])
        return self._counts(mixes, topics, rng)

    def distances(self, reference: Posterior, merged: Posterior) -> np.ndarray:
        """The root mean square over words with a probability above 0.005."""
        right, spread, found = reference.mean("topics"), reference.deviation("topics"), merged.mean("topics")
        away = ((right[:, None] - found) / spread[:, None]) ** 2
        frequent = (right > 0.005)[:, None]
        return np.sqrt((away * frequent).sum(axis=2) / frequent.sum(axis=2))

    def scored(self, posterior: Posterior, held_out: np.ndarray) -> float:
        size = posterior.structure.components(posterior.structure.symmetry[0])
        observed, held = db.checking.hold_out(csr_array(held_out), share=0.3, rng=np.random.default_rng(7))
        return float(self.sized(size).score(posterior, observed, held))


class Classes:
    """Latent classes of thirty yes-or-no columns; a shard is answers and their classes."""

    attacks = ("random", "inflated", "copies", "displaced", "colluding", "noise", "shuffled")
    observations, held_out = 150, 2000

    def __init__(self, rng: np.random.Generator, number: int = 5, dimension: int = 2) -> None:
        self.number, self.model = number, self.sized(number)
        self.chances = rng.beta(0.7, 0.7, size=(number, ITEMS))
        self.lie = rng.beta(0.7, 0.7, size=ITEMS)

    def sized(self, components: int) -> Any:
        return db.BernoulliMixture(components, ITEMS, ascent=db.Ascent(restarts=4))

    def draw(self, rng: np.random.Generator, count: int, *, unlike: bool) -> tuple[np.ndarray, np.ndarray]:
        labels = rng.choice(self.number, size=count, p=shares_of(rng, unlike, self.number))
        return (rng.random((count, ITEMS)) < self.chances[labels]).astype(float), labels

    def spoilt(self, attack: str, shard: tuple[np.ndarray, np.ndarray], rng: np.random.Generator) -> np.ndarray:
        labels, chances = shard[1], self.chances.copy()
        most = int(np.bincount(labels).argmax())
        if attack == "noise":
            return (rng.random(shard[0].shape) < 0.5).astype(float)
        if attack == "shuffled":
            return rng.permuted(shard[0], axis=0)
        if attack == "random":
            chances = rng.beta(0.7, 0.7, size=chances.shape)
        elif attack == "colluding":
            chances[most] = self.lie
        else:
            # A third of the columns are coded the other way round.
            turned = rng.choice(ITEMS, ITEMS // 3, replace=False)
            chances[most, turned] = 1.0 - chances[most, turned]
        return (rng.random(shard[0].shape) < chances[labels]).astype(float)

    def distances(self, reference: Posterior, merged: Posterior) -> np.ndarray:
        """The root mean square over columns."""
        right, spread, found = (
            reference.mean("components"),
            reference.deviation("components"),
            merged.mean("components"),
        )
        return np.sqrt((((right[:, None] - found) / spread[:, None]) ** 2).mean(axis=2))

    def scored(self, posterior: Posterior, held_out: np.ndarray) -> float:
        size = posterior.structure.components(posterior.structure.symmetry[0])
        return float(self.sized(size).score(posterior, held_out))


class Tables:
    """Classes of rows with two real columns, six of three categories each, and a count; a shard is rows and classes."""

    attacks = ("units10", "units100", "random", "inflated", "copies", "displaced", "colluding", "noise", "shuffled")
    observations, held_out = 200, 2000
    REAL, CATEGORIES = 2, 6

    def __init__(self, rng: np.random.Generator, number: int = 5, dimension: int = 2) -> None:
        self.number = number
        self.columns = {
            **{f"x{one}": db.columns.Gaussian(0.0, 5.0) for one in range(self.REAL)},
            **{f"c{one}": db.columns.Categorical(("a", "b", "c")) for one in range(self.CATEGORIES)},
            "events": db.columns.Poisson(5.0),
        }
        self.model, self.truth, self.lie = self.sized(number), self._parameters(rng), self._parameters(rng)

    def sized(self, components: int) -> Any:
        return db.LatentClasses(components, columns=self.columns, ascent=db.Ascent(restarts=4))

    def _parameters(self, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        number = self.number
        return (
            rng.uniform(-8, 8, size=(number, self.REAL)),
            rng.dirichlet(np.full(3, 0.5), size=(number, self.CATEGORIES)),
            rng.gamma(2.0, 3.0, size=number),
        )

    def _frame(self, labels: np.ndarray, truth: Any, rng: np.random.Generator) -> dict[str, Any]:
        places, chances, rates = truth
        real = places[labels] + rng.normal(size=(len(labels), self.REAL))
        drawn = (rng.random((len(labels), self.CATEGORIES, 1)) > chances[labels].cumsum(axis=2)).sum(axis=2)
        return {
            **{f"x{one}": real[:, one] for one in range(self.REAL)},
            **{f"c{one}": np.array(["a", "b", "c"])[np.minimum(drawn[:, one], 2)] for one in range(self.CATEGORIES)},
            "events": rng.poisson(rates[labels]),
        }

    def draw(self, rng: np.random.Generator, count: int, *, unlike: bool) -> tuple[Any, np.ndarray]:
        labels = rng.choice(self.number, size=count, p=shares_of(rng, unlike, self.number))
        return self._frame(labels, self.truth, rng), labels

    def spoilt(self, attack: str, shard: tuple[Any, np.ndarray], rng: np.random.Generator) -> Any:
        labels, truth = shard[1], tuple(part.copy() for part in self.truth)
        most = int(np.bincount(labels).argmax())
        if attack.startswith("units"):
            return shard[0] | {"x0": shard[0]["x0"] * float(attack.removeprefix("units"))}
        if attack == "noise":
            codes = {name: rng.choice(["a", "b", "c"], len(labels)) for name in shard[0] if name.startswith("c")}
            real = {name: rng.uniform(-8, 8, len(labels)) for name in shard[0] if name.startswith("x")}
            return codes | real | {"events": rng.poisson(6.0, len(labels))}
        if attack == "shuffled":
            return {name: rng.permutation(column) for name, column in shard[0].items()}
        if attack == "random":
            truth = self._parameters(rng)
        elif attack == "colluding":
            for part, lie in zip(truth, self.lie, strict=True):
                part[most] = lie[most]
        else:
            # In a direction of its own: two sites with the same one would share a lie.
            way = rng.normal(size=self.REAL)
            truth[0][most] += 4.0 * way / np.linalg.norm(way)
        return self._frame(labels, truth, rng)

    def distances(self, reference: Posterior, merged: Posterior) -> np.ndarray:
        return generic_distances(
            reference, merged, tuple(name for name in reference.structure.families if name != "weights")
        )

    def scored(self, posterior: Posterior, held_out: Any) -> float:
        size = posterior.structure.components(posterior.structure.symmetry[0])
        return float(self.sized(size).score(posterior, held_out))


class Regression:
    """Linear regression on four columns; a shard is rows, and their columns, which spread more or less where unlike."""

    attacks = ("units10", "units100", "random", "inflated", "copies", "displaced", "colluding")
    observations, held_out = 150, 2000

    kind, strength = db.LinearRegression, 1.0
    number = 0

    def __init__(self, rng: np.random.Generator, number: int = 5, dimension: int = 4) -> None:
        self.names = "abcdefgh"[: max(dimension, 2)]
        signs, size = rng.choice([-1.0, 1.0], size=(2, len(self.names))), (2, len(self.names))
        self.slopes, self.lie = self.strength * signs * rng.uniform(0.5, 1.5, size=size)
        frame = self._frame(rng.normal(size=(50, len(self.names))), self.slopes, rng)
        self.model = self.kind.from_frame(frame, f"y ~ {' + '.join(self.names)}")

    def _outcomes(self, linear: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        return linear + rng.normal(size=len(linear))

    def _frame(self, columns: np.ndarray, slopes: np.ndarray, rng: np.random.Generator) -> dict[str, np.ndarray]:
        return {"y": self._outcomes(columns @ slopes, rng), **dict(zip(self.names, columns.T, strict=True))}

    def draw(self, rng: np.random.Generator, count: int, *, unlike: bool) -> tuple[Any, np.ndarray]:
        spread = np.exp(rng.normal(0.0, 0.5, size=len(self.names))) if unlike else 1.0
        columns = rng.normal(size=(count, len(self.names))) * spread
        return self.model.points(self._frame(columns, self.slopes, rng)), columns

    def spoilt(self, attack: str, shard: tuple[Any, np.ndarray], rng: np.random.Generator) -> Any:
        columns = shard[1]
        slopes = {"random": rng.normal(size=len(self.names)), "colluding": self.lie}.get(attack, self.slopes).copy()
        slopes[0] += 0.5 * self.strength * (attack in ("displaced", "inflated"))
        frame = self._frame(columns, slopes, rng)
        if attack.startswith("units"):
            frame["a"] = frame["a"] * float(attack.removeprefix("units"))
        return self.model.points(frame)

    def distances(self, reference: Posterior, merged: Posterior) -> np.ndarray:
        """Of the worst coefficient."""
        right, spread = reference.mean("coefficients"), reference.deviation("coefficients")
        return np.abs((merged.mean("coefficients") - right) / spread).max(axis=1, keepdims=True)

    def scored(self, posterior: Posterior, held_out: np.ndarray) -> float:
        return float(self.model.score(posterior, held_out))


class Logistic(Regression):
    """The same with yes-or-no outcomes."""

    kind, observations = db.LogisticRegression, 400

    def _outcomes(self, linear: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        return (rng.random(len(linear)) < 1.0 / (1.0 + np.exp(-linear))).astype(float)


class Counts(Regression):
    """The same with counts."""

    kind, strength = db.PoissonRegression, 0.3

    def _outcomes(self, linear: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        return rng.poisson(np.exp(np.minimum(linear, 20.0))).astype(float)


KINDS = {
    "known": Clusters,
    "diagonal": Diagonal,
    "full": Full,
    "small": Small,
    "states": States,
    "classes": Classes,
    "tables": Tables,
    "topics": Topics,
    "regression": Regression,
    "logistic": Logistic,
    "counts": Counts,
}


def deviation(data: Any, merged: Posterior, honest: Posterior) -> float:
    """How far the worst component of the merge of honest sites is from the nearest one of this merge."""
    return float(data.distances(honest, merged).min(axis=1).max())


def scaled(posterior: Posterior, factor: float) -> Posterior:
    return Posterior(posterior.structure, {name: factor * part for name, part in posterior.contribution.items()})
