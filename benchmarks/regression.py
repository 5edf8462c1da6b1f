"""Regressions of ten sites beside meta-analyses and pooled fits of other libraries, on real data.

    python benchmarks/regression.py [--held-out] [--quick] [--seeds N] [--first N] [--only NAME] [--sites N]

Data sets of scikit-learn, statsmodels and lifelines, split at random, by the first covariate, or by the target (rows
sorted by it, then cut into sites). `merged` is one broadcast (`fit_site`, `merge`), `sum` the same without
anchor and recentring, then one round, one round by files, in which all sites refit at the same time, and three rounds.
Meta-analyses are of the sites' penalised maximum likelihood estimates (the prior is the model's): univariate with fixed
effects, multivariate with fixed effects, and univariate with random effects (DerSimonian and Laird; Hartung and Knapp
widen its intervals, which does not move it).

Figures are the largest distance of a coefficient, baseline left out, from one fit of all rows, in its standard
deviations: for merges our own fit of all rows, for meta-analyses the penalised maximum of all rows. `forecast` is how
far `merged` was expected to be, and `peers` how far our fit of all rows is from the unpenalised one of statsmodels
(`GLM`, `OrderedModel` not: it is another model) or lifelines (Cox), in standard errors of theirs. HK is the median over
coefficients of the width of a Hartung-Knapp interval, relative to that of all rows.

The last lines say in which share of the rows one broadcast is at most as far as the best of the three meta-analyses
(chosen row by row, with hindsight), as each of them, and how far rounds are. The last line is JSON.

`--held-out` takes twelve other regressions, on which nothing was chosen.
"""

import argparse
import json
import os
import warnings

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

from dataclasses import replace

import numpy as np
from scipy.stats import norm, t

import decbayes as db

SPLITS = ("random", "by covariate", "by target")
REAL = "real"


def diabetes():
    from sklearn.datasets import load_diabetes

    data = load_diabetes(as_frame=True, scaled=False).frame
    return db.LinearRegression.from_frame(data, target="target", kinds=dict.fromkeys(data, REAL)), data


def cancer():
    from sklearn.datasets import load_breast_cancer

    data = load_breast_cancer(as_frame=True).frame
    data = data[[name for name in data if name.startswith("mean")] + ["target"]]
    return db.LogisticRegression.from_frame(data, target="target"), data


def affairs():
    data = statsmodels_data("fair").iloc[::4].assign(any=lambda frame: frame["affairs"] > 0)
    formula = "any ~ age + yrs_married + children + religious + educ"
    return db.LogisticRegression.from_frame(data, formula), data


def marriages(**settings):
    data = statsmodels_data("fair").iloc[::4].assign(rate=lambda frame: frame["rate_marriage"].astype(int).astype(str))
    return db.OrderedRegression.from_frame(data, "rate ~ age + yrs_married + religious + educ", **settings), data


def marriages_cumulative():
    return marriages(link="cumulative")


def parties():
    """Democrats, Republicans, and those in between."""
    names = np.array(["democrat", "between", "republican"])
    data = statsmodels_data("anes96").assign(party=lambda frame: names[np.digitize(frame["PID"], [2, 5])])
    formula = "party ~ selfLR + age + educ + income + logpopul"
    return db.MultinomialRegression.from_frame(data, formula, reference="between"), data


def votes():
    data = statsmodels_data("anes96")
    return db.LogisticRegression.from_frame(data, "vote ~ PID + age + educ + income + logpopul"), data


def visits(kind=db.PoissonRegression, **settings):
    data = statsmodels_data("randhie").iloc[::4]
    kinds = dict.fromkeys(data.columns.drop("mdvis"), REAL)
    return kind.from_frame(data, target="mdvis", kinds=kinds, **settings), data


def dispersed_visits():
    return visits(db.NegativeBinomialRegression, dispersion=0.7)


def arrests():
    data = lifelines_data("load_rossi").rename(columns={"arrest": "event"})
    return survival(data, "Surv(week, event) ~ age + fin + race + wexp + mar + paro + prio")


def breast():
    data = lifelines_data("load_gbsg2").rename(columns={"cens": "event"})
    return survival(data, "Surv(time, event) ~ age + horTh + menostat + tsize + tgrade + pnodes + progrec + estrec")


def lung():
    data = lifelines_data("load_lung").rename(columns={"ph.ecog": "ecog", "status": "event"})
    data = data[["time", "event", "age", "sex", "ecog"]].dropna()
    data["event"] = data["event"] == data["event"].max()
    return survival(data, "Surv(time, event) ~ age + sex + ecog")


def kidney():
    data = lifelines_data("load_kidney_transplant").rename(columns={"death": "event"})
    return survival(data, "Surv(time, event) ~ age + black_male + white_male + black_female")


def wine(classes=None):
    from sklearn.datasets import load_wine

    data = load_wine(as_frame=True).frame[["alcohol", "malic_acid", "ash", "magnesium", "target"]]
    if classes is None:
        data = data.assign(target=data["target"] == 1)
        return db.LogisticRegression.from_frame(data, target="target"), data
    data = data.assign(target=np.array(["first", "second", "third"])[data["target"]])
    return db.MultinomialRegression.from_frame(data, target="target", reference="first"), data


def cultivars():
    return wine(3)


def digits():
    """Eights among written digits, by eight pixels in the middle."""
    from sklearn.datasets import load_digits

    data = load_digits(as_frame=True).frame
    pixels = [f"pixel_{row}_{column}" for row in (2, 3, 4, 5) for column in (3, 4)]
    data = data[[*pixels, "target"]].assign(target=data["target"] == 8)
    return db.LogisticRegression.from_frame(data, target="target", kinds=dict.fromkeys(pixels, REAL)), data


def modes():
    data = statsmodels_data("modechoice").assign(choice=lambda frame: frame["choice"] == 1)
    return db.LogisticRegression.from_frame(data, "choice ~ ttme + invc + invt + gc"), data


def schools():
    data = statsmodels_data("star98").assign(good=lambda frame: frame["NABOVE"] > frame["NBELOW"])
    return db.LogisticRegression.from_frame(data, "good ~ LOWINC + PERASIAN + PERBLACK + PERHISP + PCTCHRT"), data


def relapse():
    data = lifelines_data("load_gbsg2").assign(cens=lambda frame: frame["cens"] == 1)
    return db.LogisticRegression.from_frame(data, "cens ~ age + tsize + pnodes + progrec + horTh"), data


def arrested():
    data = lifelines_data("load_rossi").assign(arrest=lambda frame: frame["arrest"] == 1)
    return db.LogisticRegression.from_frame(data, "arrest ~ age + prio + fin + race + wexp"), data


def visited():
    data = statsmodels_data("randhie").iloc[1::8].assign(any=lambda frame: frame["mdvis"] > 0)
    return db.LogisticRegression.from_frame(data, "any ~ lncoins + idp + lpi + fmde + physlm + disea"), data


def iris():
    from sklearn.datasets import load_iris

    data = load_iris(as_frame=True).frame.assign(target=lambda frame: frame["target"] == 2)
    return db.LogisticRegression.from_frame(data, target="target"), data


def nodes(kind=db.PoissonRegression):
    data = lifelines_data("load_gbsg2")
    return counts(kind, data, "pnodes ~ age + tsize + menostat + tgrade")


def dispersed_nodes():
    return nodes(db.NegativeBinomialRegression)


def convictions(kind=db.PoissonRegression):
    return counts(kind, lifelines_data("load_rossi"), "prio ~ age + race + wexp + mar + paro")


def dispersed_convictions():
    return convictions(db.NegativeBinomialRegression)


def counts(kind, data, formula):
    model = kind.from_frame(data, formula)
    return (model.settled(model.sums(model.points(data), least=5)) if model.summed_settings else model), data


def grades():
    data = lifelines_data("load_gbsg2")
    formula = "tgrade ~ age + tsize + pnodes + horTh"
    return db.OrderedRegression.from_frame(data, formula, levels=("I", "II", "III")), data


def democracies():
    data = lifelines_data("load_dd").rename(columns={"observed": "event", "un_continent_name": "continent"})
    data = data.assign(begun=data["start_year"].astype(float), ruled=data["democracy"])
    return survival(data, "Surv(duration, event) ~ begun + ruled + continent")


def larynx():
    data = lifelines_data("load_larynx").rename(columns={"death": "event"})
    return survival(data, "Surv(time, event) ~ age + Stage_II + Stage_III + Stage_IV")


def survival(data, formula):
    data = data.assign(event=data["event"].astype(bool))
    return db.SurvivalRegression.from_frame(data, formula), data


def statsmodels_data(name):
    from importlib import import_module

    return import_module(f"statsmodels.datasets.{name}").load_pandas().data


def lifelines_data(name):
    import lifelines.datasets

    return getattr(lifelines.datasets, name)()


DATA = {
    "diabetes, linear": diabetes,
    "breast cancer, logistic": cancer,
    "affairs, logistic": affairs,
    "votes, logistic": votes,
    "wine, logistic": wine,
    "digits, logistic": digits,
    "modes of travel, logistic": modes,
    "schools, logistic": schools,
    "marriages, ordered": marriages,
    "marriages, cumulative": marriages_cumulative,
    "parties, multinomial": parties,
    "visits, Poisson": visits,
    "visits, negative binomial": dispersed_visits,
    "arrests, survival": arrests,
    "breast cancer, survival": breast,
    "lung cancer, survival": lung,
    "kidney, survival": kidney,
}

HELD_OUT = {
    "relapse, logistic": relapse,
    "arrests, logistic": arrested,
    "visits, logistic": visited,
    "iris, logistic": iris,
    "grades, ordered": grades,
    "cultivars, multinomial": cultivars,
    "nodes, Poisson": nodes,
    "nodes, negative binomial": dispersed_nodes,
    "convictions, Poisson": convictions,
    "convictions, negative binomial": dispersed_convictions,
    "democracies, survival": democracies,
    "larynx, survival": larynx,
}
METAS = ("univariate", "multivariate", "random effects")


def split(model, points, how, sites, rng):
    order = rng.permutation(len(points))
    place = model.table.target_place
    if isinstance(model, db.SurvivalRegression):
        place = list(model.columns).index(model.time)
    if how == "by covariate":
        first = next(name for name in model.table.predictors if model.columns[name].factor == REAL)
        place = list(model.columns).index(first)
    if how != "random":
        order = order[np.argsort(points[order, place], kind="stable")]
    return [points[part] for part in np.array_split(order, sites)]


def interval(model, posterior):
    mean, deviation, _, _ = model.outcome.interval(posterior.natural["coefficients"], 0.9)
    return np.asarray(mean), np.asarray(deviation)


def penalised(model, points):
    """Mean and precision of the penalised maximum likelihood estimate; of a linear one it is the posterior's."""
    if isinstance(model, db.LinearRegression):
        natural = model.fit(points).posterior.natural["coefficients"]
        mean, covariance = model.outcome.moments(natural)
        return mean, np.linalg.inv(covariance * model.outcome.noise(natural))
    around = replace(model, approximation="laplace")
    mean, covariance = around.outcome.moments(around.fit(points).posterior.natural["coefficients"])
    return mean, np.linalg.inv(covariance)


def meta_analyses(estimates):
    """Three averages of the sites' estimates, and the standard error that Hartung and Knapp give the last."""
    means = np.array([mean for mean, _ in estimates])
    precisions = np.array([precision for _, precision in estimates])
    errors = np.sqrt([np.diag(np.linalg.inv(precision)) for precision in precisions])
    weights = errors**-2.0
    fixed = (weights * means).sum(axis=0) / weights.sum(axis=0)
    several = np.linalg.solve(precisions.sum(axis=0), np.einsum("sij,sj->i", precisions, means))
    excess = (weights * (means - fixed) ** 2).sum(axis=0) - (len(means) - 1)
    scale = weights.sum(axis=0) - (weights**2).sum(axis=0) / weights.sum(axis=0)
    between = np.maximum(0.0, excess / scale)
    wider = 1.0 / (errors**2 + between)
    random = (wider * means).sum(axis=0) / wider.sum(axis=0)
    spread = (wider * (means - random) ** 2).sum(axis=0) / (len(means) - 1)
    return {"univariate": fixed, "multivariate": several, "random effects": random}, np.sqrt(spread / wider.sum(axis=0))


def peers(model, data):
    """Coefficients and standard errors of another library's fit of all rows, in the columns' own units."""
    points = model.points(data)
    if isinstance(model, db.SurvivalRegression):
        import pandas as pd
        from lifelines import CoxPHFitter

        rows = model.table.rows(points, every=True)
        first = np.unique(rows.observation, return_index=True)[1]
        terms = rows.matrix[first][:, len(model.baseline_places) :]
        names = [f"x{place}" for place in range(terms.shape[1])]
        frame = pd.DataFrame(terms, columns=names)
        frame["t"] = points[:, list(model.columns).index(model.time)]
        frame["e"] = points[:, model.table.target_place]
        found = CoxPHFitter().fit(frame, "t", "e")
        return found.params_.to_numpy(), found.standard_errors_.to_numpy()
    import statsmodels.api as sm

    families = {
        db.LinearRegression: sm.families.Gaussian,
        db.LogisticRegression: sm.families.Binomial,
        db.PoissonRegression: sm.families.Poisson,
        db.NegativeBinomialRegression: lambda: sm.families.NegativeBinomial(alpha=1 / model.dispersion),
    }
    if type(model) not in families:
        return None
    matrix, targets = model.table.parts(points)
    unit, zero = model.target_units
    found = sm.GLM((targets - zero) / unit, matrix, family=families[type(model)]()).fit()
    return found.params[1:], found.bse[1:]


def run(name, how, sites, seed):
    model, data = (DATA | HELD_OUT)[name]()
    rng = np.random.default_rng(seed)
    points = model.points(data)
    shards = split(model, points, how, sites, rng)
    shown = np.array([place for place in range(len(model.table.design.labels)) if place not in model.baseline_places])
    whole = model.fit(points).posterior
    best, precision = penalised(model, points)
    error = np.sqrt(np.diag(np.linalg.inv(precision)))

    def apart(posterior):
        mean, deviation = interval(model, whole)
        return float(np.abs((interval(model, posterior)[0] - mean) / deviation)[shown].max())

    sent = [model.fit_site(shard).posterior for shard in shards]
    refined = db.refine(model, shards, sent, rounds=3).rounds
    by_files = db.refine(model, shards, sent, rounds=1, schedule="parallel").merged
    averages, widths = meta_analyses([penalised(model, shard) for shard in shards])
    expected = model.forecast(sent)
    figures = {
        "merged": apart(db.merge(sent)),
        "sum": apart(db.merge([model.fit(shard).posterior for shard in shards])),
        "1 round": apart(refined[1]),
        "1 by files": apart(by_files),
        "3 rounds": apart(refined[3]),
        **{label: float(np.abs((mean - best) / error)[shown].max()) for label, mean in averages.items()},
        "forecast": 0.0 if expected is None else float(expected[shown].max()),
        "HK": float(np.median((t.ppf(0.95, sites - 1) * widths / (norm.ppf(0.95) * error))[shown])),
    }
    if how == "random" and (other := peers(model, data)) is not None:
        figures["peers"] = float(np.abs((interval(model, whole)[0][shown] - other[0]) / other[1]).max())
    return figures


def median(table, label):
    return f"{np.median([row[label] for row in table.values()]):.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one seed")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--held-out", action="store_true", help="the other regressions")
    parser.add_argument("--sites", type=int, default=10)
    parser.add_argument("--only", default="", help="a part of the name of a data set, such as survival")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    table, titles = {}, None
    seeds = range(arguments.first, arguments.first + (1 if arguments.quick else arguments.seeds))
    for name in (name for name in (HELD_OUT if arguments.held_out else DATA) if arguments.only in name):
        for how in SPLITS:
            runs = [run(name, how, arguments.sites, seed) for seed in seeds]
            row = {label: float(np.median([each[label] for each in runs])) for label in runs[0]}
            titles = titles or print(f"{'':38}", *(f"{label:>14}" for label in row), sep="") or True
            print(f"{name + ', ' + how:38}", *(f"{value:14.3f}" for value in row.values()), sep="", flush=True)
            table[f"{name}, {how}"] = {label: round(value, 4) for label, value in row.items()}
    ratios = {label: row["merged"] / max(min(row[meta] for meta in METAS), 1e-12) for label, row in table.items()}
    good = [label for label, row in table.items() if row["merged"] <= min(row[meta] for meta in METAS) + 1e-9]
    print(f"one broadcast at most as far as the best meta-analysis in {len(good)} of {len(table)} rows")
    for meta in METAS:
        ahead = sum(row["merged"] <= row[meta] + 1e-9 for row in table.values())
        print(f"  as {meta}: {ahead} of {len(table)}, medians {median(table, 'merged')} and {median(table, meta)}")
    for label in (label for label in table if label not in good):
        print(f"  not: {label}, {ratios[label]:.2f} times as far")
    within = {"1 round": 0.3, "1 by files": 0.3, "3 rounds": 0.02}
    for label, bar in within.items():
        print(f"{label} within {bar}: {sum(row[label] <= bar for row in table.values())} of {len(table)} rows")
    print(json.dumps({"benchmark": "regression", "good": len(good) / max(len(table), 1), "rows": table}))


if __name__ == "__main__":
    main()
