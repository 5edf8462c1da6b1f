"""A checker is worth what it catches: protocols with one rule broken, each of which the simulator must expose."""

import broken_pools  # which adds its mutants to those of agents
import pytest
from broken_agents import MUTANTS
from broken_decisions import DECISION_MUTANTS

from decbayes.network.simulation.guarantees import Violation
from decbayes.network.simulation.schedule import run_varied

assert broken_pools


def caught_by(seeds: range) -> str | None:
    """What the checkers say, or None if they let all histories pass."""
    for seed in seeds:
        try:
            run_varied(seed)
        except Violation as violation:
            return str(violation)
    return None


# These are always run; the other broken groups with `-m slow`, or by the benchmark of histories.
SOON = ("one vote settles", "a new epoch lets removed members in again", "votes have no numbers")
# Caught after a second of histories and more.
LATE = (
    "a forged signature makes a version hopeless", "versions are compared as texts", "contradictions are not pulled",
    "a forgotten version is followed by the next number", "a higher version wipes a proof out",
)  # fmt: skip


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.slow if name in {*DECISION_MUTANTS, *LATE} - {*SOON} else ())
        for name in MUTANTS
    ],
)
def test_the_checkers_catch(name, monkeypatch):
    breaks, seeds = MUTANTS[name]
    breaks(monkeypatch)
    violation = caught_by(seeds)
    print(f"{name}: {violation}")
    assert violation is not None


def test_there_are_as_many_broken_protocols_as_the_page_on_threats_says():
    """That the real one passes is tested in `test_simulation.py`."""
    assert len(MUTANTS) == 81
