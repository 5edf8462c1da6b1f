"""What files reveal with and without the disclosure rules, and what the rules cost.

    python benchmarks/disclosure.py [--quick] [--seeds N] [--splits 40] [--only files|states|price|answers|events]
        [--models NAME …] [--data NAME …]

`planted`: one record has something that no other has; a reader of the file alone applies the closed form of
tests/planted.py. The share of seeds in which it finds the planted value.
`membership`: the area under the ROC curve of a likelihood-ratio test that is given one file of so many simulated
records and must tell its records from as many others; 0.5 is chance. Without rules / with them.
`price`: sites at random of a real data set, a quarter of its records held out; the mean log predictive density of these
under the merge without rules minus that with the usual rules, in nats per observation: the mean of `--splits` divisions
into sites and its standard error, since fits with and without rules may end in different optima. For regressions the
mean ratio of posterior standard deviations (with / without). Rare categories count as "other", whose probability is
divided evenly among them. `states`: the same of hidden Markov models, in nats per step, with made-up sequences of four
real columns at four sites: what it costs to hide rare moves. `answers`: a rare yes at eight
sites: its share as merged and how often 90 % intervals contain the true one, without rules, with rare answers taken for
the common one, and with rules. `events`: a logistic regression of an outcome that few have, at ten sites: how far
intercept and slopes are from the true ones, and how often 90 % intervals contain these. Some tables come with
statsmodels (`pip install statsmodels`). Topics have a benchmark of their own. The last line is JSON.
"""

import argparse
import json
import os
import sys
import warnings
from dataclasses import replace
from pathlib import Path

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

import numpy as np
from _data import data_file
from scipy.optimize import brentq
from scipy.special import expit

sys.path.append(str(Path(__file__).parents[1] / "tests"))
from planted import ATTACKS

import decbayes as db
from decbayes.columns import OTHER
from decbayes.disclosure import Rules, guarded, prepared
from decbayes.disclosure.preparing import pooled_columns
from decbayes.errors import DecbayesError, NotDisclosed
from decbayes.inputs.mixed_tables import read_frame

RULES = Rules()
RECORDS, SIZES, SITE = 200, (50, 500, 5000), 200
MODELS = sorted(set(ATTACKS) - {"LatentDirichletAllocation"})


def drafted(model, data, rng, rules):
    """What a site would send: the model of the rules, and its posterior."""
    if rules is None:
        return model, model.fit(data, rng=rng).posterior
    safe = prepared(model, data, rules)
    posterior = safe.model.fit(safe.data, rng=rng).posterior
    return safe.model, guarded(safe.model, posterior, safe.data, rules).posterior


def recovered(name, seed, rules):
    """Whether the reader of a file finds what was planted."""
    rng = np.random.default_rng(seed)
    model, data, planted = ATTACKS[name].draw(rng, RECORDS, True)
    try:
        _, posterior = drafted(model, data, rng, rules)
    except NotDisclosed:
        return False
    return bool(abs(ATTACKS[name].read(posterior) - planted) < 0.02 * planted)


# Models for membership: as large as people fit them.
def columns_of(count):
    real = {f"x{place}": db.columns.Gaussian() for place in range(count - 4)}
    return real | {f"c{place}": db.columns.Categorical("a", "b", "c") for place in range(4)}


def regression(kind, target, **settings):
    columns = {"y": target} | {f"x{place}": db.columns.Gaussian() for place in range(10)}
    return getattr(db, kind)(target="y", columns=columns, **settings)


def survival():
    columns = {"died": db.columns.YesNo(), "days": db.columns.Gaussian(5, 5)}
    columns |= {f"x{place}": db.columns.Gaussian() for place in range(10)}
    terms = [f"x{place}" for place in range(10)]
    settings = {"cuts": (2.0, 4.0), "rate": 0.2, "prior_variance": 0.2}
    return db.SurvivalRegression(target="died", time="days", columns=columns, terms=terms, **settings)


WIDE = {
    "BernoulliMixture": lambda: db.BernoulliMixture(5, 30),
    "CategoricalMixture": lambda: db.CategoricalMixture(5, 20, categories=[4] * 20),
    "GaussianMean": lambda: db.models.GaussianMean(1.0, dimension=20),
    "GaussianMixture": lambda: db.GaussianMixture(10, 20, variance=1.0, prior_variance=4.0),
    "HiddenMarkov": lambda: db.HiddenMarkov(4, columns=columns_of(8)),
    "LatentClasses": lambda: db.LatentClasses(4, columns=columns_of(16)),
    "LatentFeatures": lambda: db.LatentFeatures(4, 16, variance=0.25),
    "LinearRegression": lambda: regression("LinearRegression", db.columns.Gaussian()),
    "LogisticRegression": lambda: regression("LogisticRegression", db.columns.YesNo(), prior_variance=0.5),
    "MultinomialRegression": lambda: regression(
        "MultinomialRegression", db.columns.Categorical("low", "middle", "high"), prior_variance=0.5
    ),
    "NegativeBinomialRegression": lambda: regression(
        "NegativeBinomialRegression", db.columns.Poisson(), prior_variance=0.05
    ),
    "OrderedRegression": lambda: regression(
        "OrderedRegression", db.columns.Categorical("low", "middle", "high"), prior_variance=0.5
    ),
    "PoissonMixture": lambda: db.PoissonMixture(5, 20),
    "PoissonRegression": lambda: regression("PoissonRegression", db.columns.Poisson(), prior_variance=0.05),
    "RegressionMixture": lambda: regression("RegressionMixture", db.columns.Gaussian(), components=2),
    "SurvivalRegression": lambda: survival(),
}


def membership(name, count, seed):
    """The AUC of the test without and with rules; None where these refuse the file."""
    rng = np.random.default_rng(seed)
    model = WIDE[name]()
    if model.structure.symmetry and hasattr(model, "ascent"):
        model = replace(model, ascent=replace(model.ascent, restarts=0, passes=60))
    options = {"length": 20} if name == "HiddenMarkov" else {}
    drawn = db.simulate(model, 2 * count, rng=rng, **options)
    data = drawn.data
    halves = [model.taken(data, np.arange(half * count, (half + 1) * count)) for half in (0, 1)]
    bare = [model.fit(half, rng=seed).posterior for half in halves]
    try:
        safe = [sent(model, half, seed) for half in halves]
    except DecbayesError:
        safe = None
    return ranked_above(model, bare, halves), None if safe is None else ranked_above(model, safe, halves)


def sent(model, data, seed):
    """The posterior as the rules let it leave; the columns are agreed already."""
    ready = prepared(model, data, RULES, agreed=True)
    return guarded(model, model.fit(ready.data, rng=seed).posterior, ready.data, RULES).posterior


def ranked_above(model, files, halves):
    """How often the test ranks a record of the first file above another."""
    inside, outside = (model.log_predictive(files[0], half) - model.log_predictive(files[1], half) for half in halves)
    order = np.sort(outside)
    below = np.searchsorted(order, inside, side="left") + np.searchsorted(order, inside, side="right")
    return float(below.mean() / (2 * len(order)))


def averaged(tests):
    """Means over seeds; None where the rules refused a file."""
    bare, safe = zip(*tests, strict=True)
    return float(np.mean(bare)), None if None in safe else float(np.mean(safe))


def table_of(name):
    """A real table, what it holds, and what is asked of it."""
    from sklearn import datasets

    if name in ("fair", "anes96", "randhie"):
        return survey(name)
    if name in ("old_faithful", "seeds"):
        frame = read_frame(data_file("small", f"{name}.csv"))
        if name == "seeds":
            frame["variety"] = np.array([f"v{int(value)}" for value in frame["variety"]], dtype=object)
        return frame
    bunch = getattr(datasets, f"load_{name}")()
    names = [str(each).replace(" ", "_") for each in bunch.feature_names]
    frame = {key: bunch.data[:, place] for place, key in enumerate(names)}
    target = bunch.target
    frame["target"] = target if name == "diabetes" else np.array([f"k{value}" for value in target], dtype=object)
    if name == "breast_cancer":
        frame["target"] = np.array(["yes" if value else "no" for value in target], dtype=object)
    return frame


def survey(name):
    """A table of statsmodels; numbers of few values are categories."""
    from importlib import import_module

    data = import_module(f"statsmodels.datasets.{name}").load_pandas().data.iloc[:: 10 if name == "randhie" else 1]
    frame = {key: values.to_numpy() for key, values in data.items() if key != "popul"}
    if name == "fair":
        frame["affairs"] = frame["affairs"] > 0
    for key in {"fair": list(frame)[:-1], "anes96": ["TVnews", "selfLR", "PID", "educ"], "randhie": ["lncoins"]}[name]:
        frame[key] = np.array([f"{value:g}" for value in frame[key]], dtype=object)
    if name == "randhie":
        frame |= {key: frame[key] > 0.5 for key in ("idp", "hlthg", "hlthf", "hlthp")}
    return frame


def binned(frame, keys, bins):
    """Some columns in bins of equal width, as analysts make categories: those at both ends are rare."""
    cut = dict(frame)
    for key in keys:
        edges = np.linspace(frame[key].min(), frame[key].max(), bins + 1)[1:-1]
        cut[key] = np.array([f"b{place:02d}" for place in np.digitize(frame[key], edges)], dtype=object)
    return cut


def questions():
    """Name: table, model by columns, kinds."""
    faithful, seeds = table_of("old_faithful"), table_of("seeds")
    cancer, wine, iris, diabetes, digits = map(table_of, ("breast_cancer", "wine", "iris", "diabetes", "digits"))
    fair, votes, visits = map(table_of, ("fair", "anes96", "randhie"))
    some = list(cancer)[:10]
    narrow = {key: cancer[key] for key in (*some, "target")}
    pixels = {key: values > 7 for key, values in digits.items() if key != "target" and (values > 7).any()}

    def classes(count):
        return lambda columns: db.LatentClasses(count, columns=columns)

    return {
        "breast_cancer, logistic": (narrow, lambda c: db.LogisticRegression(target="target", columns=c)),
        "breast_cancer in bins, logistic": (
            binned(narrow, some[:4], 8), lambda c: db.LogisticRegression(target="target", columns=c)),
        "breast_cancer in bins, classes": (binned(narrow, some, 8), classes(4)),
        "diabetes, linear": (diabetes, lambda c: db.LinearRegression(target="target", columns=c)),
        "diabetes in bins, linear": (
            binned(diabetes, ["age", "bmi", "bp"], 8), lambda c: db.LinearRegression(target="target", columns=c)),
        "digits, yes/no classes": (pixels, classes(10)),
        "fair, classes": (fair, classes(4)),
        "fair, logistic": (fair, lambda c: db.LogisticRegression(target="affairs", columns=c)),
        "anes96, classes": (votes, classes(4)),
        "randhie, Poisson": (visits, lambda c: db.PoissonRegression(target="mdvis", columns=c)),
        "wine, classes": (wine, classes(3)),
        "iris, classes": (iris, classes(3)),
        "old_faithful, classes": (faithful, classes(2)),
        "seeds, linear": (seeds, lambda c: db.LinearRegression(target="area", columns=c)),
    }  # fmt: skip


def price(frame, model_of, seed):
    """Nats per held-out observation that the rules cost, the ratio of deviations, sites and records per site."""
    rng = np.random.default_rng(seed)
    count = len(next(iter(frame.values())))
    order = rng.permutation(count)
    held, kept = order[: count // 4], order[count // 4 :]
    parts = np.array_split(kept, max(2, len(kept) // SITE))
    sites = [{key: values[part] for key, values in frame.items()} for part in parts]
    test = {key: values[held] for key, values in frame.items()}
    everything = db.columns.columns_of(frame, report=lambda text: None)
    outcomes = []
    for rules in (None, RULES):
        kinds = {key: column.kind for key, column in everything.items()}
        found = [db.columns.columns_of(site, kinds, report=lambda text: None) for site in sites]
        if rules is not None:
            found = [
                pooled_columns(columns, db.columns.coded(site, columns), rules)[0]
                for columns, site in zip(found, sites, strict=True)
            ]
        columns = db.columns.agree(*found)
        if rules is None:  # levels that only held-out records have
            columns = {
                key: everything[key] if column.kind == "categorical" else column for key, column in columns.items()
            }
        else:
            target = getattr(model_of(columns), "target", "")
            columns = {
                key: with_other(column, everything[key], bool(target) and key != target)
                for key, column in columns.items()
            }
        model = model_of(columns)
        posteriors = []
        for site in sites:
            safe = site if rules is None else prepared(model, site, rules, agreed=True).data
            posterior = model.fit(safe, rng=np.random.default_rng(seed)).posterior
            posteriors.append(posterior if rules is None else guarded(model, posterior, safe, rules).posterior)
        merged = posteriors[0] if len(posteriors) == 1 else db.merge(posteriors)
        score = float(np.mean(model.log_predictive(merged, test)))
        lost = sum(unseen(test[key], column, everything[key]) for key, column in columns.items()
                   if key != getattr(model, "target", ""))  # fmt: skip
        spread = not hasattr(model, "target")
        outcomes.append((score - spread * lost / len(held), deviations(merged)))
    (bare, wide), (safe, narrow) = outcomes
    shared = [key for key in wide if key in narrow]
    ratio = float(np.mean([narrow[key] / wide[key] for key in shared])) if shared else float("nan")
    return bare - safe, ratio, len(parts), len(kept) // len(parts)


def with_other(column, everything, always):
    """The agreed categories, with "other" where held-out records have further ones; in regressions `always`, since few
    may have the outcome in a category that many have.
    """
    if column.kind != "categorical" or OTHER in column.categories:
        return column
    if set(everything.categories) <= set(column.entries) and not always:
        return column
    return db.columns.Categorical(*column.categories, OTHER)


def unseen(values, column, everything):
    """The nats by which "other" is more probable than the categories in it, over all held-out records."""
    if column.kind != "categorical" or OTHER not in column.categories:
        return 0.0
    inside = set(everything.categories) - set(column.categories)
    return np.log(max(len(inside), 1)) * sum(str(value) in inside for value in values)


def deviations(posterior):
    """The posterior standard deviation of each coefficient in the columns' units, by name."""
    if "coefficients" not in posterior.structure.families:
        return {}
    rows = posterior.summary()
    return {row["entry"]: row["deviation"] for row in rows if row["factor"] == "coefficients" and row["entry"]}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--splits", type=int, default=40, help="divisions into sites, for prices")
    parser.add_argument("--only", choices=("files", "price", "states", "answers", "events"))
    parser.add_argument("--data", nargs="*", help="beginnings of names of data, for prices; default: all")
    parser.add_argument("--models", nargs="*", help="models to attack; default: all")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    told = {}
    if arguments.only in (None, "files"):
        told["models"] = files(
            arguments.models or MODELS,
            range(1 if arguments.quick else arguments.seeds),
            SIZES[:1] if arguments.quick else SIZES,
        )
    if arguments.only in (None, "states"):
        told["states"] = chains(range(1 if arguments.quick else 2 * arguments.seeds))
    if arguments.only in (None, "price"):
        told["price"] = prices(
            range(1 if arguments.quick else arguments.splits), 2 if arguments.quick else None, arguments.data
        )
    if arguments.only in (None, "answers"):
        told["answers"] = answers(range(2 if arguments.quick else 20 * arguments.seeds))
    if arguments.only in (None, "events"):
        told["events"] = events(range(2 if arguments.quick else 20 * arguments.seeds))
    print(json.dumps(told))


def answers(seeds):
    """What rules make of a rare yes: its share, and how often intervals contain it."""
    print("\n| share of yes | rows per site | as merged: no rules | taken for the common answer | with rules |")
    print("|---|---|---|---|---|")
    told = {}
    for share, rows in ((0.075, 40), (0.075, 60), (0.05, 60), (0.02, 60), (0.005, 60), (0.02, 200), (0.001, 200)):
        runs = np.array([rare_answer(share, rows, seed) for seed in seeds]).mean(axis=0)
        shown = " | ".join(f"{100 * found:.2f} %, {inside:.0%}" for found, inside in runs)
        print(f"| {100 * share:g} % | {rows} | {shown} |", flush=True)
        told[f"{share:g}, {rows}"] = runs.tolist()
    return told


def rare_answer(share, rows, seed, sites=8):
    """The merged share of yes, and whether its 90 % interval contains the true one: three ways."""
    rng = np.random.default_rng(seed)
    model = db.LatentClasses(1, columns={"rare": db.columns.YesNo(), "common": db.columns.YesNo()})
    shards = [(rng.random((rows, 2)) < (share, 0.4)).astype(np.float64) for _ in range(sites)]
    hidden = [np.where(shard[:, :1].sum() < RULES.least_cell, [0.0, 1.0], 1.0) * shard for shard in shards]
    ready = [prepared(model, shard, RULES, agreed=True).data for shard in shards]
    told = []
    for data in (shards, hidden, ready):
        merged = db.merge([model.fit(part, rng=seed).posterior for part in data], duplicates="allow")
        row = next(row for row in merged.summary(level=0.9) if row["factor"] == "yes_no")
        told.append((row["mean"], row["lower"] <= share <= row["upper"]))
    return told


WAYS = ("one fit of all rows", "merged, no rules", "merged, sites with 1 to 4 events left out", "merged, with rules",
        "with rules, three rounds")  # fmt: skip


def events(seeds):
    """What rules make of a rare outcome: bias and coverage of the intercept and of two slopes, of 0.5 and −0.5."""
    print("\n| outcome in 6 % | data sets | intercept | slope of a number | slope of yes/no |")
    print("|---|---|---|---|---|")
    told, runs = {}, [rare_outcome(0.06, seed) for seed in seeds]
    for place, way in enumerate(WAYS):
        found = np.array([run[place] for run in runs if run[place] is not None])
        means = found.mean(axis=0)
        print(f"| {way} | {len(found)} | {' | '.join(f'{bias:+.2f}, {inside:.0%}' for bias, inside in means)} |")
        told[way] = means.tolist()
    return told


def rare_outcome(share, seed, sites=10, rows=60, slopes=(0.5, -0.5)):
    """By each of WAYS: estimate minus truth of each coefficient, and whether its 90 % interval contains the truth."""
    rng = np.random.default_rng(seed)
    model = db.LogisticRegression("y", columns={"y": "yes/no", "x": db.columns.Gaussian(0, 1), "z": "yes/no"})
    true = np.array([level_of(share, slopes), *slopes])
    shards = []
    for _ in range(sites):
        predictors = np.column_stack([rng.normal(size=rows), rng.random(rows) < 0.5])
        happened = rng.random(rows) < expit(true[0] + predictors @ true[1:])
        shards.append(np.column_stack([happened, predictors]).astype(np.float64))
    ready = [prepared(model, shard, RULES, agreed=True) for shard in shards]
    plain = [model.fit_site(shard).posterior for shard in shards]
    sent = [
        model.fit_site(site.data).posterior if site.changed else fit for site, fit in zip(ready, plain, strict=True)
    ]
    shown = [fit for site, fit in zip(ready, plain, strict=True) if not site.changed]
    results = [model.fit(np.concatenate(shards)).posterior, db.merge(plain), db.merge(shown) if shown else None]
    results += [db.merge(sent), db.refine(model, [site.data for site in ready], sent, rounds=3).merged]
    return [None if posterior is None else against(model, posterior, true) for posterior in results]


def against(model, posterior, true):
    rows = model.coefficients(posterior, level=0.9)
    return [(row["mean"] - one, row["low"] <= one <= row["high"]) for row, one in zip(rows, true, strict=True)]


def level_of(share, slopes):
    """The intercept at which this share of rows has the outcome, by quadrature over a normal and a yes/no predictor."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(40)
    linear = slopes[0] * nodes[:, None] + slopes[1] * np.array([0.0, 1.0])
    shares = np.outer(weights / weights.sum(), [0.5, 0.5])
    return brentq(lambda level: (shares * expit(level + linear)).sum() - share, -15.0, 5.0)


def files(names, seeds, sizes):
    """What readers of one file find, model by model."""
    print("| model | planted, no rules | with rules | membership at " + " | ".join(map(str, sizes)) + " |")
    print("|" + "---|" * (3 + len(sizes)))
    told = {}
    for name in names:
        found = [float(np.mean([recovered(name, seed, rules) for seed in seeds])) for rules in (None, RULES)]
        tests = [
            averaged([membership(name, size, seed) for seed in seeds[: 3 if size < 5000 else 1]]) for size in sizes
        ]
        shown = [f"{bare:.2f} / " + ("refused" if safe is None else f"{safe:.2f}") for bare, safe in tests]
        print(f"| {name} | {found[0]:.0%} | {found[1]:.0%} | {' | '.join(shown)} |", flush=True)
        told[name] = {"without": found[0], "with": found[1], "membership": tests}
    return told


def chains(seeds):
    """What hiding rare moves costs: sequences per site, their length, states, and nats per step."""
    print("\n| sequences × steps | states | files with rare moves | price, nats per step |")
    print("|---|---|---|---|")
    told = {}
    for count, length, states in ((30, 40, 4), (200, 20, 4), (200, 40, 6)):
        runs = [chain_price(count, length, states, seed) for seed in seeds]
        costs, hidden = np.array([run[0] for run in runs]), np.mean([run[1] for run in runs])
        error = float(costs.std() / np.sqrt(len(costs)))
        print(f"| {count} × {length} | {states} | {hidden:.0%} | {costs.mean():+.4f} ± {error:.4f} |", flush=True)
        told[f"{count} x {length}, {states}"] = {"nats": float(costs.mean()), "error": error}
    return told


def chain_price(count, length, states, seed, sites=4, tested=200):
    columns = {f"x{place}": db.columns.Gaussian() for place in range(4)}
    model = db.HiddenMarkov(states, columns=columns, stickiness=2.0 * states, ascent=db.Ascent(restarts=0))
    data = db.simulate(model, sites * count + tested, rng=seed, length=length).data
    shards, test = [data[count * site : count * (site + 1)] for site in range(sites)], data[sites * count :]
    bare = [model.fit(shard, rng=seed).posterior for shard in shards]
    safe = [guarded(model, posterior, shard, RULES) for posterior, shard in zip(bare, shards, strict=True)]
    hidden = np.mean([any("Moves" in change for change in each.changed) for each in safe])
    scores = [model.score(db.merge(files), test) for files in (bare, [each.posterior for each in safe])]
    return scores[0] - scores[1], hidden


def prices(seeds, most, wanted):
    """What the rules cost, data set by data set."""
    print("\n| data and model | sites × records | price, nats | deviations, with / without |")
    print("|---|---|---|---|")
    told = {}
    asked = {name: each for name, each in questions().items() if not wanted or name.startswith(tuple(wanted))}
    for name, (frame, model_of) in list(asked.items())[:most]:
        runs = [price(frame, model_of, seed) for seed in seeds]
        costs, ratio = np.array([run[0] for run in runs]), np.median([run[1] for run in runs])
        error = float(costs.std() / np.sqrt(len(costs)))
        width = "" if np.isnan(ratio) else f"{ratio:.3f}"
        print(f"| {name} | {runs[0][2]} × {runs[0][3]} | {costs.mean():+.3f} ± {error:.3f} | {width} |", flush=True)
        told[name] = {
            "nats": float(costs.mean()),
            "error": error,
            "deviations": None if np.isnan(ratio) else float(ratio),
        }
    return told


if __name__ == "__main__":
    main()
