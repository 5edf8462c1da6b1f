"""The paper's claims as sentences that are checked against the numbers and never hidden."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Claim:
    """A sentence with the numbers in it, and whether they bear it out."""

    sentence: str
    holds: bool

    def __str__(self) -> str:
        return f"{self.sentence}: {'holds' if self.holds else 'does NOT hold'}"


def number(value: float, digits: int = 2) -> str:
    """A number as it is printed: a true minus sign, and a dash for what was not measured."""
    return "–" if np.isnan(value) else f"{value:.{digits}f}".replace("-", "−")


@dataclass(frozen=True)
class Compared:
    """One side of a comparison: whose number it is."""

    who: str
    value: float


def beats(better: Compared, worse: Compared, *, by: float = 0.0, digits: int = 2) -> Claim:
    """Higher is better, by at least `by`: «AMPS median −7.56 beats the individual agents' −8.37»."""
    margin = f" by at least {number(by, digits)}" if by else ""
    sentence = sides(better, "beats", worse, digits) + margin
    return Claim(sentence, holds=better.value - worse.value > 0 and better.value - worse.value >= by)


def no_worse(candidate: Compared, reference: Compared, *, slack: float = 0.0, digits: int = 2) -> Claim:
    """Higher is better; the candidate may fall short by `slack`."""
    margin = f" minus {number(slack, digits)}" if slack else ""
    sentence = sides(candidate, "is no worse than", reference, digits) + margin
    return Claim(sentence, holds=candidate.value >= reference.value - slack)


def below(smaller: Compared, larger: Compared, *, digits: int = 2) -> Claim:
    """For errors, spreads and distances, where less is better."""
    return Claim(sides(smaller, "is below", larger, digits), holds=smaller.value < larger.value)


def within(smaller: Compared, larger: Compared, *, times: float, digits: int = 2) -> Claim:
    """The first is at most so many times the second."""
    sentence = sides(smaller, f"is at most {number(times, 1)} times", larger, digits)
    return Claim(sentence, holds=smaller.value <= times * larger.value)


def sides(first: Compared, verb: str, second: Compared, digits: int) -> str:
    # Two numbers that print alike must not seem equal when one of them is larger.
    while digits < 6 and first.value != second.value and number(first.value, digits) == number(second.value, digits):
        digits += 1
    return f"{first.who} {number(first.value, digits)} {verb} {second.who} {number(second.value, digits)}"


def always(
    sentence: str, values: "list[float] | np.ndarray[tuple[int], np.dtype[np.float64]]", test: Callable[[float], bool]
) -> Claim:
    """A statement about each of several numbers; false of none at all."""
    return Claim(sentence, holds=len(values) > 0 and all(test(float(value)) for value in values))
