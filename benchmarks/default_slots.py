"""How many slots: merges of random small settings with each rule, beside one fit of all data.

    python benchmarks/default_slots.py [--quick] [--settings N] [--first SEED] [--known]

A setting is drawn at random: a mixture (known, diagonal or full covariances, yes/no or categorical columns) of 2 to 8
components at 2 to 12 sites of 5 to 300 rows; sites see all, three quarters or half of the components; a quarter of the
Gaussian ones have heavy tails and a quarter correlated columns, which the model does not know. Sites fit the number of
components that they see, the true one, three more, or "auto". Rows are rules for the number of slots: that of the
largest site, "auto", the default. The reference is the better of two fits of all rows, one with the true number (twenty
starts) and one with "auto". Columns: mean score behind the reference in nats per held-out row; the share of settings
more than 0.2 behind; the number of slots; seconds. The last line is JSON.

`--known` gives every site and the merge the true number, which leaves the starts of the fits to be judged: "true" has
the usual ten starts, "forty starts" four times as many, and "begun at one fit" starts from the fit of all rows. "Lower"
is the share of sites whose bound is lower in that last fit than after forty starts, where ten starts are far behind: no
choice among starts by the bound would take it.
"""

import argparse
import json
import os
import warnings
from dataclasses import dataclass, replace
from time import process_time

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

import numpy as np

import decbayes as db

KINDS = ("known", "diagonal", "full", "binary", "categorical")
CATEGORIES = 4
FAR = 0.2
EQUAL = 1e-3
"""Nats by which two bounds may differ at the same optimum."""


@dataclass(frozen=True)
class Setting:
    """One random setting: what is true, and what sites know of it."""

    seed: int
    kind: str
    components: int
    dimension: int
    sites: int
    rows: int
    apart: float
    seen: float
    tails: str
    fitted: str
    even: bool

    @classmethod
    def drawn(cls, seed):
        rng = np.random.default_rng([25, seed])
        kind = str(rng.choice(KINDS, p=[0.2, 0.3, 0.2, 0.15, 0.15]))
        table = kind in ("binary", "categorical")
        tails = "none" if table else str(rng.choice(["none", "none", "heavy", "correlated"]))
        return cls(
            seed,
            kind,
            components=int(rng.integers(2, 9)),
            dimension=int(rng.choice([8, 16, 30] if table else [2, 3, 5])),
            sites=int(rng.choice([2, 4, 8, 12])),
            rows=int(rng.choice([5, 10, 20, 50, 100, 300])),
            apart=float(rng.choice([2, 3, 4, 6])),
            seen=float(rng.choice([1.0, 0.75, 0.5])),
            tails="heavy" if kind == "full" and tails == "correlated" else tails,
            fitted=str(rng.choice(["auto", "seen", "true", "more"])),
            even=bool(rng.integers(2)),
        )

    @property
    def side(self):
        """Half the width of the box of all centres."""
        return self.apart * max(self.components, 2) ** (1 / self.dimension)

    def model(self, components):
        if self.kind == "binary":
            return db.BernoulliMixture(components, self.dimension)
        if self.kind == "categorical":
            return db.CategoricalMixture(components, self.dimension, categories=CATEGORIES)
        if self.kind == "known":
            return db.GaussianMixture(components, self.dimension, variance=1.0, prior_variance=self.side**2)
        return db.GaussianMixture(components, self.dimension, covariance=self.kind)

    def site_number(self):
        seen = max(1, int(np.ceil(self.seen * self.components)))
        return {"auto": "auto", "seen": seen, "true": self.components, "more": self.components + 3}[self.fitted]


class World:
    """The true mixture of a setting; `draw` gives rows of some of its components."""

    def __init__(self, setting, rng):
        self.setting, self.rng = setting, rng
        count, dimension = setting.components, setting.dimension
        self.weights = np.full(count, 1 / count) if setting.even else rng.dirichlet(np.full(count, 2.0))
        if setting.kind == "binary":
            self.chances = np.clip(rng.beta(0.5, 0.5, size=(count, dimension)), 0.03, 0.97)
        elif setting.kind == "categorical":
            self.chances = rng.dirichlet(np.full(CATEGORIES, 0.5), size=(count, dimension))
        else:
            self.centres, self.scales = self._centres(), self._scales()

    def _centres(self):
        setting, centres = self.setting, []
        while len(centres) < setting.components:
            tried = self.rng.uniform(-setting.side, setting.side, size=(200, setting.dimension))
            far = [c for c in tried if all(np.linalg.norm(c - other) >= setting.apart for other in centres)]
            centres.append((far or list(tried))[0])
        return np.array(centres)

    def _scales(self):
        setting, rng = self.setting, self.rng
        shapes = np.tile(np.eye(setting.dimension), (setting.components, 1, 1))
        if setting.kind == "diagonal" and setting.tails != "correlated":
            shapes = shapes * rng.uniform(0.4, 1.6, size=(setting.components, 1, setting.dimension))
        if setting.kind == "full" or setting.tails == "correlated":
            ways = rng.normal(size=(setting.components, setting.dimension))
            ways /= np.linalg.norm(ways, axis=1, keepdims=True)
            shapes = 0.3 * shapes + 4.0 * ways[:, :, None] * ways[:, None, :]
        return np.linalg.cholesky(shapes)

    def draw(self, among, count):
        setting, rng = self.setting, self.rng
        labels = rng.choice(among, count, p=self.weights[among] / self.weights[among].sum())
        if setting.kind == "binary":
            return (rng.random((count, setting.dimension)) < self.chances[labels]).astype(float)
        if setting.kind == "categorical":
            uniform = rng.random((count, setting.dimension, 1))
            return (uniform > self.chances[labels].cumsum(axis=2)[:, :, :-1]).sum(axis=2).astype(float)
        heavy = setting.tails == "heavy"
        noise = rng.standard_t(3, size=(count, setting.dimension)) / np.sqrt(3) if heavy else None
        noise = rng.normal(size=(count, setting.dimension)) if noise is None else noise
        return self.centres[labels] + np.einsum("nij,nj->ni", self.scales[labels], noise)


def drawn_rows(setting):
    """The rows of the sites, held-out rows as the sites draw them, and the generator for the fits."""
    rng = np.random.default_rng([26, setting.seed])
    world = World(setting, rng)
    seen = max(1, int(np.ceil(setting.seen * setting.components)))
    sets = [rng.permutation(setting.components)[:seen] for _ in range(setting.sites)]
    shards = [world.draw(among, setting.rows) for among in sets]
    test = np.concatenate([world.draw(among, max(1000 // setting.sites, 50)) for among in sets])
    return shards, test, rng


def one_fit(setting, shards, rng):
    """The fit of all rows with the true number, the best of twenty starts."""
    model = setting.model(setting.components)
    return replace(model, ascent=replace(model.ascent, restarts=19)).fit(np.concatenate(shards), rng=rng).posterior


def score(posterior, rows):
    return float(db.model_for(posterior.structure).log_predictive(posterior, rows).mean())


def number(posterior):
    return posterior.structure.components(posterior.structure.symmetry[0])


def measured(setting):
    """For each rule: its score behind the reference, the number of slots, and seconds."""
    shards, test, rng = drawn_rows(setting)
    model = setting.model(setting.site_number())
    posteriors = [model.fit(shard, rng=rng).posterior for shard in shards]
    found = setting.model("auto").fit(np.concatenate(shards), rng=rng).posterior
    reference = max(score(one_fit(setting, shards, rng), test), score(found, test))
    rules = {"largest": "largest", "auto": "auto", "default": None}
    return {name: merged(posteriors, components, test, reference) for name, components in rules.items()}


def known_number(setting):
    """With the true number everywhere: the usual starts, and the fit of all rows as the start of each site."""
    shards, test, rng = drawn_rows(setting)
    model, whole = setting.model(setting.components), one_fit(setting, shards, rng)
    longer = replace(model, ascent=replace(model.ascent, restarts=39))
    fits = {
        "true": [model.fit(shard, rng=rng) for shard in shards],
        "forty starts": [longer.fit(shard, rng=rng) for shard in shards],
        "begun at one fit": [model.fit(shard, start=whole) for shard in shards],
    }
    begun, best = (np.array([fit.bound[-1] for fit in fits[name]]) for name in ("begun at one fit", "forty starts"))
    best_score = score(whole, test)
    rows = {
        name: merged([fit.posterior for fit in those], setting.components, test, best_score)
        for name, those in fits.items()
    }
    rows["begun at one fit"]["lower"] = float(np.mean(begun < best - EQUAL))
    return rows


def merged(posteriors, components, test, reference):
    began = process_time()
    posterior = db.merge(posteriors, components=components)
    seconds = process_time() - began
    return {"behind": score(posterior, test) - reference, "slots": number(posterior), "seconds": seconds}


GROUPS = {
    "all": lambda setting: True,
    "20 rows or fewer": lambda setting: setting.rows <= 20,
    "50 rows or more, model true": lambda setting: setting.rows >= 50 and setting.tails == "none",
    "50 rows or more, model wrong": lambda setting: setting.rows >= 50 and setting.tails != "none",
}


def summary(runs):
    """For each group of settings and each rule: means over settings."""
    table = {}
    for group, member in GROUPS.items():
        chosen = [found for setting, found in runs if member(setting)]
        for name in chosen[0] if chosen else ():
            behind = np.array([found[name]["behind"] for found in chosen])
            table[f"{group}: {name}"] = {
                "settings": len(chosen),
                "behind": round(float(behind.mean()), 3),
                "error": round(float(behind.std() / len(behind) ** 0.5), 3),
                "far behind": round(float((behind < -FAR).mean()), 3),
                "slots": round(float(np.mean([found[name]["slots"] for found in chosen])), 1),
                "seconds": round(float(np.mean([found[name]["seconds"] for found in chosen])), 3),
            }
            if "lower" in chosen[0][name]:
                far = [found[name]["lower"] for found in chosen if found["true"]["behind"] < -FAR]
                table[f"{group}: {name}"]["lower"] = round(float(np.mean(far)), 2) if far else None
    return table


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="three settings")
    parser.add_argument("--settings", type=int, default=150)
    parser.add_argument("--first", type=int, default=0, help="seed of the first setting")
    parser.add_argument("--known", action="store_true", help="sites and merges are given the true number")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    count = 3 if options.quick else options.settings
    settings = [Setting.drawn(seed) for seed in range(options.first, options.first + count)]
    compared = known_number if options.known else measured
    runs = [(setting, compared(setting)) for setting in settings]
    table = summary(runs)
    for name, row in table.items():
        print(f"{name:40s}", "  ".join(f"{label} {value}" for label, value in row.items()))
    print(json.dumps(table))


if __name__ == "__main__":
    main()
