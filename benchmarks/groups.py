"""How often the look at groups is right: colluding sites that no single flag finds, and honest sites of every kind.

    python benchmarks/groups.py [--seeds 5] [--first 0] [--quick] [--kinds known diagonal classes topics regression]

Ten sites, merged into as many slots as a site has components, as charters do.
Of the faulty ones three put the same wrong component in the place of their largest ("colluding"), with as
much data as the others, or claim four times as much ("colluding x4"); or displace it ("displaced x4"). Honest sites
have everything alike, three of five components each ("unlike"), sizes that vary by a factor of about ten ("sizes"), or
values that differ from site to site ("differ"). Printed for each: how far the default merge is from that of the honest
sites, in posterior deviations (median); the share of runs in which a single site is flagged; the share with a warning
about groups; the share in which it names a group, and how often that group holds faulty sites only; the share of
evidence of the largest three; seconds for the look. The last line is JSON.
"""

import argparse
import json
import time
import warnings
from typing import Any

import numpy as np
from _attacks import KINDS, deviation

import decbayes as db
from decbayes.merging.base.products import scaled
from decbayes.posterior import Posterior

SITES, FAULTY, SPREAD = 10, 3, 0.3
HONEST = ("alike", "unlike", "sizes", "differ")
ATTACKS = ("colluding", "colluding x4", "displaced x4", "colluding x4, unlike")


def honest_sites(kind: str, setting: str, seed: int) -> tuple[Any, list[Any], list[Posterior], np.random.Generator]:
    """Data, shards and fits of ten honest sites."""
    rng = np.random.default_rng([seed, *setting.encode()])
    data = KINDS[kind](rng)
    sizes = np.exp(rng.normal(scale=0.8, size=SITES)) if setting == "sizes" else np.ones(SITES)
    shards = [data.draw(rng, max(int(data.observations * size), 20), unlike="unlike" in setting) for size in sizes]
    if setting == "differ":
        shards = [(shifted(points, rng), labels) for points, labels in shards]
    return data, shards, [data.model.fit(points, rng=rng).posterior for points, _ in shards], rng


def shifted(points: Any, rng: np.random.Generator) -> Any:
    """The same site with another zero of its instruments; counts and tables stay as they are."""
    if isinstance(points, np.ndarray) and points.ndim == 2 and not np.array_equal(points, np.rint(points)):
        return points + rng.normal(scale=SPREAD, size=points.shape[1])
    return points


def looked_at(sites: list[Posterior], faulty: int) -> dict[str, Any]:
    alignment = db.align(sites, components="largest")
    influence, started = db.merging.influence(alignment), time.process_time()
    found = db.merging.parties(alignment)
    named = found.outstanding[0].sites if found.outstanding else ()
    return {
        "alignment": alignment,
        "single": any(influence.flags(site) for site in range(SITES)),
        "warned": bool(found.remarks()),
        "named": bool(named),
        "right": bool(named) and all(site < faulty for site in named),
        "share": found.share,
        "seconds": time.process_time() - started,
    }


def run(kind: str, setting: str, seed: int) -> dict[str, Any] | None:
    attack = setting.split(" ")[0].rstrip(",")
    data, shards, fits, rng = honest_sites(kind, setting, seed)
    if setting in HONEST:
        return {**looked_at(fits, 0), "moved": 0.0}
    if attack not in data.attacks:
        return None
    scale = 4.0 if "x4" in setting else 1.0
    lies = [data.model.fit(data.spoilt(attack, shards[site], rng), rng=rng).posterior for site in range(FAULTY)]
    found = looked_at([*(scaled(lie, scale) for lie in lies), *fits[FAULTY:]], FAULTY)
    return {
        **found,
        "moved": float(deviation(data, found["alignment"].merged(), db.merge(fits[FAULTY:], components="largest"))),
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--kinds", nargs="*", choices=[*KINDS], default=[*KINDS])
    parser.add_argument("--quick", action="store_true", help="one seed, clusters and regressions only")
    options = parser.parse_args()
    if options.quick:
        options.seeds, options.kinds = 1, ["known", "regression"]
    warnings.simplefilter("ignore")
    heads = ("moved", "single", "warned", "named", "right", "share", "s")
    print(f"{'':34}" + "".join(f"{head:>9}" for head in heads))
    results, seeds = {}, range(options.first, options.first + options.seeds)
    for kind in options.kinds:
        for setting in (*HONEST, *ATTACKS):
            runs = [found for seed in seeds if (found := run(kind, setting, seed)) is not None]
            if not runs:
                continue
            row = {key: float(np.mean([one[key] for one in runs])) for key in ("single", "warned", "named", "share")}
            right = [one["right"] for one in runs if one["named"]]
            row["right"] = float(np.mean(right)) if right else float("nan")
            row["moved"] = float(np.median([one["moved"] for one in runs]))
            row["s"] = float(np.mean([one["seconds"] for one in runs]))
            results[f"{kind}, {setting}"] = {name: round(value, 3) for name, value in row.items()}
            print(f"{kind + ', ' + setting:34}" + "".join(f"{row[head]:9.2f}" for head in heads), flush=True)
    print(json.dumps({"benchmark": "groups", "seeds": [*seeds], "results": results}))


if __name__ == "__main__":
    main()
