"""How often the labels of states are the best of all: alignments of hidden Markov models against enumeration.

    python benchmarks/state_labels.py [--quick] [--seeds N] [--states K,…] [--jobs N]

Sites are fitted on their own, to sequences of one chain whose states emit points (well apart, overlapping, or aliased:
two emit the same) or letters that hardly tell them apart ("weak"). Each site is then matched against all others, and J
of the match is compared with the best of all K! permutations: for emissions alone, for the search that chains of more
than six states rely on (`searched`), and for `Quadratic` as it is. `bound` is how far the bound of Gilmore and Lawler
is above the best, in nats, and how often it proves the best match to be best. Then whole alignments of three sites
are compared with all (K!)² of them. The last line is JSON.
"""

import argparse
import json
from itertools import permutations, product

import joblib
import numpy as np
from sequences import CENTRE, SCALE, truth

import decbayes as db
from decbayes.merging.base.canonical import canonical_order
from decbayes.merging.base.coupled import coupled_problem
from decbayes.merging.base.problem import best_permutation
from decbayes.merging.matching.quadratic import Chains, all_permutations

SITES, SEQUENCES, LENGTH = 6, 4, 60
KINDS = ("separated", "overlapping", "aliased", "weak")


def fitted(kind, states, seed):
    """Posteriors of sites that were fitted on their own."""
    rng = np.random.default_rng([seed, states])
    ascent = db.Ascent(restarts=3)
    if kind == "weak":
        columns = {"letter": db.columns.Categorical(6)}
        shares = 0.5 * rng.dirichlet(np.full(6, 0.5), size=states) + 0.5 / 6
        parameters = truth("separated", states, rng) | {"categorical": shares}
    else:
        columns = dict.fromkeys("xy", db.columns.Gaussian(CENTRE, SCALE))
        parameters = truth(kind, states, rng)
    model = db.HiddenMarkov(states=states, columns=columns, ascent=ascent)
    data, _ = model.draw(parameters, SITES * SEQUENCES, rng, length=LENGTH)
    return [model.fit(data[site::SITES], rng=rng).posterior for site in range(SITES)]


def matches(kind, states, seed):
    """For each site against all others: whether each way found the best, and how far the bound is above it."""
    posteriors, rng = fitted(kind, states, seed), np.random.default_rng([seed, states, 1])
    return list(compared(posteriors, rng))


def compared(posteriors, rng):
    order, readings = canonical_order(posteriors)
    (coupled,) = posteriors[0].structure.symmetry
    held = [posteriors[site] for site in order]
    components = [readings[site].components[coupled] for site in order]
    chains = Chains(coupled_problem(held, coupled, posteriors[0].structure, components).loaded())
    for site in range(len(held)):
        chains.rematch(site, rng)
    for site in range(len(held)):
        match = chains.match(site)
        best = match.values(all_permutations(len(match.slots))).max()
        near = best - 1e-9 * (1 + abs(best))
        yield {
            "emissions alone": match.value(best_permutation(chains.placement.gain(site))) >= near,
            "searched": match.value(match.searched(None, rng)) >= near,
            "Quadratic": match.value(match.best(None, rng)) >= near,
            "bound, nats": match.bound() - best,
            "bound proves it": match.bound() <= best + 1e-6,
        }


def whole(kind, states, seed):
    """Whether an alignment of three sites is the best of all."""
    three = fitted(kind, states, seed)[:3]
    found = db.align(three)
    size = len(three[0].contribution["start"])
    orders = [np.array(order) for order in permutations(range(size))]
    families, prior = three[0].structure.families, three[0].structure.prior

    def moved(posterior, order):
        return {name: family.relabelled(posterior.contribution[name], order) for name, family in families.items()}

    best = -np.inf
    for second, third in product(*([moved(each, order) for order in orders] for each in three[1:])):
        sums = {name: prior[name] + three[0].contribution[name] + second[name] + third[name] for name in families}
        best = max(best, sum(family.log_partition(sums[name]) for name, family in families.items()))
    return {
        "best of all": found.objective[-1] >= best - 1e-9 * (1 + abs(best)),
        "bound, nats": db.merging.upper_bound(found) - best,
    }


def summary(found, chosen):
    """Of the cases that are chosen, how many matches there were and what came of them."""
    own = [each for case, kept in zip(found, chosen, strict=True) if kept for each in case]
    return {"matches": len(own), **means(own)}


def means(found):
    return {name: float(np.mean([each[name] for each in found])) for name in found[0]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one seed, three and four states")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--states", default="3,4,5,6,7,8")
    parser.add_argument("--jobs", type=int, default=1, help="cases at the same time")
    arguments = parser.parse_args()
    sizes = (3, 4) if arguments.quick else tuple(map(int, arguments.states.split(",")))
    seeds = range(1 if arguments.quick else arguments.seeds)
    cases = [(kind, states, seed) for kind in KINDS for states in sizes for seed in seeds]
    few = [case for case in cases if case[1] < (4 if arguments.quick else 5)]
    parallel = joblib.Parallel(arguments.jobs)
    found = parallel(joblib.delayed(matches)(*case) for case in cases)
    figures = {kind: summary(found, [case[0] == kind for case in cases]) for kind in KINDS}
    figures |= {f"{size} states": summary(found, [case[1] == size for case in cases]) for size in sizes}
    figures["all"] = summary(found, [True] * len(cases))
    wholes = parallel(joblib.delayed(whole)(*case) for case in few)
    for size in sorted({case[1] for case in few}):
        own = [each for each, case in zip(wholes, few, strict=True) if case[1] == size]
        figures[f"three sites, {size} states"] = means(own)
    for name, values in figures.items():
        print(name, {key: round(value, 4) for key, value in values.items()})
    print(json.dumps({"benchmark": "state_labels", **figures}))


if __name__ == "__main__":
    main()
