"""Data with one rare thing in them, and for each model the closed form by which a reader of its file finds that out.

A reader has the file alone: structure and contribution. `read` gives what it finds, NaN where nothing is to be found.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import csr_array

import decbayes as db

FEW = 5
ILLNESS = "porphyria"


@dataclass(frozen=True)
class Attack:
    """`draw` makes a model, its data of so many records, with or without something rare, and what that is; `read` looks
    for it in a posterior.
    """

    draw: Callable[[np.random.Generator, int, bool], tuple[Any, Any, float]]
    read: Callable[[Any], float]


def rows(posterior: Any, factor: str) -> np.ndarray:
    part = posterior.contribution[factor]
    return part.toarray() if hasattr(part, "toarray") else np.asarray(part)


def smallest(sizes: np.ndarray, value: Callable[[int], float]) -> float:
    """What a component says that fewer than five have."""
    there = np.flatnonzero(sizes > 0.5)
    place = int(there[sizes[there].argmin()])
    return value(place) if sizes[place] < FEW - 1e-6 else np.nan


def small_count(counts: np.ndarray) -> float:
    """The smallest count of a table, if it is small."""
    there = counts[counts > 0.5]
    return float(there.min()) if there.min() < FEW - 1e-6 else np.nan


def ignore(text: str) -> None:
    """Remarks on columns are not wanted here."""


# Mixtures: the sums of a component that one record has are that record.


def far_point(rng: np.random.Generator, count: int, rare: bool) -> tuple[Any, Any, float]:
    points = rng.normal(size=(count, 2)) + 9.0 * (np.arange(count) % 2)[:, None]
    point = 60.0 + rng.random()
    points[0] = [point, point] if rare else points[0]
    return db.GaussianMixture(3 if rare else 2, 2, variance=1.0, prior_variance=1000.0), points, point


def mean_of_few(posterior: Any) -> float:
    sizes, sums = rows(posterior, "weights")[:, 0], rows(posterior, "components")
    return smallest(sizes, lambda place: float(sums[place, 0] / sizes[place]))


def far_counts(rng: np.random.Generator, count: int, rare: bool) -> tuple[Any, Any, float]:
    counts = rng.poisson(np.where(np.arange(count) % 2, 3.0, 30.0)[:, None], size=(count, 2)).astype(float)
    planted = float(rng.integers(400, 600))
    counts[0] = [planted, planted] if rare else counts[0]
    return db.PoissonMixture(3 if rare else 2, 2), counts, planted


def one_yes(rng: np.random.Generator, count: int, rare: bool) -> tuple[Any, Any, float]:
    answers = (rng.random((count, 4)) < np.where(np.arange(count) % 2, 0.2, 0.8)[:, None]).astype(float)
    if rare:
        answers[:, 3] = np.arange(count) == 7
    return db.BernoulliMixture(2, 4), answers, 1.0


def fewest_yes(posterior: Any) -> float:
    return small_count(rows(posterior, "components").sum(axis=0))


def one_of_a_category(rng: np.random.Generator, count: int, rare: bool) -> tuple[Any, Any, float]:
    answers = (rng.random((count, 6)) < np.where(np.arange(count) % 2, 0.1, 0.9)[:, None]).astype(float)
    answers[:, 0] = np.arange(count) % 3
    if rare:
        answers[:, 0] = np.where(np.arange(count) == 7, 2, np.arange(count) % 2)
    return db.CategoricalMixture(2, 6, categories=[3, 2, 2, 2, 2, 2]), answers, 1.0


def one_that_differs(rng: np.random.Generator, count: int, rare: bool) -> tuple[Any, Any, float]:
    points = rng.normal(size=(count, 2))
    planted = 3.0 + rng.random()
    if rare:
        points[:, 1] = planted * (np.arange(count) == 7)
    return db.models.GaussianMean(dimension=2), points, planted


def sum_of_the_last(posterior: Any) -> float:
    return float(rows(posterior, "mean")[0, 1])


def one_visit(rng: np.random.Generator, count: int, rare: bool) -> tuple[Any, Any, float]:
    """Sequences: one of them is in a state that no other is ever in, for ten steps."""
    sequences = [rng.normal(size=(20, 1)) + 9.0 * (np.arange(20) // 5 % 2)[:, None] for _ in range(max(count // 5, 25))]
    planted = 90.0 + rng.random()
    if rare:
        sequences[3][5:15] = planted
    return db.HiddenMarkov(3 if rare else 2, columns={"x": db.columns.Gaussian(0.0, 10.0)}), sequences, planted


def mean_of_a_short_state(posterior: Any) -> float:
    sums = rows(posterior, "real")
    steps = 2.0 * sums[:, 0]
    place = int(np.where(steps > 0.5, steps, np.inf).argmin())
    return float(10.0 * sums[place, 2] / steps[place]) if steps[place] < 2 * FEW + 1 else np.nan


def one_image(rng: np.random.Generator, count: int, rare: bool) -> tuple[Any, Any, float]:
    has = np.column_stack([rng.random(count) < 0.5, np.arange(count) < (1 if rare else count // 3)])
    planted = 9.0 + rng.random()
    images = has @ np.array([[1.0, 1.0, 0, 0], [0, 0, planted, planted]]) + 0.1 * rng.normal(size=(count, 4))
    return db.LatentFeatures(2, 4, variance=0.01, prior_variance=100.0), images, planted


def feature_of_few(posterior: Any) -> float:
    sizes = rows(posterior, "inclusion")[:, 0]
    means = posterior.mean("features")
    return smallest(sizes, lambda place: float(means[place, 2:].mean()))


def one_document(rng: np.random.Generator, count: int, rare: bool) -> tuple[Any, Any, float]:
    counts = rng.poisson(1.0, size=(count, 30))
    planted = float(rng.integers(7, 12))
    if rare:
        counts[:, 29] = planted * (np.arange(count) == 7)
    return db.LatentDirichletAllocation(2, [f"w{number}" for number in range(30)]), csr_array(counts), planted


def count_of_the_last_word(posterior: Any) -> float:
    return float(rows(posterior, "topics")[:, 29].sum())


# Tables and regressions: one patient has an illness that nobody else has.


def patients(rng: np.random.Generator, count: int, rare: bool) -> dict[str, Any]:
    illness = rng.choice(["flu", "asthma", "copd"], count, p=[0.5, 0.3, 0.2]).astype(object)
    age = np.round(rng.uniform(20, 90, count), 1)
    if rare:
        illness[7] = ILLNESS
    cost = (1000 + 20 * age + rng.normal(0, 300, count)).round(2)
    died = np.where(rng.random(count) < 0.4, "yes", "no")
    days = np.round(rng.uniform(1, 500, count))
    visits, ward = rng.poisson(3.0, count), rng.choice(["bone", "heart", "skin"], count)
    table = {"age": age, "illness": illness, "cost": cost, "died": died}
    return table | {"visits": visits, "days": days, "ward": ward}


def of_patients(kind: str, formula: str, **settings: Any) -> Callable[..., tuple[Any, Any, float]]:
    def draw(rng: np.random.Generator, count: int, rare: bool) -> tuple[Any, Any, float]:
        table = patients(rng, count, rare)
        if not formula:
            table = {name: table[name] for name in ("age", "illness", "died")}
            return getattr(db, kind).from_frame(table, report=ignore, **settings), table, 1.0
        model = getattr(db, kind).from_frame(table, formula, report=ignore, **settings)
        return model, table, float(table["age"][7])

    return draw


def age_by_illness(posterior: Any, level: str = "") -> float:
    """Her row of XᵀWX over its diagonal is her record, whatever her weight."""
    labels = posterior.structure.labels["coefficients"]
    place = labels.index(f"{level}illness={ILLNESS}") if f"{level}illness={ILLNESS}" in labels else None
    if place is None:
        return np.nan
    side = len(labels)
    products = -2.0 * rows(posterior, "coefficients").sum(axis=0)[-(side**2) :].reshape(side, side)
    column = db.model_for(posterior.structure).columns["age"]
    zero, unit = column.zero_and_unit
    return float(zero + unit * products[place, labels.index(f"{level}age")] / products[place, place])


def age_by_illness_of_a_level(posterior: Any) -> float:
    """The same within the coefficients of one level."""
    first = posterior.structure.labels["coefficients"][0].partition(":")[0]
    return age_by_illness(posterior, f"{first}: ")


def fewest_of_an_illness(posterior: Any) -> float:
    return small_count(rows(posterior, "categorical").sum(axis=0))


TERMS = "age + illness"
ATTACKS = {
    "BernoulliMixture": Attack(one_yes, fewest_yes),
    "CategoricalMixture": Attack(one_of_a_category, fewest_yes),
    "GaussianMean": Attack(one_that_differs, sum_of_the_last),
    "GaussianMixture": Attack(far_point, mean_of_few),
    "HiddenMarkov": Attack(one_visit, mean_of_a_short_state),
    "LatentClasses": Attack(of_patients("LatentClasses", "", components=2), fewest_of_an_illness),
    "LatentDirichletAllocation": Attack(one_document, count_of_the_last_word),
    "LatentFeatures": Attack(one_image, feature_of_few),
    "LinearRegression": Attack(of_patients("LinearRegression", f"cost ~ {TERMS}"), age_by_illness),
    "LogisticRegression": Attack(of_patients("LogisticRegression", f"died ~ {TERMS}"), age_by_illness),
    "MultinomialRegression": Attack(of_patients("MultinomialRegression", f"ward ~ {TERMS}"), age_by_illness_of_a_level),
    "NegativeBinomialRegression": Attack(
        of_patients("NegativeBinomialRegression", f"visits ~ {TERMS}"), age_by_illness
    ),
    "OrderedRegression": Attack(
        of_patients("OrderedRegression", f"ward ~ {TERMS}", levels=["bone", "heart", "skin"]), age_by_illness
    ),
    "PoissonMixture": Attack(far_counts, mean_of_few),
    "PoissonRegression": Attack(of_patients("PoissonRegression", f"visits ~ {TERMS}"), age_by_illness),
    "RegressionMixture": Attack(
        of_patients("RegressionMixture", f"cost ~ {TERMS}", components=2, ascent=db.Ascent(restarts=1)), age_by_illness
    ),
    "SurvivalRegression": Attack(of_patients("SurvivalRegression", f"Surv(days, died) ~ {TERMS}"), age_by_illness),
}
