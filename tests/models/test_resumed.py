"""A climb that was interrupted anywhere goes on to where it would have ended, without a pass too many."""

import numpy as np
import pytest

from decbayes.models.core.ascent import Ascent, Keep, as_arrays, best_climb

HEIGHTS = [3.0, 1.0, 2.0]  # of the hills that the starts are on; the first is the highest


class Watched:
    """Raises Ctrl-C after a given pass, and knows where an earlier climb was left."""

    def __init__(self, stop=None, left=None):
        self.stop, self.left, self.reports = stop, left, []

    def __call__(self, reached):
        self.reports.append((reached.restart, reached.number))
        if (reached.restart, reached.number) == self.stop:
            raise KeyboardInterrupt


def climbed(progress, ascent):
    starts, steps = iter(range(len(HEIGHTS))), []

    def start():
        return {"hill": np.array(next(starts)), "below": np.array(1.0)}

    def step(state):
        steps.append(int(state["hill"]))
        below = 0.5 * state["below"]
        return {"hill": state["hill"], "below": below}, HEIGHTS[int(state["hill"])] - float(below)

    found = best_climb(start, step, ascent=ascent, observations=1, progress=progress, keep=Keep(dict, as_arrays))
    return found, steps


@pytest.mark.parametrize("restart", range(3))
@pytest.mark.parametrize("number", [1, 2, 5])
def test_it_ends_where_it_would_have_ended(restart, number):
    ascent = Ascent(passes=5, tolerance=0.0, restarts=2)
    whole, steps = climbed(Watched(), ascent)
    first, before = climbed(Watched((restart, number)), ascent)
    assert first.interrupted
    after = Watched(left=first.paused)
    found, further = climbed(after, ascent)
    assert (found.bound, found.converged, found.state) == (whole.bound, whole.converged, whole.state)
    assert before + further == steps
    assert after.reports[:1] in ([(restart, number + 1)], [(restart + 1, 1)], [])


def test_one_that_had_just_converged_makes_no_further_pass():
    ascent = Ascent(passes=50, tolerance=0.3, restarts=0)
    whole, steps = climbed(Watched(), ascent)
    first, before = climbed(Watched((0, len(steps))), ascent)
    found, further = climbed(Watched(left=first.paused), ascent)
    assert (before, further) == (steps, [])
    assert (found.bound, found.converged) == (whole.bound, True)
