"""Held-back scores against the number of slots."""

from typing import TYPE_CHECKING

import numpy as np

from decbayes.calibration import Scores
from decbayes.errors import InvalidData
from decbayes.plot.style import BLUE, GREY, new_axes, styled

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@styled()
def slots(scores: Scores, *, axes: "Axes | None" = None) -> "Axes":
    """Draw how well merges into each number of slots predict held-back data, with standard errors.

    `scores` is the result of `db.validate` for merges by number of slots, such as `db.merging.tree(…).cuts(…)`. `axes`
    are the axes to draw on, if given.

    >>> model = db.GaussianMixture(2, 1, variance=1.0, prior_variance=100.0)
    >>> rng = np.random.default_rng(0)
    >>> sites = [model.fit(0.01 * n + np.array([[-9.0], [-8.0], [9.0]]), rng=rng).posterior for n in range(3)]
    >>> held_back = np.array([[-9.0], [9.0], [8.5], [-8.2]] * 3)
    >>> scores = db.validate(model, db.merging.tree(sites).cuts([1, 2, 3]), held_back)
    >>> db.plot.slots(scores).get_xlabel()
    'slots'
    """
    numbers = [int(name) for name in scores.names if str(name).isdecimal()]
    if len(numbers) != len(scores.names) or len(numbers) < 2:
        raise InvalidData("A curve needs scores for two or more numbers of slots, as made by `validate --cuts`.")
    order = np.argsort(numbers)
    names = [scores.names[place] for place in order]
    across = [numbers[place] for place in order]
    values, best = [scores.score(name) for name in names], scores.best
    errors = [0.0 if name == best else scores.error(best, name) for name in names]
    axes = axes if axes is not None else new_axes(4.2, 2.4)
    axes.errorbar(across, values, errors, color=BLUE, ecolor=GREY, marker="o", markersize=3, capsize=2, linewidth=1.2)
    fewer = f"; {scores.smallest} within its error" if scores.rule == "smallest" and scores.smallest != best else ""
    axes.set(xlabel="slots", ylabel=f"score per {scores.unit}", title=f"best: {best} slots{fewer}")
    return axes
