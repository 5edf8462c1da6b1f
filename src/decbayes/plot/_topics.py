"""Topics as bar charts of their words."""

from typing import TYPE_CHECKING

import numpy as np

from decbayes.arguments import check_kind, check_whole
from decbayes.plot.style import BLUE, grid, styled
from decbayes.posterior import Posterior

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@styled()
def topics(posterior: Posterior, *, top: int = 8, across: int = 5, factor: str = "topics") -> "Figure":
    """The most probable words of every topic, as one figure of small bar charts with one scale."""
    check_kind(Posterior, posterior=posterior)
    check_whole(1, top=top)
    probability = posterior.mean(factor)
    words = np.array(posterior.structure.labels.get(factor, tuple(map(str, range(probability.shape[1])))))
    figure, panels = grid(len(probability), across, width=1.55, height=0.5 + 0.145 * top)
    for topic, (axes, shares) in enumerate(zip(panels, probability, strict=True)):
        best = np.argsort(-shares, kind="stable")[:top]
        axes.barh(range(len(best)), shares[best], color=BLUE, height=0.7)
        axes.set_yticks(range(len(best)), words[best])
        axes.set(title=f"topic {topic}", xlim=(0, 1.05 * probability.max()), ylim=(len(best) - 0.4, -0.6))
        axes.tick_params(axis="y", length=0)
        axes.spines["left"].set_visible(False)
        axes.locator_params(axis="x", nbins=3)
        axes.xaxis.set_major_formatter("{x:g}")
    figure.supxlabel("probability", fontsize=8)
    return figure
