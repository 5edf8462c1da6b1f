"""Sites that are odd in other ways than those of `robust.py`, and a large archive beside small sites, in robust merges.

    python benchmarks/odd_sites.py [--kinds diagonal classes tables regression] [--first 0] [--seeds 4] [--large]
                                   [--quick]

Ten sites as in `robust.py`; one or three of them send

    permuted    their columns in another order
    flipped     one column with the other sign, or yes for no
    rounded     whole numbers
    twice       30 % of their rows twice
    few         a fit with two components too few
    subgroup    rows of their largest component only (honest)
    constant    one column with a single value

Printed: held-out nats lost by the robust and the plain merge against the merge of the other sites, mean ± standard
error (worst); the odd sites that are flagged, those that are flagged or behind a slot of few sites ("told"), and other
sites that are flagged. With --large: one honest site with 5,000 rows beside nine with 50 to 100, and the nats lost
against the plain merge of all. The last line is one JSON object.
"""

import argparse
import json
from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np
from _attacks import KINDS

import decbayes as db

SITES, FAULTY = 10, (1, 3)
LARGE, SMALL = 5000, (50, 101)
ODD = ("permuted", "flipped", "rounded", "twice", "few", "subgroup", "constant")
Frame = dict[str, np.ndarray]


def frame_of(data: Any, shard: tuple[Any, np.ndarray], rng: np.random.Generator) -> Frame:
    """The columns of a shard; regressions draw their outcomes again."""
    rows, what = shard
    if not data.number:
        return dict(data._frame(what, data.slopes, rng))
    return dict(rows) if isinstance(rows, dict) else {f"x{one}": column for one, column in enumerate(rows.T)}


def spoilt(data: Any, odd: str, frame: Frame, labels: np.ndarray, rng: np.random.Generator) -> Frame:
    names = [name for name in frame if name not in ("y", "events")]
    first = names[0]
    if odd == "permuted":
        for kind in ("x", "c") if data.number else (None,):
            same = [name for name in names if kind is None or name.startswith(kind)]
            frame = frame | dict(zip(same, [frame[name] for name in np.roll(same, 1)], strict=True))
    elif odd == "flipped":
        frame[first] = 1.0 - frame[first] if set(np.unique(frame[first])) <= {0.0, 1.0} else -frame[first]
    elif odd == "rounded":
        frame = {name: np.round(part) if part.dtype.kind == "f" else part for name, part in frame.items()}
    elif odd == "constant":
        frame[first] = np.ones(len(frame[first]))
    rows = np.arange(len(frame[first]))
    if odd == "twice":
        rows = np.append(rows, rng.choice(len(rows), int(0.43 * len(rows)), replace=False))
    if odd == "subgroup":
        rows = np.flatnonzero(labels == np.bincount(labels).argmax() if data.number else labels[:, 0] > 1.0)
    return {name: part[rows] for name, part in frame.items()}


def fitted(data: Any, model: Any, frame: Frame, rng: np.random.Generator) -> db.Posterior:
    if not data.number:
        return model.fit_site(model.points(frame), rng=rng).posterior
    rows = frame if "c0" in frame else np.column_stack([*frame.values()])
    return model.fit(rows, rng=rng).posterior


def runs(kind: str, unlike: bool, seed: int) -> Iterator[tuple[tuple[str, int], list[float]]]:
    rng = np.random.default_rng([seed, unlike, 3])
    data = KINDS[kind](rng)
    shards = [data.draw(rng, data.observations, unlike=unlike) for _ in range(SITES)]
    frames = [frame_of(data, shard, rng) for shard in shards]
    fits = [fitted(data, data.model, frame, rng) for frame in frames]
    held_out = data.draw(rng, data.held_out, unlike=False)[0]
    for odd in ODD:
        if odd == "few" and not data.number:
            continue
        model = data.sized(data.number - 2) if odd == "few" else data.model
        bad = [
            fitted(data, model, spoilt(data, odd, dict(frame), shard[1], rng), rng)
            for frame, shard in zip(frames[: max(FAULTY)], shards, strict=False)
        ]
        for faulty in FAULTY:
            sites = [*bad[:faulty], *fits[faulty:]]
            merge, without = db.merging.robust_merge(sites), data.scored(db.merge(fits[faulty:]), held_out)
            lost = [without - data.scored(merged, held_out) for merged in (merge.posterior, db.merge(sites))]
            flagged = np.array([site.flagged for site in merge.sites])
            few = {site for having in merge.thin_slots().values() for site in having}
            told = sum(flagged[site] or site in few for site in range(faulty))
            yield (odd, faulty), [*lost, flagged[:faulty].sum(), told, flagged[faulty:].sum()]


def archive(kind: str, unlike: bool, seed: int) -> list[float]:
    """Nats lost against the plain merge, and whether the large site and how many others are flagged."""
    rng = np.random.default_rng([seed, unlike, 4])
    data = KINDS[kind](rng)
    shards = [data.draw(rng, LARGE, unlike=False)]
    shards += [data.draw(rng, int(rng.integers(*SMALL)), unlike=unlike) for _ in range(SITES - 1)]
    fits = [fitted(data, data.model, frame_of(data, shard, rng), rng) for shard in shards]
    held_out = data.draw(rng, data.held_out, unlike=False)[0]
    merge = db.merging.robust_merge(fits)
    lost = data.scored(db.merge(fits), held_out) - data.scored(merge.posterior, held_out)
    return [lost, merge.sites[0].flagged, sum(site.flagged for site in merge.sites[1:])]


def with_error(values: np.ndarray) -> str:
    return f"{values.mean():.3f} ± {values.std(ddof=1) / np.sqrt(len(values)):.3f} ({values.max():.3f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kinds", nargs="+", default=["diagonal", "classes", "tables", "regression"])
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--large", action="store_true")
    parser.add_argument("--quick", action="store_true", help="one seed of tables")
    options, results = parser.parse_args(), dict[str, float]()
    if options.quick:
        options.kinds, options.seeds = ["tables"], 1
    seeds = range(options.first, options.first + options.seeds)
    for kind, unlike in product(options.kinds, (False, True)):
        name = f"{kind:11}{'unlike' if unlike else 'like':8}"
        if options.large:
            lost, large, others = np.array([archive(kind, unlike, seed) for seed in seeds]).T
            results[name] = round(float(lost.mean()), 4)
            print(f"{name} {with_error(lost)}  flagged: {large.sum():.0f}, others {others.sum():.0f}", flush=True)
            continue
        found: dict[tuple[str, int], list[list[float]]] = {}
        for seed in seeds:
            for key, row in runs(kind, unlike, seed):
                found.setdefault(key, []).append(row)
        for (odd, faulty), rows in found.items():
            robust, plain, flagged, told, false = np.array(rows, dtype=float).T
            counts = (
                f"flagged {flagged.sum():.0f}, told {told.sum():.0f} of {faulty * len(rows)}, others {false.sum():.0f}"
            )
            results[f"{name}{faulty} {odd}"] = round(float(robust.mean()), 4)
            print(f"{name}{faulty} {odd:10} {with_error(robust)}  plain {plain.mean():.3f}  {counts}", flush=True)
    print(json.dumps(results))


if __name__ == "__main__":
    main()
