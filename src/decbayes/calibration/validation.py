"""Scores of posteriors. They add up across sites, and no observation leaves a site.

A score is a ratio: log predictive density over units (observations or words), both summed over held-back observations
or, with `leave_one_out`, over fitted ones, each predicted from all others. Its standard error, and that of the
difference of two scores, need only sums and sums of products.
"""

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from operator import add
from pathlib import Path
from typing import Any, Literal

import numpy as np

from decbayes.base.writing import write_whole
from decbayes.calibration.sites import excess, units_in
from decbayes.calibration.tails import FAIR, left_out
from decbayes.errors import InvalidData, InvalidFile, StructureMismatch
from decbayes.families import Array
from decbayes.models.core.evaluation import to_predict
from decbayes.models.core.model import Model
from decbayes.models.core.persons import EACH, Persons
from decbayes.models.core.registry import model_for
from decbayes.posterior import Posterior

Name = str | int
Rule = Literal["best", "smallest"]

FORMAT = "decbayes scores 1"
# Sums over fewer observations would reveal too much about each.
LEAST_HELD_BACK = 5
# Draws of a posterior for `leave_one_out`.
DRAWS = 1000
# The most candidates and observations in a file of scores: larger files are refused.
MOST_CANDIDATES = 10_000
MOST_OBSERVATIONS = 10**12


@dataclass(frozen=True)
class Choice:
    """The candidate chosen by the sites' scores, and its lead over the others.

    `at_end` is true if several numbers of components were compared and the score still rises at the largest: more would
    predict better, and the number is your budget, not a property of the data.
    """

    name: Name
    rule: Rule
    at_end: bool

    def __str__(self) -> str:
        how = "the best score" if self.rule == "best" else "the smallest within one standard error of the best"
        text = f"{self.name}: {how}."
        if self.at_end:
            text += " The score still rises at the largest number tried: take as many components as you can afford."
        return text


@dataclass(frozen=True, eq=False)
class Scores:
    """How well some posteriors predict held-back observations: sums that add up across sites.

    Attributes:
        names: the names of the posteriors, such as their numbers of components.
        digests: the digest of each posterior; empty if it differs between sites.
        observations: the number of predicted observations.
        sums: the units and each posterior's log predictive density, summed over the observations.
        products: the same for the products of all pairs, which standard errors need.
        unit: the unit of scores: per "observation", "word" or "value".
        rule: how `choice` chooses, "best" or "smallest".
        unreliable: with `leave_one_out`, for each posterior, the number of observations whose prediction from the
            others is not reliable (a Pareto shape above 0.7); None for held-back data.

    >>> model = db.models.GaussianMean(variance=1.0)
    >>> posteriors = {"near": model.fit(np.zeros((9, 1))).posterior, "far": model.fit(np.full((9, 1), 5.0)).posterior}
    >>> scores = sum(db.validate(model, posteriors, held_back) for held_back in (np.zeros((6, 1)), np.ones((7, 1))))
    >>> scores.best, scores.observations
    ('near', 13)
    >>> print(scores.choice())
    near: the best score.
    """

    names: tuple[Name, ...]
    digests: tuple[str, ...]
    observations: int
    sums: Array
    products: Array
    unit: str = "observation"
    rule: Rule = "best"
    unreliable: tuple[int, ...] | None = None

    def __add__(self, other: "Scores") -> "Scores":
        if not isinstance(other, Scores):
            return NotImplemented
        if (self.names, self.unit, self.rule) != (other.names, other.unit, other.rule):
            raise StructureMismatch("These scores belong to different posteriors or models: they do not add up.")
        if (self.unreliable is None) != (other.unreliable is None):
            raise StructureMismatch("Scores of held-back data and those of leaving one out do not add up.")
        same = [mine if mine == their else "" for mine, their in zip(self.digests, other.digests, strict=True)]
        return Scores(
            self.names,
            tuple(same),
            self.observations + other.observations,
            self.sums + other.sums,
            self.products + other.products,
            self.unit,
            self.rule,
            None if self.unreliable is None else tuple(map(add, self.unreliable, other.unreliable or ())),
        )

    def __radd__(self, other: Any) -> "Scores":
        """`sum` begins with 0."""
        return self if other == 0 else NotImplemented

    def score(self, name: Name) -> float:
        """The mean log predictive density per observation, or per word or value."""
        return float(self.sums[1 + self._place(name)] / self._units())

    def error(self, name: Name, against: Name | None = None) -> float:
        """The standard error of a score, or of its difference to another's; infinite from a single observation.

        Differences are far more certain than scores, because both posteriors predict the same observations.
        """
        weights = np.zeros(len(self.sums))
        weights[1 + self._place(name)] += 1.0
        if against is not None:
            weights[1 + self._place(against)] -= 1.0
        weights[0] = -float(weights @ self.sums) / self._units()
        if self.observations < 2:
            return np.inf
        spread = max(float(weights @ self.products @ weights), 0.0)
        return float(np.sqrt(spread * self.observations / (self.observations - 1)) / self._units())

    @property
    def best(self) -> Name:
        """The name of the highest score."""
        self._units()
        return self.names[int(np.argmax(self.sums[1:]))]

    @property
    def smallest(self) -> Name:
        """The first name, in the given order, whose score is within one standard error of the best.

        This is the standard error of the difference: that of a score would include the variation between observations.
        """
        best = self.best
        near = (name for name in self.names if self.score(best) - self.score(name) <= self.error(best, name))
        return next(near, best)

    def choice(self, rule: Rule | None = None) -> Choice:
        """The chosen number of components, or other candidate: the best score, or the "smallest" close to it.

        Topics use the smallest, mixtures the best: too few clusters cost more than a few too many.
        Candidates must be in order, the smallest first.
        """
        if not all(self.digests):
            unlike = self.names[self.digests.index("")]
            raise StructureMismatch(
                f"The sites have scored different posteriors under the name {unlike!r}, so none can be chosen. "
                "All sites must score the same ones."
            )
        wanted = rule or self.rule
        if wanted not in ("best", "smallest"):
            raise ValueError(f"rule is 'best' or 'smallest', not {wanted!r}.")
        name = self.best if wanted == "best" else self.smallest
        numbers = len(self.names) > 1 and all(isinstance(name, int) for name in self.names)
        return Choice(name, wanted, numbers and name == self.names[-1])

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the sums to a small JSON file."""
        content = {
            "format": FORMAT,
            "names": list(self.names),
            "posteriors": list(self.digests),
            "observations": self.observations,
            "unit": self.unit,
            "rule": self.rule,
            "sums": self.sums.tolist(),
            "products": self.products.tolist(),
        } | ({} if self.unreliable is None else {"unreliable": list(self.unreliable)})
        write_whole(Path(path), json.dumps(content, indent=1).encode())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "Scores":
        """Read a file written by `save`, with checks."""
        try:
            content = json.loads(Path(path).read_text(encoding="utf-8"))
            return checked(content)
        except (ValueError, TypeError, KeyError, RecursionError, OverflowError) as error:
            raise InvalidFile(
                f"{path} is not a file of scores, as `decbayes validate` writes them ({error})."
            ) from None

    def _place(self, name: Name) -> int:
        if name not in self.names:
            raise KeyError(f"There is no score of {name!r}; there are {list(self.names)}.")
        return self.names.index(name)

    def _units(self) -> float:
        if not self.sums[0] > 0.0:
            raise InvalidData("Nothing was held back, so there are no scores.")
        return float(self.sums[0])


def checked(content: Any) -> Scores:
    """Scores from a file's values; ValueError if they are inconsistent."""
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise ValueError(f"its format is not '{FORMAT}'")
    names, digests = tuple(content["names"]), tuple(content["posteriors"])
    sums = np.array(content["sums"], dtype=np.float64)
    products = np.array(content["products"], dtype=np.float64)
    size = len(names) + 1
    named = all(isinstance(name, str | int) and not isinstance(name, bool) for name in names)
    fits = sums.shape == (size,) and products.shape == (size, size) and len(digests) == len(names)
    number, texts = content["observations"], (*digests, content["unit"], content["rule"])
    if not (1 < size <= MOST_CANDIDATES and named and len(set(names)) == len(names) and fits):
        raise ValueError("names and numbers do not match")
    if not (np.isfinite(sums).all() and np.isfinite(products).all()):
        raise ValueError("it holds NaN or infinite values")
    if not (is_count(number, MOST_OBSERVATIONS) and all(isinstance(t, str) for t in texts)):
        raise ValueError("its number of observations or its texts are wrong")
    if content["rule"] not in ("best", "smallest") or not all(str(text).isprintable() for text in (*names, *texts)):
        raise ValueError("its texts are wrong")
    unreliable = None if "unreliable" not in content else tuple(content["unreliable"])
    if unreliable and not (len(unreliable) == len(names) and all(is_count(few, number) for few in unreliable)):
        raise ValueError("its numbers of unreliable observations are wrong")
    return Scores(names, digests, number, sums, products, content["unit"], content["rule"], unreliable)


def is_count(value: Any, most: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= most


def validate(
    model: Model,
    posteriors: Mapping[Any, Posterior] | Iterable[Posterior],
    data: Any,
    *,
    seed: int = 0,
    leave_one_out: bool = False,
    persons: Persons = EACH,
) -> Scores:
    """How well posteriors predict a site's held-back data. The scores of several sites add up: `sum(…)`.

        cuts = db.merging.tree(posteriors).cuts(range(2, 25))
        scores = sum(db.validate(model, cuts, held_back) for held_back in data_set_aside)
        number = scores.choice().name

    For documents and vectors of features, one half is predicted from the other, and the score is per word or value.
    Otherwise it is per observation.

    Args:
        model: the model; posteriors may have other numbers of components.
        posteriors: the candidates by name, such as their numbers of components; or a list, numbered from 0.
        data: the site's held-back data.
        seed: the seed for splitting documents, and for draws.
        leave_one_out: `data` are what was fitted, and every posterior holds them; each observation is predicted from
            all others, of all sites, by weighting draws of the posterior (PSIS). Models whose outcome or columns are
            the same may then differ.
        persons: who each observation is about; with `leave_one_out` all of a person's observations are left out
            together.

    >>> model = db.models.GaussianMean(variance=1.0)
    >>> posteriors = {"near": model.fit(np.zeros((9, 1))).posterior, "far": model.fit(np.full((9, 1), 5.0)).posterior}
    >>> scores = db.validate(model, posteriors, np.zeros((6, 1)))
    >>> scores.score("near") > scores.score("far")
    True
    """
    given = dict(posteriors) if isinstance(posteriors, Mapping) else dict(enumerate(posteriors))
    if not given:
        raise InvalidData("There is no posterior to score.")
    names = tuple(name if isinstance(name, str) else int(name) for name in given)
    count, unreliable = model.count(data), (0,) * len(given) if leave_one_out else None
    if not count:
        columns = np.zeros((0, len(given) + 1))
    elif leave_one_out:
        pairs = [(comparable(model, posterior, data), posterior) for posterior in given.values()]
        for name, (fitted, posterior) in zip(names, pairs, strict=True):
            if excess(posterior, units_in(fitted, data)) < 0.0:
                raise InvalidData(
                    f"{name!r} holds fewer observations than these data, so it was not fitted to them: score it "
                    "without leave_one_out."
                )
        parts = [left_out_scores(*pair, data, persons, seed) for pair in pairs]
        columns = np.column_stack([persons.summed(model.units(data)), *(scores for scores, _ in parts)])
        unreliable, count = tuple(few for _, few in parts), len(columns)
    else:
        data, held_out = to_predict(model, data, seed=seed)
        scores = [model_of(model, posterior).log_predictive(posterior, data, held_out) for posterior in given.values()]
        columns = np.column_stack([model.units(data, held_out), *scores])
    return Scores(
        names,
        tuple(posterior.digest for posterior in given.values()),
        count,
        columns.sum(axis=0),
        columns.T @ columns,
        *unit_and_rule(model),
        unreliable,
    )


def comparable(model: Model, posterior: Posterior, data: Any) -> Model:
    """The posterior's model, which may be another one if it predicts the same quantity."""
    fitted = model_for(posterior.structure)
    if predicted(fitted) != predicted(model):
        raise StructureMismatch(
            f"{type(fitted).__name__} and {type(model).__name__} predict different columns, or the same column as "
            "another kind, so their scores cannot be compared."
        )
    if isinstance(data, np.ndarray) and getattr(fitted, "columns", None) != getattr(model, "columns", None):
        raise InvalidData("Posteriors have different columns: give the data as a data frame, not as a matrix.")
    return fitted


def predicted(model: Model) -> Any:
    """What is predicted: a regression's target and its kind, else all columns."""
    columns = getattr(model, "columns", {})
    target = getattr(model, "target", "")
    return (target, columns[target].kind) if target else (columns, model.unit)


def left_out_scores(model: Model, posterior: Posterior, data: Any, persons: Persons, seed: int) -> tuple[Array, int]:
    """log p(x | all other data) per observation, or per person; and the number that are not reliable."""
    parameters = posterior.sample(DRAWS, np.random.default_rng(seed))
    blocks = model.log_likelihoods(parameters, data)
    if persons.numbers is not None:
        blocks = iter([persons.checked(model.count(data)).summed(np.concatenate([*blocks], axis=1).T).T])
    scores, shapes = np.transpose([left_out(likelihoods) for block in blocks for likelihoods in block.T])
    return scores, int((shapes > FAIR).sum())


def unit_and_rule(model: Model) -> tuple[str, Rule]:
    """The unit of a model's scores (observations or parts of them), and the rule of their choice."""
    if not model.in_parts:
        return model.unit, "best"
    return "value" if model.unit == "observation" else model.unit, "smallest"


def model_of(model: Model, posterior: Posterior) -> Model:
    """The model with as many components as the posterior, which a merge may have changed."""
    model = model.for_posterior(posterior)
    if posterior.structure == model.structure or model.auto:
        return model
    fitted = model_for(posterior.structure)
    if type(fitted) is not type(model):
        raise StructureMismatch(
            f"The posterior belongs to {type(fitted).__name__}, not to {type(model).__name__}: their scores are of "
            "different things. Score posteriors of one model."
        )
    return fitted
