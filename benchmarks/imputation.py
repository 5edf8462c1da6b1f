"""How often 90 % intervals of a regression over sites hold the truth, if values are missing and imputed.

    python benchmarks/imputation.py [--quick] [--worlds N] [--classes 4,12] [--missing mcar,mar] [--keep FOLDER]

y depends on x and on three groups g; x and g are missing for about 30 % of the rows each, at random (mcar) or the more
often the larger y is (mar). Five sites of 100 rows. "all" is the regression without missing values, "complete" that of
complete rows, "imputed K" that of ten tables drawn from merged classes, pooled by Rubin's rules. Coverage is over the
three effects, with its standard error over worlds; bias is in standard errors of the regression without missing values.
The last line is JSON.
"""

import argparse
import os
import warnings

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

from functools import partial
from pathlib import Path

import numpy as np
from _kept import by_worlds, kept
from scipy.special import expit

import decbayes as db

SITES, ROWS, DRAWS = 5, 100, 10
EFFECTS, GROUPS = np.array([0.5, 0.6, -0.4]), np.array(["a", "b", "c"], dtype=object)
COLUMNS = {
    "x": db.columns.Gaussian(0, 1),
    "y": db.columns.Gaussian(1, 1),
    "g": db.columns.Categorical("a", "b", "c"),
}
REGRESSION = db.LinearRegression("y", columns=COLUMNS, terms=("x", "g"))


def rows(rng):
    g = rng.choice(3, size=ROWS, p=[0.5, 0.3, 0.2])
    x = rng.normal(size=ROWS) + 0.5 * (g == 1)
    y = 1.0 + EFFECTS[0] * x + np.array([0.0, *EFFECTS[1:]])[g] + 0.8 * rng.normal(size=ROWS)
    return np.column_stack([x, y, g])


def hidden(whole, missing, rng):
    y = whole[:, 1]
    chance = np.full((ROWS, 2), 0.3) if missing == "mcar" else expit(y - np.array([[2.0], [2.0]])).T
    seen = whole.copy()
    seen[:, [0, 2]] = np.where(rng.random((ROWS, 2)) < chance, np.nan, whole[:, [0, 2]])
    return seen


def effects(tables):
    merged = db.merge([REGRESSION.fit(table).posterior for table in tables])
    found = REGRESSION.coefficients(merged)[1:]
    return tuple(np.array([row[name] for row in found]) for name in ("mean", "deviation", "low", "high"))


def imputed(sites, classes, rng):
    model = db.LatentClasses(components=classes, columns=COLUMNS, ascent=db.Ascent(restarts=1, passes=100))
    merged = db.merge([model.fit(site, rng=rng).posterior for site in sites], components=classes)
    drawn = [model.imputations(merged, site, draws=DRAWS) for site in sites]
    each = [effects([site[number] for site in drawn]) for number in range(DRAWS)]
    pooled = db.checking.pool([one[0] for one in each], [one[1] ** 2 for one in each], degrees=SITES * ROWS - 4)
    return pooled.estimate, pooled.error, *pooled.interval(0.9)


def ways(rng, missing, classes):
    whole = [rows(rng) for _ in range(SITES)]
    sites = [hidden(site, missing, rng) for site in whole]
    yield "all", effects(whole)
    yield "complete", effects([site[~np.isnan(site).any(axis=1)] for site in sites])
    for number in classes:
        yield f"imputed {number}", imputed(sites, number, rng)


def world_of(world, missing, classes):
    """What each way finds in one world, as JSON has it."""
    found = ways(np.random.default_rng([world, len(missing)]), missing, map(int, classes.split(",")))
    return [(name, np.array(each).tolist()) for name, each in found]


def summary(results):
    (_, usual, _, _) = np.mean(results["all"], axis=0)
    for name, found in results.items():
        mean, _, low, high = np.moveaxis(found, 1, 0)
        held = ((low <= EFFECTS) & (high >= EFFECTS)).mean(axis=1)
        yield {
            "way": name,
            "worlds": len(held),
            "coverage": round(float(held.mean()), 3),
            "error": round(float(held.std(ddof=1) / np.sqrt(len(held))), 3) if len(held) > 1 else None,
            "bias": [round(float(part), 2) for part in (mean.mean(axis=0) - EFFECTS) / usual],
            "width": [round(float(part), 2) for part in (high - low).mean(axis=0)],
        }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--worlds", type=int, default=200)
    parser.add_argument("--classes", default="4,12")
    parser.add_argument("--missing", default="mcar,mar")
    parser.add_argument("--keep", type=Path, default=Path("build/imputation"))
    chosen = parser.parse_args()
    warnings.simplefilter("ignore")

    def world(missing, number):
        name = f"imputation-{missing}-{chosen.classes}-{number}"
        return kept(chosen.keep, name, partial(world_of, number, missing, chosen.classes))

    by_worlds(chosen.missing.split(","), 2 if chosen.quick else chosen.worlds, world, summary)


if __name__ == "__main__":
    main()
