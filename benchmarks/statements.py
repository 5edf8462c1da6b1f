"""How often the statements that decbayes prints are true, in simulations inside and outside its models.

    python benchmarks/statements.py [--part NAME] [--sets N] [--skip N] [--only TEXT] [--halves] [--jobs N]

Each line is a statement in one setting, a rate, its standard error over data sets, their number, and seconds per set.
`differ`: how often p < 0.05 for equal sites (it should be 5 %) and for sites that differ by half a deviation, how
often a difference is stated, whether the p-values are uniform (Kolmogorov and Smirnov), and how often p < 0.05 in slots
that all sites have found. `worlds`: how often p <
0.05 for simulated worlds, each compared with the others, which share the same values. `pooled`: how often the sites of
logistic regressions are said to differ with all rows in one place; `pooled clusters`: those of overlapping clusters.
`matches`: the probability of a match minus the share of right matches, and how often matches that are at least 95 or
99 % sure are right; inside the model and outside it (heavy tails, correlated features, one component fewer than there
are). `intervals`: how often 90 % intervals of the means of clusters that overlap hold the truth, as they are after one
broadcast and refined and calibrated. `proofs`: how often "proven" is said of a match, and how often that is a match of
the best alignment of all. `slots`: how often what is said about the number of slots is true on new data. `copies`: how
often the same data at two sites are noticed, and how often that is said where there are none. `flags`: how often a
robust merge names a site whose units are wrong, and how often one that is honest. `units`: the same for what a merge
of regressions says about the units of a column, with sites of 20 to 400 rows whose columns spread differently, and
`pounds` with unlike patients whose last site uses pounds, inches or the like. `values`: the same for what a fit says
about values far from the agreed ones, on data of scikit-learn and statsmodels and on skewed columns. `separation`,
`overdispersion`, `noise` (of linear regressions), `majority` (two of three sites of a regression), `prior` (wider than
clusters), `skewed` columns and `logarithms` of them, `broadcast` (how far a merge says it is from one fit), `documents`
(topics of few), `twice` (sketches of texts) and `tails` (k̂) are in `_fit_statements.py`. --only takes the settings
whose names contain a text, --skip the data sets from there on. The last line is one JSON object.
"""

import argparse
import json
import os
import re
import sys
import time
import warnings
from functools import partial
from itertools import product
from pathlib import Path
from typing import NamedTuple

sys.path.sort(key=lambda folder: folder == str(Path(__file__).parent))
for threads in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ.setdefault(threads, "1")

import numpy as np
from _fit_statements import STATEMENTS, judged
from joblib import Parallel, delayed
from scipy.stats import kstest

import decbayes as db
from decbayes.calibration.differences import WORLDS, chance_of, simulated_spreads, small_enough
from decbayes.calibration.matches import Matches
from decbayes.calibration.worlds import in_common_terms, worlds_of
from decbayes.merging.reading import Spread
from decbayes.models.core.registry import model_for
from decbayes.models.regressions.messages.doubts import of_values
from decbayes.remarks import FAR_VALUES
from decbayes.views import view_of

DISPERSION = 1.5
LEAST_HELD = 5.0
CORNERS = np.array([[0.0, 0.0], [1.0, 0.0], [0.5, 0.87]])


def clusters(covariance, apart, sites, rows, between=0.0):
    """Sites with their own weights of three round clusters, whose centres lie `apart` deviations from each other."""

    def drawn(rng):
        shape = {"covariance": covariance} if covariance else {"variance": 1.0, "prior_variance": 20.0}
        model = db.GaussianMixture(3, 2, **shape)
        shards = []
        for _ in range(sites):
            labels = rng.choice(3, size=rows, p=rng.dirichlet([5, 5, 5]))
            centres = apart * CORNERS + between * rng.normal(size=(3, 2))
            shards.append(centres[labels] + rng.normal(size=(rows, 2)))
        return model, shards

    return drawn


def with_gaps(drawn, share):
    """The same sites, with this share of all values missing completely at random."""

    def incomplete(rng):
        model, shards = drawn(rng)
        if isinstance(model, db.HiddenMarkov):
            return model, [[without(sequence, share, rng) for sequence in shard] for shard in shards]
        return model, [without(shard, share, rng) for shard in shards]

    return incomplete


def without(points, share, rng):
    return np.where(rng.random(points.shape) < share, np.nan, points)


def classes(apart, sites, rows, between=0.0):
    """Three classes of eight yes/no columns with probabilities 0.5 ± `apart`; `between` is in their deviations."""

    def drawn(rng):
        shares = np.where(rng.random((3, 8)) < 0.5, 0.5 - apart, 0.5 + apart)
        model = db.LatentClasses(3, columns={f"c{column}": "yes/no" for column in range(8)})
        labels = [rng.choice(3, size=rows, p=rng.dirichlet([5, 5, 5])) for _ in range(sites)]
        if not between:
            return model, [(rng.random((rows, 8)) < shares[label]).astype(float) for label in labels]
        steps = between * np.sqrt(shares * (1.0 - shares)) * rng.normal(size=(sites, 3, 8))
        of_sites = np.clip(shares + steps, 0.02, 0.98)
        pairs = zip(of_sites, labels, strict=True)
        return model, [(rng.random((rows, 8)) < site[label]).astype(float) for site, label in pairs]

    return drawn


def mixed(sites, rows, between=0.0):
    """Three classes of two real columns, a count and two yes/no columns; `between` is of the real ones."""
    means, counts = np.array([[0.0, 0.0], [2.5, 0.8], [1.9, 4.2]]), np.array([1.0, 5.0, 2.0])
    shares = np.array([[0.1, 0.5], [0.6, 0.3], [0.4, 0.7]])

    def drawn(rng):
        kinds = {"a": "real", "b": "real", "c": "count", "d": "yes/no", "e": "yes/no"}
        shards = []
        for _ in range(sites):
            label = rng.choice(3, size=rows, p=[0.4, 0.3, 0.3])
            real = (means + between * rng.normal(size=means.shape))[label] + rng.normal(size=(rows, 2))
            shards.append(np.column_stack([real, rng.poisson(counts[label]), rng.random((rows, 2)) < shares[label]]))
        return db.LatentClasses(3, columns=kinds), shards

    return drawn


def states(apart, sites, sequences, length, between=0.0):
    """Two states of one real column, `apart` deviations from each other."""

    def drawn(rng):
        model = db.HiddenMarkov(2, columns={"x": "real"})
        centres = [np.array([0.0, apart]) + (between * rng.normal(size=2) if between else 0.0) for _ in range(sites)]
        return model, [[chain(rng, site, length) for _ in range(sequences)] for site in centres]

    return drawn


def chain(rng, centres, length):
    path = np.cumsum(rng.random(length) < 0.2) % 2
    return (centres[path] + rng.normal(size=length))[:, None]


def real_clusters(name, covariance, count):
    """Three random parts of a real table, in standard deviations: the sites are the same, and no model is true."""

    def drawn(rng):
        from sklearn import datasets

        table = getattr(datasets, f"load_{name}")().data[:, :5]
        table = (table - table.mean(axis=0)) / table.std(axis=0)
        model = db.GaussianMixture(count, table.shape[1], covariance=covariance)
        return model, np.array_split(table[rng.permutation(len(table))], 3)

    return drawn


def regression(kind, sites, rows, between=0.0):
    """Two real columns and a yes/no column; `between` is the deviation of a slope between sites."""
    kinds = {"linear": "real", "logistic": "yes/no", "poisson": "count", "negative binomial": "count"}
    models = {
        "linear": db.LinearRegression,
        "logistic": db.LogisticRegression,
        "poisson": db.PoissonRegression,
        "negative binomial": partial(db.NegativeBinomialRegression, dispersion=DISPERSION),
    }

    def drawn(rng):
        model = models[kind]("y", columns={"x": "real", "z": "real", "b": "yes/no", "y": kinds[kind]})
        shards = []
        for _ in range(sites):
            table = np.column_stack([rng.normal(size=(rows, 2)), rng.random(rows) < 0.3])
            mean = table @ [0.5 + between * rng.normal(), -0.3, 0.4] - 0.2
            shards.append(np.column_stack([table, outcomes(kind, mean, rng)]))
        return model, shards

    return drawn


def outcomes(kind, mean, rng):
    if kind == "linear":
        return mean + rng.normal(size=len(mean))
    if kind == "logistic":
        return (rng.random(len(mean)) < 1.0 / (1.0 + np.exp(-mean))).astype(float)
    if kind == "negative binomial":
        mean = mean + np.log(rng.gamma(DISPERSION, 1.0 / DISPERSION, size=len(mean)))
    return rng.poisson(np.exp(mean)).astype(float)


def rates(sites, rows):
    """Counts of rows that were observed for unequal times, longer where x is large."""

    def drawn(rng):
        columns = {"x": "real", "b": "yes/no", "years": db.columns.Gaussian(3.0, 2.0), "y": "count"}
        model, shards = db.PoissonRegression("y", columns=columns, terms=("x", "b"), offset="log(years)"), []
        for _ in range(sites):
            table = np.column_stack([rng.normal(size=rows), rng.random(rows) < 0.3])
            years = rng.gamma(2.0, 1.5, size=rows) * np.exp(0.3 * table[:, 0])
            shards.append(np.column_stack([table, years, rng.poisson(years * np.exp(table @ [0.5, 0.4] - 1.0))]))
        return model, shards

    return drawn


SAME = {
    "known variance, apart, 10 × 50": clusters(None, 6.0, 10, 50),
    "known variance, overlapping, 10 × 50": clusters(None, 2.5, 10, 50),
    "known variance, overlapping, 30 × 15": clusters(None, 2.5, 30, 15),
    "spherical, overlapping, 5 × 100": clusters("spherical", 2.5, 5, 100),
    "diagonal, apart, 10 × 60": clusters("diagonal", 6.0, 10, 60),
    "diagonal, overlapping, 5 × 300": clusters("diagonal", 2.5, 5, 300),
    "diagonal, less overlapping, 5 × 300": clusters("diagonal", 3.5, 5, 300),
    "full, apart, 10 × 60": clusters("full", 6.0, 10, 60),
    "full, overlapping, 5 × 100": clusters("full", 2.5, 5, 100),
    "latent classes, 10 × 100": classes(0.3, 10, 100),
    "latent classes, 20 × 40": classes(0.4, 20, 40),
    "latent classes, 10 × 100, 20 % missing": with_gaps(classes(0.4, 10, 100), 0.2),
    "latent classes, 4 × 150, 30 % missing": with_gaps(classes(0.4, 4, 150), 0.3),
    "latent classes, 6 × 100, 50 % missing": with_gaps(classes(0.4, 6, 100), 0.5),
    "mixed columns, 4 × 150": mixed(4, 150),
    "mixed columns, 4 × 150, 30 % missing": with_gaps(mixed(4, 150), 0.3),
    "mixed columns, 8 × 100, 50 % missing": with_gaps(mixed(8, 100), 0.5),
    "hidden Markov, 8 × 3 sequences of 20": states(3.0, 8, 3, 20),
    "hidden Markov, 8 × 3 sequences of 20, 30 % missing": with_gaps(states(3.0, 8, 3, 20), 0.3),
    "hidden Markov, overlapping, 8 × 3 sequences of 20": states(1.5, 8, 3, 20),
    "wine, three random parts, diagonal": real_clusters("wine", "diagonal", 3),
    "wine, three random parts, full": real_clusters("wine", "full", 3),
    "iris, three random parts, diagonal": real_clusters("iris", "diagonal", 3),
    "iris, three random parts, full": real_clusters("iris", "full", 3),
    "cancer, three random parts, diagonal": real_clusters("breast_cancer", "diagonal", 2),
    "cancer, three random parts, full": real_clusters("breast_cancer", "full", 2),
    "linear regression, 5 × 15": regression("linear", 5, 15),
    "linear regression, 30 × 15": regression("linear", 30, 15),
    "logistic regression, 10 × 20": regression("logistic", 10, 20),
    "logistic regression, 20 × 60": regression("logistic", 20, 60),
    "logistic regression, 10 × 20, first broadcasts": regression("logistic", 10, 20),
    "logistic regression, 5 × 100, first broadcasts": regression("logistic", 5, 100),
    "Poisson regression, 20 × 20": regression("poisson", 20, 20),
    "Poisson regression, 5 × 100": regression("poisson", 5, 100),
    "Poisson regression, 20 × 20, first broadcasts": regression("poisson", 20, 20),
    "Poisson rates, 5 × 60, first broadcasts": rates(5, 60),
    "Poisson rates, 10 × 40, first broadcasts": rates(10, 40),
    "negative binomial regression, 10 × 60": regression("negative binomial", 10, 60),
    "negative binomial regression, 20 × 20": regression("negative binomial", 20, 20),
    "logistic regression, 10 × 20, after rounds": regression("logistic", 10, 20),
    "Poisson regression, 20 × 20, after rounds": regression("poisson", 20, 20),
    "negative binomial regression, 20 × 20, after rounds": regression("negative binomial", 20, 20),
}
DIFFERENT = {
    "known variance, apart, 10 × 50, differing": clusters(None, 6.0, 10, 50, 0.5),
    "known variance, apart, 10 × 100, differing": clusters(None, 6.0, 10, 100, 0.5),
    "diagonal, apart, 10 × 100, differing": clusters("diagonal", 6.0, 10, 100, 0.5),
    "diagonal, overlapping, 5 × 300, differing": clusters("diagonal", 2.5, 5, 300, 0.5),
    "full, apart, 10 × 100, differing": clusters("full", 6.0, 10, 100, 0.5),
    "latent classes, 10 × 100, differing": classes(0.3, 10, 100, 0.5),
    "mixed columns, 4 × 150, 30 % missing, differing": with_gaps(mixed(4, 150, 0.5), 0.3),
    "hidden Markov, 8 × 3 sequences of 20, differing": states(3.0, 8, 3, 20, 0.5),
    "linear regression, 10 × 40, differing": regression("linear", 10, 40, 0.5),
    "logistic regression, 10 × 60, differing": regression("logistic", 10, 60, 0.5),
    "logistic regression, 20 × 100, differing": regression("logistic", 20, 100, 0.5),
    "Poisson regression, 10 × 60, differing": regression("poisson", 10, 60, 0.5),
    "negative binomial regression, 10 × 60, differing": regression("negative binomial", 10, 60, 0.5),
    "logistic regression, 20 × 100, differing, after rounds": regression("logistic", 20, 100, 0.5),
}


def aligned(drawn, seed, name, halves=False):
    """The alignment of sites' fits, of what they broadcast first, or of what they have after two rounds.

    With `halves` sites that are alone say how far random halves of their rows are apart.
    """
    rng = np.random.default_rng([seed, 25])
    model, shards = drawn(rng)
    if "first broadcasts" not in name and "after rounds" not in name:
        return db.align(said(model, [fit.posterior for fit in model.fit_many(shards, rng=rng)], shards, halves))
    first = said(model, [model.fit_site(shard).posterior for shard in shards], shards, halves)
    return db.align(first) if "first broadcasts" in name else db.refine(model, shards, first, rounds=2).alignment


def said(model, posteriors, shards, halves):
    if not halves:
        return posteriors
    return [db.checking.with_halves(model, *site) for site in zip(posteriors, shards, strict=True)]


def differ(options):
    """How often p < 0.05 (5 % is right for equal sites, 95 % or more for others), and a difference is stated."""
    for name in SAME | DIFFERENT:
        if options.only not in name:
            continue
        begun, seeds = time.time(), range(options.skip, options.skip + options.sets)
        jobs = (delayed(differences)(name, seed, options.halves, options.worlds) for seed in seeds)
        found = [one for one in Parallel(n_jobs=options.jobs)(jobs) if len(one.values)]
        values = np.concatenate([[], *(one.values for one in found)])
        uniform = {"uniform": round(float(kstest(values, "uniform").pvalue), 3)} if found else {}
        refused = {
            "stated": rate([one.stated for one in found])["rate"],
            "refused": options.sets - len(found),
            **uniform,
        }
        row = {"statement": "sites differ (p < 0.05)", "setting": name}
        yield {**row, **rate([(one.values < 0.05).mean() for one in found]), **timed(begun, options), **refused}
        if everywhere := [(one.everywhere < 0.05).mean() for one in found if len(one.everywhere)]:
            yield {**row, "setting": f"{name}: slots that all sites hold", **rate(everywhere)}


class Differences(NamedTuple):
    """The p-values of one data set, whether a difference is stated, and the p-values of slots that all sites hold."""

    values: np.ndarray
    stated: bool
    everywhere: np.ndarray


def differences(name, seed, halves, count):
    warnings.simplefilter("ignore")
    alignment = aligned((SAME | DIFFERENT)[name], seed, name, halves)
    ((coupled, compared),) = db.checking.heterogeneity(alignment, worlds=count).items()
    values, stated = compared.probability, any(compared.differ(slot) for slot in range(len(compared.ratio)))
    finite = np.isfinite(values)
    return Differences(values[finite], stated, values[finite & held_everywhere(alignment, coupled)])


def held_everywhere(alignment, coupled):
    """The slots of which each site's fit has found at least five points; for coefficients, which have none, no slot."""
    if coupled not in alignment.structure.symmetry:
        return False
    return (alignment.shared()[coupled].evidence >= LEAST_HELD).all(axis=0)


def worlds(options):
    """How often p < 0.05 for slots of a simulated world, compared with the other worlds of the same data set."""
    for name, drawn in SAME.items():
        if options.only not in name or "regression" in name:
            continue
        shares, begun = [], time.time()
        for seed in range(options.skip, options.skip + options.sets):
            setting = in_common_terms(small_enough(aligned(drawn, seed, name), None))
            spreads, _ = simulated_spreads(worlds_of(setting), options.worlds or WORLDS)
            shares.append(float(np.mean(against_each_other(spreads) < 0.05)))
        row = {"statement": "a simulated world differs from the others (p < 0.05)", "setting": name}
        yield {**row, **rate(shares), **timed(begun, options)}


def against_each_other(spreads):
    """The p-values of all slots of each world, given the others."""
    found = []
    for number, one in enumerate(zip(*spreads, strict=True)):
        others, world = Spread(*(np.delete(part, number, axis=0) for part in spreads)), Spread(*one)
        found.append(chance_of(others, world.freedom).probability(world.relative))
    return np.concatenate(found)[np.isfinite(np.concatenate(found))]


def pooled(options):
    """Likelihood ratios of all rows in one place: all coefficients by site, each one by site, and the largest of these.

    Their 95 % quantiles are those of as many data sets of equal sites, so that all have the right size.
    """
    for name, drawn in DIFFERENT.items():
        if options.only not in name or not name.startswith("logistic") or "rounds" in name:
            continue
        sites, rows = (int(number) for number in re.findall(r"\d+", name)[:2])
        sets, begun = range(options.skip, options.skip + options.sets), time.time()
        equal, different = (
            np.array([likelihood_ratios(each(np.random.default_rng([seed, 25]))[1]) for seed in sets])
            for each in (regression("logistic", sites, rows), drawn)
        )
        ratios = [np.column_stack([part, part[:, 1:].max(axis=1)]) for part in (equal, different)]
        found = ratios[1] > np.quantile(ratios[0], 0.95, axis=0)
        for test, share in zip(("all", "intercept", "x", "z", "b", "the largest of these"), found.T, strict=True):
            row = {"statement": f"rows in one place, by site: {test}", "setting": name}
            yield {**row, **rate(share), **timed(begun, options)}


def pooled_clusters(options):
    """The same for clusters with diagonal covariances: each cluster by site, of a mixture fitted to all points."""
    for name, drawn in DIFFERENT.items():
        if options.only not in name or not name.startswith("diagonal, overlapping"):
            continue
        sets, begun = range(options.skip, options.skip + options.sets), time.time()
        equal, different = (
            np.array([mixture_ratios(each(np.random.default_rng([seed, 25]))[1]) for seed in sets])
            for each in (SAME[name.removesuffix(", differing")], drawn)
        )
        found = different > np.quantile(equal, 0.95)
        row = {"statement": "points in one place, by site: each cluster", "setting": name}
        yield {**row, **rate(found.mean(axis=1)), **timed(begun, options)}


def mixture_ratios(shards, apart=2.5):
    """Twice the gain in log-likelihood if one of three diagonal clusters after the other has its own values by site."""
    truth = np.tile(apart * CORNERS, (len(shards), 1, 1)), np.ones((len(shards), 3, 2))
    height, start = climbed(shards, truth, ())
    return [2.0 * (climbed(shards, start, (slot,))[0] - height) for slot in range(3)]


def climbed(shards, start, by_site, passes=300):
    """The log-likelihood of a mixture, and its means and variances (site, cluster, column), after steps of EM."""
    means, variances = (part.copy() for part in start)
    weights = np.full((len(shards), 3), 1.0 / 3.0)
    for _ in range(passes):
        sums, height = np.zeros((len(shards), 3, 5)), 0.0
        for site, points in enumerate(shards):
            squares = (points[:, None] - means[site]) ** 2 / variances[site] + np.log(2.0 * np.pi * variances[site])
            log = np.log(weights[site]) - 0.5 * squares.sum(axis=2)
            total = np.logaddexp.reduce(log, axis=1)
            height += total.sum()
            share = np.exp(log - total[:, None])
            weights[site] = share.mean(axis=0)
            sums[site] = share.T @ np.column_stack([np.ones(len(points)), points, points**2])
        for slot in range(3):
            part = sums[:, slot] if slot in by_site else np.tile(sums[:, slot].sum(axis=0), (len(shards), 1))
            means[:, slot] = part[:, 1:3] / part[:, :1]
            # A cluster of a few points must not become a spike.
            variances[:, slot] = np.maximum(part[:, 3:] / part[:, :1] - means[:, slot] ** 2, 0.05)
    return float(height), (means, variances)


def likelihood_ratios(shards):
    """Twice the gain in log-likelihood if all coefficients of a logistic regression, or one after the other, differ."""
    designs, targets = [np.insert(rows[:, :-1], 0, 1.0, axis=1) for rows in shards], [rows[:, -1] for rows in shards]
    together, outcomes_of_all = np.concatenate(designs), np.concatenate(targets)
    common = log_likelihood(together, outcomes_of_all)
    site = np.repeat(np.eye(len(shards)), [len(rows) for rows in shards], axis=0)
    heights = [sum(map(log_likelihood, designs, targets))]
    for place in range(together.shape[1]):
        own = site * together[:, [place]]
        heights.append(log_likelihood(np.column_stack([np.delete(together, place, axis=1), own]), outcomes_of_all))
    return 2.0 * (np.array(heights) - common)


def log_likelihood(design, targets, ridge=1e-4, passes=30):
    """That of a logistic regression at its maximum, by Newton's method with short steps."""
    beta = np.zeros(design.shape[1])
    for _ in range(passes):
        mean = 1.0 / (1.0 + np.exp(-design @ beta))
        curvature = (design * (mean * (1.0 - mean))[:, None]).T @ design + ridge * np.eye(len(beta))
        step = np.linalg.solve(curvature, design.T @ (targets - mean) - ridge * beta)
        beta = beta + step * min(1.0, 3.0 / np.abs(step).max())
    linear = design @ beta
    return float(targets @ linear - np.logaddexp(0.0, linear).sum())


def heavy(rng, size):
    """Student's t with three degrees of freedom, of variance one."""
    return rng.standard_t(3, size=size) / np.sqrt(3.0)


def correlated(rng, size):
    """Two features with correlation 0.7."""
    return rng.normal(size=size) @ np.array([[1.0, 0.0], [0.7, np.sqrt(1.0 - 0.49)]]).T


NOISES = {
    "inside the model": (lambda rng, size: rng.normal(size=size), 5),
    "heavy tails": (heavy, 5),
    "correlated features": (correlated, 5),
    "one component fewer": (lambda rng, size: rng.normal(size=size), 4),
}


def judged_matches(name, seed, sites=6, rows=40):
    """The probabilities of matches of one data set, and whether each is right: by the cluster of most of its points."""
    rng = np.random.default_rng([seed, 26])
    noise, components = NOISES[name]
    model = db.GaussianMixture(components, 2, variance=1.0, prior_variance=30.0)
    centres = rng.normal(0.0, 4.0, size=(5, 2))
    labels = [rng.choice(5, size=rows, p=rng.dirichlet(np.full(5, 2.0))) for _ in range(sites)]
    shards = [centres[label] + noise(rng, (rows, 2)) for label in labels]
    alignment = db.align([fit.posterior for fit in model.fit_many(shards, rng=rng)])
    try:
        known = db.merging.confidence(alignment, db.checking.reliability(alignment, matches=100))
    except db.errors.NotCalibrated:
        return None
    (coupled,) = alignment.structure.symmetry
    shares = [np.eye(5)[label] for label in labels]
    pairs = zip(alignment.posteriors, shards, shares, strict=True)
    truths = [model_for(own.structure).assign(own, shard).T @ share for own, shard, share in pairs]
    matches = Matches.of(alignment, coupled, [np.zeros(len(truth)) for truth in truths], truths)
    said = np.concatenate([site[coupled] for site in known.probabilities])
    return said[~np.isnan(said)], matches.right


def matches(options):
    for name in NOISES:
        if options.only not in name:
            continue
        begun = time.time()
        found = [judged_matches(name, seed) for seed in range(options.skip, options.skip + options.sets)]
        known = [each for each in found if each is not None]
        refused = {"refused": len(found) - len(known)}
        gaps = [float(np.mean(said) - np.mean(right)) for said, right in known]
        yield {"statement": "said minus right", "setting": name, **rate(gaps), **timed(begun, options), **refused}
        for level in (0.95, 0.99):
            sure = [float(right[said >= level].mean()) for said, right in known if (said >= level).any()]
            yield {"statement": f"at least {level:.0%} sure, and right", "setting": name, **rate(sure)}


def intervals(options):
    """Two overlapping clusters at eight sites of fifty points."""
    plain, calibrated, begun = [], [], time.time()
    model = db.GaussianMixture(2, 1, variance=0.25, prior_variance=4.0)
    for seed in range(options.skip, options.skip + options.sets):
        rng = np.random.default_rng([seed, 27])
        labels = rng.integers(2, size=(8, 50))
        shards = [0.7 * (2.0 * label[:, None] - 1.0) + 0.5 * rng.normal(size=(50, 1)) for label in labels]
        posteriors = [fit.posterior for fit in model.fit_many(shards, rng=rng)]
        refined = db.refine(model, shards, posteriors, rng=rng).merged
        plain.append(held(db.merge(posteriors)))
        calibrated.append(held(db.calibrate(model, shards, refined)))
    for name, shares in (("mean field, one broadcast", plain), ("refined and calibrated", calibrated)):
        if options.only in name:
            row = {"statement": "a 90 % interval holds the truth", "setting": name}
            yield {**row, **rate(shares), **timed(begun, options)}


def held(posterior):
    order = np.argsort(posterior.mean("components")[:, 0])
    lower, upper = (part[order, 0] for part in posterior.interval("components"))
    truth = np.array([-0.7, 0.7])
    return float(((lower <= truth) & (truth <= upper)).mean())


def proofs(options):
    """Three sites with three clusters: all alignments can be tried."""
    for name, apart in (("clusters apart", 8.0), ("clusters that overlap", 2.5)):
        if options.only not in name:
            continue
        said, true, begun = [], [], time.time()
        for seed in range(options.skip, options.skip + options.sets):
            rng = np.random.default_rng([seed, 28])
            _, shards = clusters(None, apart, 3, 40)(rng)
            model = db.GaussianMixture(3, 2, variance=1.0, prior_variance=20.0)
            posteriors = [fit.posterior for fit in model.fit_many(shards, rng=rng)]
            found = db.align(posteriors, solver="matching")
            best = db.align(posteriors, solver=db.solvers.Exhaustive())
            (coupled,) = found.structure.symmetry
            marked = np.array([site[coupled] for site in db.merging.proven(found)])
            together, best_together = (partners(each.slots(coupled)) for each in (found, best))
            right = (together & best_together).any(axis=(2, 3))
            said.append(float(marked.mean()))
            true += [float(right[marked].mean())] if marked.any() else []
        yield {"statement": "a match is proven", "setting": name, **rate(said), **timed(begun, options)}
        if true:
            yield {"statement": "proven, and in the best alignment", "setting": name, **rate(true)}


def partners(slots):
    """(sites, components, sites, components): whether two components of different sites share a slot."""
    labels = np.array(slots)
    same = labels[:, :, None, None] == labels[None, None]
    same[np.arange(len(labels)), :, np.arange(len(labels))] = False
    return same


NUMBERS = {
    "clusters apart": (6.0, lambda rng, size: rng.normal(size=size)),
    "clusters that overlap": (2.5, lambda rng, size: rng.normal(size=size)),
    "heavy tails": (6.0, heavy),
}
CLEARLY = 0.05  # nats per observation


def slots(options):
    """Five clusters, of which each of six sites sees three and fits three components; what more slots gain is known."""
    for name, (apart, noise) in NUMBERS.items():
        if options.only not in name:
            continue
        found, enough, few, begun = [], [], [], time.time()
        for seed in range(options.skip, options.skip + options.sets):
            rng = np.random.default_rng([seed, 29])
            centres = apart * np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [2.0, 0.5]])
            labels = [rng.choice(rng.permutation(5)[:3], size=60) for _ in range(6)]
            shards = [centres[label] + noise(rng, (60, 2)) for label in labels]
            new = centres[rng.choice(np.concatenate(labels), size=1000)] + noise(rng, (1000, 2))
            model = db.GaussianMixture(3, 2, covariance="diagonal")
            posteriors = [fit.posterior for fit in model.fit_many(shards, rng=rng)]
            automatic, default = (db.align(posteriors, components=number) for number in ("auto", None))
            found += [float(number_of(automatic) == 5)] if "joining any two" in automatic.reason else []
            better = gain_of_more(posteriors, default, new) > CLEARLY
            warned = [remark for remark in db.merging.remarks(default) if remark.kind == "few slots"]
            enough += [float(not better)] if "no better" in default.reason and not warned else []
            few += [float(better)] if any(remark.is_warning for remark in warned) else []
            narrow = db.align(posteriors, components=3)
            if any(remark.kind == "few slots" and remark.is_warning for remark in db.merging.remarks(narrow)):
                few.append(float(gain_of_more(posteriors, narrow, new) > CLEARLY))
        said = {"auto: this many": found, "default: more would be no better": enough, "more slots would be better": few}
        for statement, true in said.items():
            if true:
                yield {"statement": statement, "setting": name, **rate(true), **timed(begun, options)}


def number_of(alignment):
    return alignment.structure.components(alignment.structure.symmetry[0])


def gain_of_more(posteriors, alignment, new):
    """How much better new data are predicted with one, two or twice as many slots, at best."""
    merged, number = alignment.merged(), number_of(alignment)
    score = model_for(merged.structure).score(merged, new)
    more = [db.align(posteriors, components=number + further).merged() for further in (1, 2, number)]
    return max(model_for(wide.structure).score(wide, new) for wide in more) - score


def copies(options):
    """Six sites of forty rows; or a seventh has the rows of the first, fitted from another start."""
    worlds = {"clusters": clusters("diagonal", 4.0, 6, 40), "latent classes": classes(0.4, 6, 40)}
    for name, drawn in worlds.items():
        for twice in (True, False):
            setting, said, begun = f"{name}, {'one site twice' if twice else 'no copies'}", [], time.time()
            for seed in range(options.skip, options.skip + options.sets if options.only in setting else 0):
                rng = np.random.default_rng([seed, 30])
                model, shards = drawn(rng)
                posteriors = [fit.posterior for fit in model.fit_many(shards, rng=rng)]
                posteriors += [model.fit(shards[0][::-1], rng=rng).posterior] if twice else []
                remarks = db.merging.remarks(db.align(posteriors))
                said.append(float(any(remark.kind == "counted twice" for remark in remarks)))
            if said:
                yield {
                    "statement": "the same data count twice",
                    "setting": setting,
                    **rate(said),
                    **timed(begun, options),
                }


def flags(options):
    """Eight sites; in some data sets the last has units ten or a hundred times larger."""
    worlds = {
        "known variance, 8 × 50": clusters(None, 6.0, 8, 50),
        "diagonal, 8 × 50": clusters("diagonal", 6.0, 8, 50),
        "diagonal, 8 × 20": clusters("diagonal", 6.0, 8, 20),
        "linear regression, 8 × 50": regression("linear", 8, 50),
    }
    for name, drawn in worlds.items():
        for times in (1.0, 10.0, 100.0):
            setting = f"{name}, units × {times:g}" if times > 1.0 else f"{name}, all honest"
            if options.only not in setting:
                continue
            faulty, honest, begun = [], [], time.time()
            for seed in range(options.skip, options.skip + options.sets):
                rng = np.random.default_rng([seed, 31])
                model, shards = drawn(rng)
                shards[-1] = times * shards[-1]
                posteriors = [fit.posterior for fit in model.fit_many(shards, rng=rng)]
                named = [standing.flagged for standing in db.merging.robust_merge(posteriors).sites]
                faulty.append(float(named[-1]))
                honest.append(float(np.mean(named[:-1])))
            if times > 1.0:
                yield {"statement": "a site with wrong units is named", "setting": setting, **rate(faulty)}
            yield {"statement": "an honest site is named", "setting": setting, **rate(honest), **timed(begun, options)}


def units(options):
    """Sites of unlike sizes and spreads of their columns; in some data sets the last has x in another unit."""
    for kind in ("linear", "logistic", "poisson"):
        for sites, times in ((3, 1.0), (3, 10.0), (3, 100.0), (8, 1.0), (8, 10.0), (8, 100.0)):
            setting = f"{kind}, {sites} sites, " + (f"units × {times:g}" if times > 1.0 else "all honest")
            if options.only not in setting:
                continue
            faulty, honest, begun = [], [], time.time()
            for seed in range(options.skip, options.skip + options.sets):
                rng = np.random.default_rng([seed, 32])
                model, _ = regression(kind, 1, 1)(rng)
                shards = [of_unlike_spread(kind, rng) for _ in range(sites)]
                shards[-1][:, 0] *= times
                named = named_units(model, shards)
                faulty.append(float(named.pop(sites - 1, "") == "x"))
                honest.append(float(len(named) > 0 or (times == 1.0 and faulty[-1] > 0.0)))
            if times > 1.0:
                yield {"statement": "a site has a column in another unit", "setting": setting, **rate(faulty)}
            yield {"statement": "an honest site is named", "setting": setting, **rate(honest), **timed(begun, options)}


def named_units(model, shards):
    """The column of each site that a merge says to be in another unit."""
    alignment = db.align([model.fit_site(shard).posterior for shard in shards])
    return {site: column for site, column, _ in view_of(alignment.structure).other_units(alignment)}


PATIENTS = {
    "age": db.columns.Gaussian(60.0, 14.0),
    "weight": db.columns.Gaussian(80.0, 15.0),
    "height": db.columns.Gaussian(170.0, 9.0),
    "heat": db.columns.Gaussian(37.2, 0.7),
    "protein": db.columns.Gaussian(12.0, 15.0),
    "ward": db.columns.Categorical(*"abcdef"),
}
CHANGED = {
    "all honest": ("", 1.0, 0.0),
    "pounds": ("weight", 2.2046, 0.0),
    "inches": ("height", 1.0 / 2.54, 0.0),
    "Fahrenheit": ("heat", 1.8, 32.0),
    "months": ("age", 12.0, 0.0),
    "metres": ("height", 0.01, 0.0),
    "grams": ("weight", 1000.0, 0.0),
    "protein × 10": ("protein", 10.0, 0.0),
    "protein × 100": ("protein", 100.0, 0.0),
}


def pounds(options):
    """Three to ten sites of unlike patients, 20 to 200 each; the second site has children or the very old, and some
    have two of six wards. The last has a column in another unit.
    """
    kinds = {"linear": (db.LinearRegression, db.columns.Gaussian(0.0, 1.0)),
             "logistic": (db.LogisticRegression, db.columns.YesNo()),
             "poisson": (db.PoissonRegression, db.columns.Poisson(1.0))}  # fmt: skip
    for (kind, (regress, target)), (change, (column, times, shift)) in product(kinds.items(), CHANGED.items()):
        setting, faulty, honest, begun = f"{kind}, {change}", [], [], time.time()
        for seed in range(options.skip, options.skip + options.sets if options.only in setting else 0):
            rng = np.random.default_rng([seed, 34])
            shards = [unlike_patients(kind, rng, unusual=site == 1) for site in range(rng.integers(3, 11))]
            if column:
                shards[-1][column] = shift + times * shards[-1][column]
            named = named_units(regress("y", columns={**PATIENTS, "y": target}), shards)
            faulty.append(float(bool(column) and named.pop(len(shards) - 1, "") == column))
            honest.append(float(len(named) > 0))
        if faulty and column:
            yield {"statement": "a site has a column in another unit", "setting": setting, **rate(faulty)}
        if faulty:
            yield {"statement": "an honest site is named", "setting": setting, **rate(honest), **timed(begun, options)}


def unlike_patients(kind, rng, *, unusual):
    rows = round(np.exp(rng.uniform(np.log(20), np.log(200))))
    children = unusual and rng.random() < 0.5
    centre, scale = (80.0, 6.0) if unusual else (60.0 + 8.0 * rng.normal(), 14.0 * np.exp(0.25 * rng.normal()))
    age = rng.uniform(0.0, 18.0, rows) if children else np.clip(rng.normal(centre, scale, rows), 0.0, 105.0)
    weight = 10.0 + 3.0 * age + rng.normal(0.0, 4.0, rows) if children else rng.normal(80 + 5 * rng.normal(), 15, rows)
    height = 60.0 + 6.0 * age + rng.normal(0.0, 6.0, rows) if children else rng.normal(170 + 3 * rng.normal(), 9, rows)
    heat, protein = rng.normal(37.2, 0.7, rows), np.exp(rng.normal(2.0 + 0.5 * rng.normal(), 1.0, rows))
    shares = np.array([0.5, 0.5, 0, 0, 0, 0]) if rng.random() < 0.3 else rng.dirichlet([3.0] * 6)
    ward = rng.choice(6, size=rows, p=shares)
    linear = 0.02 * (age - 60) + 0.01 * (weight - 80) + 0.01 * (height - 170) + 0.3 * (heat - 37) + 0.005 * protein
    y = outcomes(kind, np.clip(linear + 0.4 * (ward == 1) - 0.3 * (ward == 4) - 0.3, -5.0, 4.0), rng)
    values = {"age": age, "weight": weight, "height": height, "heat": heat, "protein": protein}
    return {**values, "ward": np.array(list("abcdef"))[ward], "y": y.astype(bool) if kind == "logistic" else y}


def of_unlike_spread(kind, rng):
    """Rows of a site whose real columns spread by factors of 0.5 to 2 (95 %) of those of others."""
    rows = round(np.exp(rng.uniform(np.log(20), np.log(400))))
    table = np.column_stack([np.exp(0.35 * rng.normal(size=2)) * rng.normal(size=(rows, 2)), rng.random(rows) < 0.3])
    return np.column_stack([table, outcomes(kind, table @ [0.5, -0.3, 0.4] - 0.2, rng)])


def values(options):
    """Sites of real data, at random or sorted by a column; units agreed by all sites, or those of the first site."""
    changes = {
        "all honest": lambda column: column,
        "units / 10": lambda column: column / 10.0,
        "units × 10": lambda column: column * 10.0,
        "every twentieth 999": lambda column: np.where(np.arange(len(column)) % 20 == 0, 999.0, column),
    }
    frames = {**real_frames(), "skewed": None}
    for (change, changed), split, agreed in product(changes.items(), ("random", "sorted"), ("all", "first")):
        setting, said, coded, begun = f"{split}, units of {agreed}, {change}", [], [], time.time()
        for seed in range(options.skip, options.skip + options.sets if options.only in setting else 0):
            rng = np.random.default_rng([seed, 33])
            for table in (skewed(rng) if each is None else each for each in frames.values()):
                keys = rng.normal(size=len(table)) if split == "random" else table[:, rng.integers(table.shape[1])]
                shards = np.array_split(table[np.argsort(keys, kind="stable")], rng.integers(3, 9))
                found = [[db.columns.Gaussian.found_in(column) for column in shard.T] for shard in shards]
                whole = [db.columns.Gaussian.agreed(each) for each in zip(*found, strict=True)]
                columns = {str(place): each for place, each in enumerate(whole if agreed == "all" else found[0])}
                last, place = shards[-1].copy(), rng.integers(table.shape[1])
                last[:, place] = changed(last[:, place])
                checked = [last] if change != "all honest" else shards[agreed == "first" :]
                for kinds in ({remark.kind for remark in of_values(columns, each)} for each in checked):
                    said.append(float(FAR_VALUES in kinds))
                    coded.append(float(bool(kinds - {FAR_VALUES})))
        if said:
            yield {"statement": "values look like codes for missing ones", "setting": setting, **rate(coded)}
            yield {"statement": "values are far from the agreed ones", "setting": setting, **rate(said)} | timed(
                begun, options
            )


def real_frames():
    """The real columns of data sets that come with scikit-learn and statsmodels."""
    import statsmodels.datasets
    from sklearn import datasets

    frames = {name: getattr(datasets, f"load_{name}")().data for name in ("breast_cancer", "diabetes", "iris", "wine")}
    for name in ("anes96", "ccard", "copper", "engel", "fair", "grunfeld", "heart", "modechoice", "randhie", "star98"):
        frames[name] = getattr(statsmodels.datasets, name).load_pandas().data.select_dtypes("number").to_numpy(float)
    tables = {name: table[np.isfinite(table).all(axis=1)][:3000] for name, table in frames.items()}
    return {name: table[:, [len(np.unique(column)) > 10 for column in table.T]] for name, table in tables.items()}


def skewed(rng, rows=400):
    """Log-normal columns with deviations of 1 and 2, a Gamma, costs that are mostly zero, and heavy tails."""
    return np.column_stack([
        np.exp(rng.normal(size=rows)), np.exp(2.0 * rng.normal(size=rows)), rng.gamma(0.3, size=rows),
        np.exp(rng.normal(size=rows)) * (rng.random(rows) < 0.1), rng.standard_t(2.0, size=rows),
    ])  # fmt: skip


def rate(shares):
    """The mean over data sets, and its standard error."""
    error = np.std(shares, ddof=1) / np.sqrt(len(shares)) if len(shares) > 1 else np.nan
    mean = np.mean(shares) if len(shares) else np.nan
    return {"rate": round(float(mean), 3), "error": round(float(error), 3), "sets": len(shares)}


def timed(begun, options):
    return {"seconds": round((time.time() - begun) / options.sets, 2)}


PARTS = {
    "differ": differ,
    "worlds": worlds,
    "pooled": pooled,
    "pooled clusters": pooled_clusters,
    "matches": matches,
    "intervals": intervals,
    "proofs": proofs,
    "slots": slots,
    "copies": copies,
    "flags": flags,
    "units": units,
    "pounds": pounds,
    "values": values,
}
PARTS |= {
    name: lambda options, name=name: judged(name, options.sets, options.skip, options.only, rate) for name in STATEMENTS
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", choices=PARTS)
    parser.add_argument("--sets", type=int, default=60)
    parser.add_argument("--skip", type=int, default=0, help="begin with this data set")
    parser.add_argument("--only", default="", help="settings whose names contain this")
    parser.add_argument("--halves", action="store_true", help="with halves of the sites' own rows, in `differ`")
    parser.add_argument("--worlds", type=int, help="simulated worlds of each data set of `differ` and `worlds`")
    parser.add_argument("--jobs", type=int, default=1, help="processes of `differ`")
    parser.add_argument("--quick", action="store_true", help="two data sets only")
    options = parser.parse_args()
    if options.quick:
        options.sets = 2
    warnings.simplefilter("ignore")
    rows = []
    for part in [options.part] if options.part else PARTS:
        for row in PARTS[part](options):
            rows.append(row)
            print(*(f"{value}" for value in row.values()), sep="  ", flush=True)
    print(json.dumps(rows))


if __name__ == "__main__":
    main()
