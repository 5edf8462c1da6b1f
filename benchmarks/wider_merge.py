"""How much a merge gains from more slots than an agent has topics, against one fit of all documents.

    python benchmarks/wider_merge.py [--quick] [--cache FOLDER]

Ten agents fit 20 topics each to their share of 20 Newsgroups, dealt out at random or by newsgroup, and publish once.
Their posteriors are padded to more and more slots and merged. Beside each score stands that of one fit of all documents
with as many topics as there are slots: a wider merge must be compared with that, too. Scores are log-likelihoods per
held-out word. The last line is one JSON object.
"""

import argparse
import json
from dataclasses import replace

import numpy as np
from _workloads import TOPICS, news, news_model, news_posteriors

import decbayes as db

AGENTS = 10


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="by newsgroup only, 20 and 40 slots")
    parser.add_argument("--cache", help="folder that keeps the fitted posteriors")
    options = parser.parse_args()
    counts, _, _, held_out = news()
    observed, held = db.hold_out(counts[np.flatnonzero(held_out)], share=0.1, rng=np.random.default_rng(7))

    def score(posterior):
        return round(db.model_for(posterior.structure).score(posterior, observed, held), 4)

    splits = {
        split: news_posteriors(AGENTS, split, options.cache) for split in ("group", "random")[: 2 - options.quick]
    }
    results = {}
    for slots in (TOPICS, 40) if options.quick else (TOPICS, 30, 40, 60, 100, AGENTS * TOPICS):
        merges = {split: db.merge(db.pad(agent, slots) for agent in agents) for split, agents in splits.items()}
        whole = replace(news_model(), topics=slots).fit(counts[~held_out], rng=np.random.default_rng(slots)).posterior
        results[slots] = {**{split: score(merged) for split, merged in merges.items()}, "one fit of all": score(whole)}
        print(slots, results[slots], flush=True)
    print(json.dumps({"benchmark": "wider_merge", "agents": AGENTS, "topics an agent": TOPICS, "slots": results}))


if __name__ == "__main__":
    main()
