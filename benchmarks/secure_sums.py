"""Sums that open only together: what they cost, and how good topics are that only sums have shown.

    python benchmarks/secure_sums.py [--sites 10] [--public 885] [--rounds 3] [--splits random class]
    python benchmarks/secure_sums.py --only cost [--members 5 20 100]
    python benchmarks/secure_sums.py --only network [--members 5 20]
    python benchmarks/secure_sums.py --quick

*Cost*: 100,000 numbers per member. Processor time per member to mask, to open its part, and to add up the sum; bytes
that a member sends. The sum is compared with the one in plain integers.

*Network*: agents in one process, each linked to all others, one sum of 10,000 numbers per member. Processor time per
agent until all hold the result, and bytes that an agent sends to all of its neighbours.

*Topics*: 20 Newsgroups, 20 topics, dealt out at random or by newsgroup. The anchor is a fit of some documents that
nobody else has (`--public`), or the fit of the first site. Each site fits its documents alone, moves its topics into
the anchor's slots, and masks them; further rounds refit against the sum without the site's own part. Scores are
log-likelihoods per held-out word; *files* is `db.merge` of the same sites' posteriors, *one fit* has all documents in
one place. No disclosure rules. The last line is one JSON object.
"""

import argparse
import json
import time
import warnings
from functools import partial

import numpy as np
from _corpora import corpus
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from joblib import parallel_config

import decbayes as db
from decbayes.network import Charter, Identity, SumRules
from decbayes.network.simulation.simulator import Simulation
from decbayes.network.simulation.topology import TOPOLOGIES
from decbayes.secure import Agreement, Seat, Share, Terms, contribution, in_slots, opened

NUMBERS, ON_NETWORK = 100_000, 10_000
MOST_AGENTS = 20  # in one process


def members(count):
    keys = {f"m{number:03d}": Ed25519PrivateKey.generate() for number in range(count)}
    return keys, {name: key.public_key().public_bytes_raw() for name, key in keys.items()}


def summed(terms, keys, steps):
    """The sum through keys, masks and openings; processor seconds per member of each step, and bytes sent by each."""
    seats = {name: Seat.begun(terms, name, key.sign) for name, key in keys.items()}
    offers, begun = [seat.sent["key"] for seat in seats.values()], time.process_time()
    seats = {name: seat.masking(steps[name], offers, keys[name].sign) for name, seat in seats.items()}
    packets, masked = [seat.sent["masked"] for seat in seats.values()], time.process_time()
    # Every member checks all packets before it opens; one of them is measured.
    first, *others = seats
    seats[first] = seats[first].opening(packets, keys[first].sign)
    looked = time.process_time()
    seats |= {name: seats[name].opening(packets, keys[name].sign) for name in others}
    openings, before = [seat.sent["opening"] for seat in seats.values()], time.process_time()
    total = opened(terms, packets, openings)
    spent = ((masked - begun) / len(keys), looked - masked, time.process_time() - before)
    return total, spent, sum(len(seats[first].sent[kind].to_bytes()) for kind in ("key", "masked", "opening"))


def cost(count, rng):
    keys, publics = members(count)
    terms = Terms("cost", 1, publics, "0" * 64, NUMBERS)
    steps = {name: rng.integers(-(2**40), 2**40, size=NUMBERS) for name in keys}
    total, spent, size = summed(terms, keys, steps)
    assert (total == sum(steps.values())).all()
    mask, check, add = (1e3 * seconds for seconds in spent)
    print(f"{count:4d} members: mask {mask:.0f} ms, check and open {check:.0f} ms, add up {add:.0f} ms, {size:,} bytes")
    return {"members": count, "mask_ms": mask, "open_ms": check, "add_ms": add, "bytes": size}


def network(count):
    """One sum of real agents on the simulator's links."""
    keys = [Identity.generate() for _ in range(count)]
    names = {f"m{number:03d}": key.public for number, key in enumerate(keys)}
    settings = {"variance": 1.0, "dimension": ON_NETWORK}
    charter = Charter("cost", "GaussianMean", settings, names, sums=SumRules(rounds=1))
    sent = [0]

    class Counted(Simulation):
        def _transmit(self, site, effect):
            sent[0] += len(effect.message)
            super()._transmit(site, effect)

    rng = np.random.default_rng(count)
    simulation = Counted(charter, keys, rng=rng)
    simulation.connect(TOPOLOGIES["clique"](count, rng))
    begun = time.process_time()
    for site in simulation.sites:
        simulation.start(site)
        simulation.observe(site, "data", rng.normal(size=(20, ON_NETWORK)))
    for _ in range(30):
        simulation.round()
        for site in simulation.running:
            simulation.perform(site, site.agent.add_up())
        if all(site.agent.pool.sums.describe()["opened"] for site in simulation.sites):
            break
    spent, size = (time.process_time() - begun) / count, sent[0] / count
    assert len({site.agent.posterior().digest for site in simulation.sites}) == 1
    print(f"{count:4d} agents: {1e3 * spent:.0f} ms and {size:,.0f} bytes each", flush=True)
    return {"members": count, "ms": 1e3 * spent, "bytes": size}


def rounds(model, shards, fits, anchor, number, score):
    """Scores after each round of sums; the first has the sites' fits in the anchor's slots."""
    keys, publics = members(len(shards))
    agreed = Agreement("topics", publics, anchor, rounds=number, rules=None)
    merged, own, scores, before, results = anchor, [None] * len(shards), [], dict.fromkeys(keys), []
    for done in range(1, number + 1):
        if done == 1:
            sizes = [float(model.count(shard)) for shard in shards]
            words = [float(np.sum(model.units(shard))) for shard in shards]
            shares = [Share(in_slots(fit, anchor), n, n, w) for fit, n, w in zip(fits, sizes, words, strict=True)]
        else:
            refit = partial(contribution, before=merged, rng=0, model=model, rules=None)
            shares = [refit(data, own=part)[0] for data, part in zip(shards, own, strict=True)]
        steps = {name: agreed.added(share, before[name]) for name, share in zip(keys, shares, strict=True)}
        terms = agreed.next_terms(results)
        total, _, _ = summed(terms, keys, steps)
        before = {name: part if before[name] is None else part + before[name] for name, part in steps.items()}
        own = [Share.of_steps(anchor.structure, each, agreed.step).posterior for each in before.values()]
        results.append(agreed.result(total, results, terms))
        merged = results[-1].posterior
        scores.append(score(merged))
    return scores


def topics(options, split, rng):
    data = corpus("news", None)
    model, score = data.model(options.topics), data.scorer()
    rows = rng.permutation(np.flatnonzero(~data.held_out))
    public, rows = rows[: options.public], rows[options.public :][: options.documents or None]
    if split == "class":
        rows = rows[np.argsort(data.labels[rows], kind="stable")]
    shards = [data.counts[part] for part in np.array_split(rows, options.sites)]
    fits = [model.fit(shard, rng=np.random.default_rng(place)).posterior for place, shard in enumerate(shards)]
    anchors = {"public": model.fit(data.counts[public], rng=rng).posterior, "first site": fits[0]}
    found = {"split": split, "one fit": score(model.fit(data.counts[rows], rng=rng).posterior)}
    found["files"] = score(db.merge(fits, components=options.topics))
    for name, anchor in anchors.items():
        found[f"{name} alone"] = score(anchor)
        found[name] = rounds(model, shards, fits, anchor, options.rounds, score)
        print(split, {key: np.round(value, 3).tolist() for key, value in found.items() if key != "split"}, flush=True)
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sites", type=int, default=10)
    parser.add_argument("--public", type=int, default=885)
    parser.add_argument("--documents", type=int, default=0, help="0 for all")
    parser.add_argument("--topics", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--members", type=int, nargs="+", default=[5, 20, 100])
    parser.add_argument("--splits", nargs="+", choices=["random", "class"], default=["random", "class"])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", choices=["cost", "network", "topics"])
    parser.add_argument("--quick", action="store_true", help="few documents, topics and members")
    options = parser.parse_args()
    if options.quick:
        options.sites, options.public, options.documents, options.topics, options.members = 3, 100, 300, 5, [5]
    warnings.simplefilter("ignore", db.errors.MergeWarning)
    found = {}
    if options.only in (None, "cost"):
        found["cost"] = [cost(count, np.random.default_rng(count)) for count in options.members]
    if options.only in (None, "network"):
        found["network"] = [network(count) for count in options.members if count <= MOST_AGENTS]
    if options.only in (None, "topics"):
        rngs = [np.random.default_rng([options.seed, 1]) for _ in options.splits]
        found["topics"] = [topics(options, split, rng) for split, rng in zip(options.splits, rngs, strict=True)]
    print(json.dumps(found))


if __name__ == "__main__":
    with parallel_config(n_jobs=1):
        main()
