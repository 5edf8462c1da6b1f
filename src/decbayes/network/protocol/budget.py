"""How much others may ask for between two ticks: a bound on what a bad one can cost."""

from collections.abc import Hashable


class Allowance:
    """So much for everybody at every tick. A single thing may cost more than that; its owner then waits for longer."""

    def __init__(self, each_tick: float, most: float | None = None) -> None:
        self._each_tick, self._most = each_tick, each_tick if most is None else most
        self._left: dict[Hashable, float] = {}

    def has(self, who: Hashable) -> bool:
        """Whether anything is left."""
        return self._left.get(who, self._most) > 0

    def spend(self, who: Hashable, amount: float) -> bool:
        """Take so much, if anything is left; whether it was."""
        left = self._left.get(who, self._most)
        if left <= 0:
            return False
        self._left[who] = left - amount
        return True

    def refill(self) -> None:
        """A tick has passed. Whoever has all of it back is forgotten."""
        later = {who: left + self._each_tick for who, left in self._left.items()}
        self._left = {who: left for who, left in later.items() if left < self._most}
