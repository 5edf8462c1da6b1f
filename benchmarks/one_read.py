"""How good topics are after reading documents once, against the best that online methods reach in several passes.

    python benchmarks/one_read.py [--quick]

20 Newsgroups, K = 20, priors and score as in lda_time_to_quality.py, documents in random order: scikit-learn's online
method and gensim with their default settings, decbayes with `Ascent(batch=…)`. Printed are held-out scores after each
pass. The last line is one JSON object.
"""

import argparse
import json
from dataclasses import replace

import numpy as np
from lda_time_to_quality import gensim_curve, make_task, scikit_learn_curve

import decbayes as db


def batch_scores(task, batch, passes):
    scores = []
    for number in range(1, passes + 1):
        model = replace(task.model, ascent=db.Ascent(passes=number, warm_up=number, batch=batch))
        posterior = model.fit(task.train, rng=np.random.default_rng(0)).posterior
        scores.append(round(task.model.score(posterior, task.observed, task.held), 4))
    return scores


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a fifth of the documents, fewer passes")
    quick = parser.parse_args().quick
    task, passes = make_task(quick), 3 if quick else 10
    results = {
        "scikit-learn, online": [score for _, score in scikit_learn_curve(task, "online", passes)],
        "gensim": [score for _, score in gensim_curve(task, passes)],
        **{f"decbayes, batches of {batch}": batch_scores(task, batch, 2) for batch in (256, 512, 1024)},
    }
    for name, scores in results.items():
        print(f"{name:28} best {max(scores):.4f}, after each pass {scores}")
    print(json.dumps({"benchmark": "one_read", "quick": quick, "scores": results}))


if __name__ == "__main__":
    main()
