"""`decbayes demo`: the mixture of section 2.2 on ten agents, naive against merged."""

from pathlib import Path

import numpy as np

import decbayes as db
from decbayes.families import Array

MEANS, WEIGHTS, VARIANCE = np.array([1.0, -1.0, 3.0]), np.array([0.6, 0.3, 0.1]), 0.09


def demo(*, seed: int = 0, out: Path = Path("demo")) -> None:
    """Ten agents with three points each: what each knows, what the naive merge makes of it, and what AMPS does.

    Example: decbayes demo --seed 3 --out demo

    Parameters
    ----------
    seed:
        Another seed draws other points.
    out:
        Folder for the picture.
    """
    from rich.console import Console
    from rich.table import Table

    rng = np.random.default_rng(seed)
    model = db.GaussianMixture(components=3, variance=VARIANCE, prior_variance=2.0)
    points, held_out = draw(30, rng), draw(1000, rng)
    agents = [model.fit(shard, rng=rng).posterior for shard in points.reshape(10, 3)]
    posteriors = {
        "one agent alone": agents[0],
        "naive merge": db.product(agents),
        "AMPS merge": db.merge(agents),
        "all data in one place": model.fit(points, rng=rng).posterior,
    }
    table = Table("posterior", "cluster means", "weights", "held-out log density")
    for name, posterior in posteriors.items():
        order = np.argsort(posterior.mean("components")[:, 0])
        means, weights = posterior.mean("components")[order, 0], posterior.mean("weights")[order]
        score = model.log_predictive(posterior, held_out).mean()
        table.add_row(name, *(" ".join(f"{v:6.2f}" for v in values) for values in (means, weights)), f"{score:.2f}")
    console = Console()
    console.print("Ten agents hold three points each of a mixture with means −1, 1, 3 and weights 0.3, 0.6, 0.1.")
    console.print(table)
    console.print(f"Picture: {picture(model, posteriors, points, out)}")


def draw(count: int, rng: np.random.Generator) -> Array:
    return rng.normal(MEANS[rng.choice(3, size=count, p=WEIGHTS)], np.sqrt(VARIANCE))


def picture(model: db.GaussianMixture, posteriors: dict[str, db.Posterior], points: Array, out: Path) -> Path:
    from matplotlib.figure import Figure

    grid = np.linspace(-3, 5, 500)
    truth = np.exp(-0.5 * (grid[:, None] - MEANS) ** 2 / VARIANCE) @ WEIGHTS / np.sqrt(2 * np.pi * VARIANCE)
    figure = Figure(figsize=(10, 2.8), layout="constrained")
    panels = figure.subplots(1, len(posteriors), sharey=True)
    for panel, (name, posterior) in zip(panels, posteriors.items(), strict=True):
        panel.fill_between(grid, truth, color="0.85", lw=0)
        panel.plot(grid, np.exp(model.log_predictive(posterior, grid)), color="C0")
        panel.plot(points, np.full(len(points), -0.03), "|", color="0.3", ms=6)
        panel.set_title(name, fontsize=10)
        panel.spines[["top", "right"]].set_visible(False)
        panel.set_xlabel("x")
    panels[0].set_ylabel("predictive density")
    out.mkdir(parents=True, exist_ok=True)
    figure.savefig(out / "demo.png", dpi=150)
    return out / "demo.png"
