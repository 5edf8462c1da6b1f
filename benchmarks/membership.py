"""How often 90 % intervals of what explains membership in latent classes hold the truth, and how far estimates are off.

    python benchmarks/membership.py [--quick] [--worlds N] [--apart clear,blurred] [--only WAY] [--keep FOLDER]

Three classes of six yes/no items, two columns x and z that explain membership, five sites of 200 rows. Items say yes
with 0.9 or 0.1 where classes are "clear", with 0.8 or 0.25 where they are "blurred". "known" is the regression of the
true classes, "assigned" that of the most probable ones (of the merged posterior), "membership" is `ClassMembership`
after one broadcast, "refined" after two rounds, "true classes" the same with the true items' probabilities in place of
the merged posterior: what the uncertainty of the classes costs. Coverage is over the four effects; bias is their mean
distance from the truth, towards 0 if negative. The last line is JSON.
"""

import argparse
import os
import warnings

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

from functools import partial
from itertools import permutations
from pathlib import Path

import numpy as np
from _kept import by_worlds, kept
from scipy.special import softmax

import decbayes as db

SITES, ROWS = 5, 200
EFFECTS = np.array([[0.0, 0.0, 0.0], [0.2, 0.8, -0.5], [-0.2, -0.6, 0.6]])  # intercept, x, z of each class
PATTERN = np.array([[1, 1, 0, 0, 0, 1], [0, 0, 1, 1, 0, 1], [0, 0, 0, 0, 1, 0]], dtype=bool)
SAYING_YES = {"clear": (0.1, 0.9), "blurred": (0.25, 0.8)}
ITEMS = [f"item{number}" for number in range(6)]
REALS = {"x": db.columns.Gaussian(0, 1), "z": db.columns.Gaussian(0, 1)}
NAMES = ("class 0", "class 1", "class 2")


def rows(rng, apart):
    no, yes = SAYING_YES[apart]
    x, z = rng.normal(size=(2, ROWS))
    shares = softmax(np.column_stack([np.ones(ROWS), x, z]) @ EFFECTS.T, axis=1)
    kind = (rng.random((ROWS, 1)) > shares.cumsum(axis=1)).sum(axis=1)
    items = rng.random((ROWS, 6)) < np.where(PATTERN, yes, no)[kind]
    return {"x": x, "z": z, **dict(zip(ITEMS, items.T, strict=True))}, kind


def merged_classes(sites, rng):
    columns = {name: db.columns.YesNo() for name in ITEMS}
    model = db.LatentClasses(components=3, columns=columns, ascent=db.Ascent(restarts=2))
    fits = [model.fit(site, rng=rng).posterior for site in sites]
    return model, db.refine(model, sites, fits, rounds=2, rng=rng).merged


def in_true_order(posterior):
    """The classes in the order of those that they are most like."""
    found = posterior.mean("yes_no").reshape(3, 6)
    order = min(permutations(range(3)), key=lambda order: np.abs(found[list(order)] - PATTERN).sum())
    natural = {name: part[list(order)] for name, part in posterior.natural.items()}
    return db.Posterior.from_natural(posterior.structure, natural)


def estimates(model, posterior):
    found = [row for row in model.coefficients(posterior) if "intercept" not in row["term"]]
    return tuple(np.array([row[name] for row in found]) for name in ("mean", "low", "high"))


def over_sites(model, sites, rounds=0):
    fits = [model.fit_site(site).posterior for site in sites]
    if not rounds:
        return estimates(model, db.merge(fits))
    return estimates(model, db.refine(model, sites, fits, rounds=rounds, rng=0).merged)


def found_in(world, apart, only):
    """What each way finds in one world, as JSON has it."""
    rng = np.random.default_rng([world, len(apart)])
    sites, kinds = zip(*(rows(rng, apart) for _ in range(SITES)), strict=True)
    columns = {**REALS, "class": db.columns.Categorical(*NAMES)}
    plain = db.MultinomialRegression("class", columns=columns, terms=("x", "z"))

    def labelled(labels):
        return [
            {**site, "class": np.array(NAMES, dtype=object)[each]} for site, each in zip(sites, labels, strict=True)
        ]

    found, merged = merged_classes(sites, rng)
    classes = in_true_order(merged)
    assigned = [found.assign(classes, site).argmax(axis=1) for site in sites]
    model = db.models.ClassMembership(columns=REALS, classes=classes, reference="class 0")
    exact = db.models.ClassMembership(columns=REALS, classes=true_classes(found, apart), reference="class 0")
    ways = {
        "known": lambda: over_sites(plain, labelled(kinds), 1),
        "assigned": lambda: over_sites(plain, labelled(assigned), 1),
        "membership": lambda: over_sites(model, sites),
        "refined": lambda: over_sites(model, sites, 2),
        "true classes": lambda: over_sites(exact, sites, 2),
    }
    return [(name, np.array(way()).tolist()) for name, way in ways.items() if only in ("", name)]


def true_classes(found, apart):
    """A posterior that is certain of the probabilities of yes."""
    no, yes = SAYING_YES[apart]
    share, structure = np.where(PATTERN, yes, no) * 1e6, found.structure
    known = structure.families["yes_no"].natural(alpha=share, beta=1e6 - share)
    return db.Posterior.from_natural(structure, {**structure.prior, "yes_no": known})


def summary(results):
    truth = EFFECTS[1:, 1:].ravel()
    for name, found in results.items():
        mean, low, high = np.moveaxis(np.array(found), 1, 0)
        held = ((low <= truth) & (truth <= high)).mean(axis=1)
        yield {
            "way": name,
            "worlds": len(held),
            "coverage": round(float(held.mean()), 3),
            "error": round(float(held.std(ddof=1) / np.sqrt(len(held))), 3),
            "bias": round(float(((mean - truth) * np.sign(truth)).mean()), 3),
            "rmse": round(float(np.sqrt(((mean - truth) ** 2).mean())), 3),
            "width": round(float((high - low).mean()), 2),
        }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--worlds", type=int, default=200)
    parser.add_argument("--apart", default="clear,blurred")
    parser.add_argument("--only", default="", help="one of the ways")
    parser.add_argument("--keep", type=Path, default=Path("build/membership"))
    chosen = parser.parse_args()
    warnings.simplefilter("ignore")

    def world(apart, number):
        name = f"membership-{apart}-{chosen.only}-{number}"
        return kept(chosen.keep, name, partial(found_in, number, apart, chosen.only))

    by_worlds(chosen.apart.split(","), 2 if chosen.quick else chosen.worlds, world, summary)


if __name__ == "__main__":
    main()
