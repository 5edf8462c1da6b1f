"""What one broadcast per site can do for regressions of yes/no and counts: other ways to say what a site's rows say.

    python benchmarks/one_broadcast.py [--quick] [--seeds N] [--sites N] [--only NAME]

Data and splits of `regression_sites.py`. Printed is the largest distance of a coefficient from one fit of all rows, in
posterior standard deviations; medians over seeds. A site sends a quadratic of β in the place of its log likelihood. All
but the last two ways differ in where, and over which width, that quadratic is taken:

    as it is          around the site's own variational posterior: what `model.fit` does
    laplace           at the site's most probable coefficients
    no slopes         at one point that all share: the intercept of all rows, and nothing else
    tight prior       around the site's posterior under N(that point, 0.3), which is taken out again
    as if all alike   around the posterior that N sites with the same rows as this one would have
    as rows scatter   as it is, but as wide as the scatter of the rows says, not the model (a sandwich)
    two halves        as it is, and extrapolated from what merging two halves of the site's own rows changes
    cells             no quadratic but Xᵀy, and mean and covariance of the predictors in eight cells per site
    passed on         as it is, but one site after the other, in random order, each with all before it as its prior

The last line is JSON.
"""

import argparse
import json
import warnings

import numpy as np
import regression_sites as regression
from scipy.optimize import minimize
from sklearn.cluster import KMeans

import decbayes as db
from decbayes.models.regressions.varying.climb import FACTOR

CELLS, TIGHT, STEPS = 8, 0.3, 60


class Site:
    """Rows of one site, and what they say around some Gaussian of the coefficients."""

    def __init__(self, model, points, whole):
        self.model, self.points = model, points
        self.design, self.targets = model.table.parts(points)
        self.ridge = np.eye(self.design.shape[1]) / model.prior_variance
        self.nothing = np.zeros(len(self.ridge))
        self.sites, self.centre = whole

    def expected(self, mean, covariance):
        variance = np.einsum("nd,de,ne->n", self.design, covariance, self.design)
        return self.model.outcome.expectations(self.targets, self.design @ mean, variance)[1:]

    def around(self, mean, covariance):
        slope, weight = self.expected(mean, covariance)
        return self.design.T @ (slope + weight * (self.design @ mean)), self.design.T @ (weight[:, None] * self.design)

    def fitted(self, precision=None, shift=None, rows=1.0):
        """Mean and covariance of the variational posterior, as if each row had come so often."""
        precision, shift = self.ridge if precision is None else precision, self.nothing if shift is None else shift
        mean, covariance = np.linalg.solve(precision, shift), np.linalg.inv(precision)
        points = np.repeat(self.points, round(rows), axis=0)
        prior = self.model.outcome.family.natural(mean=mean[None], covariance=covariance[None])
        before = db.Posterior.from_natural(self.model.structure, {FACTOR: prior})
        found = self.model.fit(points, prior=before, rng=np.random.default_rng(0)).posterior
        return self.model.outcome.moments(found.natural[FACTOR])

    def settled(self, mean, covariance):
        """The mean at which rows and prior balance, for a width that is given."""
        for _ in range(STEPS):
            slope, weight = self.expected(mean, covariance)
            hessian = self.ridge + self.design.T @ (weight[:, None] * self.design)
            step = np.linalg.solve(hessian, self.design.T @ slope - self.ridge @ mean)
            mean = mean + step / max(1.0, np.abs(self.design @ step).max() / 2.0)
        return mean, covariance

    def scattered(self, mean, covariance):
        score = self.design * self.expected(mean, covariance)[0][:, None]
        return self.settled(mean, covariance @ (score.T @ score + self.ridge) @ covariance)

    def halves(self):
        order = np.random.default_rng(0).permutation(len(self.points))
        parts = [Site(self.model, self.points[half], (1, self.centre)) for half in np.array_split(order, 2)]
        told = [part.around(*part.fitted()) for part in parts]
        return [2.0 * whole - one - other for whole, one, other in zip(self.around(*self.fitted()), *told, strict=True)]

    def cells(self):
        count = max(1, min(CELLS, len(self.points) // 3))
        labels = KMeans(count, n_init=3, random_state=0).fit_predict(self.design)
        for rows in (self.design[labels == label] for label in range(count)):
            yield len(rows), rows.mean(axis=0), np.cov(rows.T, bias=True)


WAYS = {
    "as it is": lambda site: site.around(*site.fitted()),
    "laplace": lambda site: site.around(*site.settled(site.nothing, 0.0 * site.ridge)),
    "no slopes": lambda site: site.around(site.centre, 0.0 * site.ridge),
    "tight prior": lambda site: site.around(*site.fitted(np.eye(len(site.ridge)) / TIGHT, site.centre / TIGHT)),
    "as if all alike": lambda site: site.around(*site.fitted(rows=site.sites)),
    "as rows scatter": lambda site: site.around(*site.scattered(*site.fitted())),
    "two halves": lambda site: site.halves(),
}


def from_cells(sites):
    """Coefficients where βᵀXᵀy − Σ_n A(x_n β) is highest, if predictors are Gaussian within each cell."""
    found = [cell for site in sites for cell in site.cells()]
    counts, means, covariances = (np.array(part) for part in zip(*found, strict=True))
    told, ridge, model = sum(site.design.T @ site.targets for site in sites), sites[0].ridge, sites[0].model

    def loss(beta):
        spread = covariances @ beta
        value, slope, weight = model.outcome.expectations(0.0 * counts, means @ beta, np.maximum(spread @ beta, 0.0))
        height = told @ beta + counts @ value - 0.5 * beta @ ridge @ beta
        return -height, -(told + means.T @ (counts * slope) - spread.T @ (counts * weight) - ridge @ beta)

    return minimize(loss, sites[0].centre, jac=True, method="BFGS", options={"maxiter": 2000}).x


def one_run(name, split, seed, count):
    rng = np.random.default_rng(seed)
    model, shards, train, _ = regression.shards_of(name, split, rng, count)
    mean, spread, _, _ = model.outcome.interval(model.fit(train, rng=rng).posterior.natural[FACTOR], 0.9)
    share = model.table.parts(train)[1].mean()
    level = np.log(share) if isinstance(model, db.PoissonRegression) else np.log(share / (1.0 - share))
    centre = np.eye(len(mean))[0] * level
    sites = [Site(model, shard, (count, centre)) for shard in shards]
    found = {}
    for way, told in WAYS.items():
        shifts, precisions = zip(*(told(site) for site in sites), strict=True)
        found[way] = np.linalg.solve(sites[0].ridge + sum(precisions), sum(shifts))
    passed = regression.passed_on(model, shards, rng)
    found |= {"cells": from_cells(sites), "passed on": model.outcome.interval(passed.natural[FACTOR], 0.9)[0]}
    return {way: float(np.abs((beta - mean) / spread).max()) for way, beta in found.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one seed")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--sites", type=int, default=regression.SITES)
    parser.add_argument("--only", default="", help="a part of the name of the data")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    figures = {}
    for name in [name for name in regression.DATA if name != "diabetes" and arguments.only in name]:
        for split in ("random", "by target"):
            seeds = range(1 if arguments.quick else arguments.seeds)
            runs = [one_run(name, split, seed, arguments.sites) for seed in seeds]
            found = {way: round(float(np.median([run[way] for run in runs])), 2) for way in runs[0]}
            figures[f"{name}, {split}"] = found
            print(f"{name}, {split}:", found, flush=True)
    print(json.dumps({"benchmark": "one_broadcast", "sites": arguments.sites, **figures}))


if __name__ == "__main__":
    main()
