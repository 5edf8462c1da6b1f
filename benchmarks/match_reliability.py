"""How often matches are right that are said to be right with some probability.

    python benchmarks/match_reliability.py [--quick] [--part mixtures|topics] [--settings N] [--state FILE]

Settings are drawn at random: numbers of components, sites and observations, how far components overlap, whether each
site has them all or 60 % of them. Probabilities are those of `db.merging.confidence`, with and without overlaps that
the sites report, and beside them margins taken for log-odds. A match is right if more than half of the component's data
comes from the same true components as what the other sites have put into its slot, and no other slot has more in common
with it by more than a tenth. Which cluster a point comes from is what the true parameters say of it; which topic a word
comes from is known. Settings that `reliability` refuses are counted, and left out of the rest. Printed are the expected
calibration error (ten bins), the area under the ROC curve, and, for each range of probability, what was said, what was
true, and of how many matches. With --state a file keeps what is done, and the same command goes on from there. The last
line is a JSON object.
"""

import argparse
import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
from scipy.sparse import csr_array
from scipy.special import expit, softmax
from scipy.stats import rankdata

import decbayes as db
from decbayes.calibration import matches
from decbayes.calibration.matches import overlaps_of
from decbayes.errors import NotCalibrated

TITLES = ("margin as log-odds", "margin and evidence", "with overlap")
BINS = (0.0, 0.2, 0.4, 0.6, 0.8, 0.9, 0.97, 1.0)
SEEN = 0.5


def mixture(rng):
    """Points of Gaussian clusters at sites, and the share of each true cluster in each component."""
    count, sites, points = rng.choice([3, 4, 6, 8, 10]), rng.choice([5, 10, 20]), rng.choice([20, 40, 80, 160])
    apart, dimension, missing = rng.choice([1.5, 2.5, 3.5]), rng.choice([1, 2, 4]), rng.choice([0.0, 0.4])
    kind = str(rng.choice(["known", "diagonal", "full"]))
    centres = apart * count ** (1 / dimension) / 2 * rng.normal(size=(count, dimension))
    spread = float((centres**2).mean()) + 1.0
    settings = {"variance": 1.0, "prior_variance": spread} if kind == "known" else {"covariance": kind}
    model = db.GaussianMixture(int(count), int(dimension), **settings)
    model = replace(model, ascent=replace(model.ascent, restarts=4))
    shards, known = [], []
    for _ in range(sites):
        own = rng.choice(count, max(2, round(count * (1 - missing))), replace=False)
        shards.append(centres[rng.choice(own, points)] + rng.normal(size=(points, dimension)))
        odds = np.full((points, count), -np.inf)
        odds[:, own] = -0.5 * ((shards[-1][:, None] - centres[own]) ** 2).sum(axis=-1)
        known.append(softmax(odds, axis=1))
    posteriors = [model.fit(shard, rng=rng).posterior for shard in shards]
    truths = [model.assign(each, x).T @ own for each, x, own in zip(posteriors, shards, known, strict=True)]
    name = (
        f"{count} clusters, {sites} sites, {points} points, {apart:g} sd, {dimension} dim, {kind}, missing {missing:g}"
    )
    return name, model, posteriors, shards, truths, {}


def topics(rng):
    """Documents at sites, and the share of each true topic in each component, word by word."""
    count, sites, documents = rng.choice([4, 6, 8, 12]), rng.choice([4, 8, 16]), rng.choice([15, 40, 120])
    words, length, missing = rng.choice([100, 300]), rng.choice([20, 50, 80]), rng.choice([0.0, 0.4])
    spread = rng.choice([0.05, 0.2])
    model = db.LatentDirichletAllocation(int(count), tuple(f"w{word}" for word in range(words)), topic_prior=0.05)
    truth = rng.dirichlet(np.full(words, spread), size=count)
    shards, drawn = [], []
    for _ in range(sites):
        own = rng.choice(count, max(2, round(count * (1 - missing))), replace=False)
        tokens = np.zeros((documents, count, words), dtype=int)
        for document, shares in enumerate(rng.dirichlet(np.full(len(own), 0.3), size=documents)):
            sizes = rng.multinomial(max(2, rng.poisson(length)), shares)
            tokens[document, own] = rng.multinomial(sizes, truth[own])
        shards.append(csr_array(tokens.sum(axis=1)))
        drawn.append(tokens)
    posteriors = [model.fit(shard, rng=rng).posterior for shard in shards]
    truths = [words_by_topic(model, *each) for each in zip(posteriors, shards, drawn, strict=True)]
    name = (
        f"{count} topics, {sites} sites, {documents} × {length} words of {words}, prior {spread:g}, missing {missing:g}"
    )
    return name, model, posteriors, shards, truths, {"length": float(length)}


def words_by_topic(model, posterior, shard, tokens):
    """(components, topics): how many words of each component came from each topic."""
    shares, _ = model.responsibilities(posterior, shard)
    documents, words = shard.tocoo().coords
    return shares.T @ tokens[documents, :, words]


def truly_right(slots, truths):
    """Whether each component belongs to its slot; NaN where other sites have nothing there."""
    found = []
    pairs = [*zip(slots, truths, strict=True)]
    count = max(own.max() for own in slots) + 1
    for site, (own, truth) in enumerate(pairs):
        others = pairs[:site] + pairs[site + 1 :]
        there = [
            np.sum([other[theirs == slot].sum(axis=0) for theirs, other in others], axis=0) for slot in range(count)
        ]
        for slot, sources in zip(own, truth, strict=True):
            if there[slot].sum() < SEEN or sources.sum() < SEEN:
                found.append(np.nan)
            else:
                common = [in_common(sources, each) for each in there]
                found.append(float(common[slot] > 0.5 and common[slot] >= max(common) - 0.1))
    return np.array(found)


def in_common(first, second):
    """One less the total variation distance of where two things come from."""
    if second.sum() == 0.0:
        return 0.0
    return 1.0 - 0.5 * np.abs(first / first.sum() - second / second.sum()).sum()


def one_setting(kind, seed):
    """The probabilities of all matches of one data set, and which are right."""
    name, model, posteriors, shards, truths, options = KINDS[kind](np.random.default_rng(seed))
    found = db.align(posteriors)
    (coupled,) = found.structure.symmetry
    right = truly_right([own[coupled] for own in found.assignments], truths)
    try:
        learned = db.checking.reliability(found, model=model, matches=200, **options)
    except NotCalibrated as refused:
        return {"name": name, "refused": str(refused), "right": right[~np.isnan(right)].tolist()}
    reported = overlaps_of(model, found, shards)
    said = {
        "margin and evidence": db.merging.confidence(found, learned),
        "with overlap": db.merging.confidence(found, learned, reported),
    }
    rows = {title: np.concatenate([own[coupled] for own in sure.probabilities]) for title, sure in said.items()}
    rows["margin as log-odds"] = expit(np.concatenate([own[coupled] for own in db.merging.margins(found)]))
    kept = ~np.isnan(right) & ~np.isnan(rows["with overlap"])
    return {"name": name, "right": right[kept].tolist(), **{title: row[kept].tolist() for title, row in rows.items()}}


def calibration_error(said, right, bins=10):
    place = np.minimum((said * bins).astype(int), bins - 1)
    return float(sum(abs((said - right)[place == each].sum()) for each in range(bins)) / len(said))


def area(said, right):
    ranks, hits = rankdata(said), right.sum()
    return float((ranks[right == 1].sum() - hits * (hits + 1) / 2) / max(hits * (len(right) - hits), 1))


def table(said, right):
    """For each range of probability: said, true, and how many."""
    rows = []
    for low, high in pairwise(BINS):
        inside = (said >= low) & ((said < high) | (high == 1.0))
        if inside.any():
            rows.append(
                [round(float(said[inside].mean()), 3), round(float(right[inside].mean()), 3), int(inside.sum())]
            )
    return rows


def summary(settings):
    done, refused = (
        [each for each in settings if "refused" not in each],
        [each for each in settings if "refused" in each],
    )
    found = {"refused": len(refused)}
    if refused:
        found["right of those"] = round(float(np.concatenate([each["right"] for each in refused]).mean()), 3)
    if not done:
        return found
    right = np.concatenate([each["right"] for each in done])
    found |= {"settings": len(done), "matches": len(right), "right": round(float(right.mean()), 3)}
    for title in TITLES:
        said = np.concatenate([each[title] for each in done])
        error = calibration_error(said, right)
        found[title] = {
            "calibration error": round(error, 3),
            "AUC": round(area(said, right), 3),
            "table": table(said, right),
        }
    return found


def told(setting):
    """One setting in a few words."""
    right = f"right {np.mean(setting['right']):.3f}"
    if "refused" in setting:
        return f"{right} refused"
    return f"{right} said {' '.join(f'{np.mean(setting[title]):.3f}' for title in TITLES)}"


KINDS = {"mixtures": mixture, "topics": topics}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="four settings of each")
    parser.add_argument("--part", choices=sorted(KINDS))
    parser.add_argument("--settings", type=int, default=60)
    parser.add_argument("--first-seed", type=int, default=2000)
    parser.add_argument("--state", type=Path, help="keep what is done in this file, and go on from it")
    parser.add_argument("--anyway", action="store_true", help="also of clusters that overlap too much to be calibrated")
    arguments = parser.parse_args()
    matches.LEAST_CERTAINTY = 0.0 if arguments.anyway else matches.LEAST_CERTAINTY
    count = 4 if arguments.quick else arguments.settings
    state = json.loads(arguments.state.read_text()) if arguments.state and arguments.state.exists() else {}
    result = {}
    for kind in [arguments.part] if arguments.part else list(KINDS):
        done = state.setdefault(kind, [])
        for number in range(len(done), count):
            done.append(one_setting(kind, arguments.first_seed + number))
            if arguments.state:
                arguments.state.write_text(json.dumps(state))
            print(number, done[-1]["name"], told(done[-1]), flush=True)
        result[kind] = summary(done[:count])
        for title in TITLES:
            print(kind, title, result[kind].get(title), flush=True)
    print(json.dumps(result))


if __name__ == "__main__":
    main()
