"""How much one member may ask of the others, and the rules by which members count."""

from collections.abc import Hashable
from typing import Annotated, Literal

import msgspec
from msgspec import Meta


class Allowance:
    """A budget per neighbour or member, refilled at every tick; overspending means waiting longer."""

    def __init__(self, each_tick: float, most: float | None = None) -> None:
        self._each_tick, self._most = each_tick, each_tick if most is None else most
        self._left: dict[Hashable, float] = {}

    def has(self, who: Hashable) -> bool:
        """Whether anything is left."""
        return self._left.get(who, self._most) > 0

    def spend(self, who: Hashable, amount: float) -> bool:
        """Spend an amount if anything is left; False if nothing was."""
        left = self._left.get(who, self._most)
        if left <= 0:
            return False
        self._left[who] = left - amount
        return True

    def refill(self) -> None:
        """Add one tick's budget. Entries that are full again are dropped."""
        later = {who: left + self._each_tick for who, left in self._left.items()}
        self._left = {who: left for who, left in later.items() if left < self._most}


# Default validity of certificates: of a group's authority, and of agents.
AUTHORITY_DAYS, AGENT_DAYS = 3650, 825


class Limits(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Limits on what one member may send. All members check the same ones, so that all accept the same records.

    `members` is the largest possible group: a contribution must leave the merge proper even if all of them sent it.
    `observations` bounds what one member may claim, `units` the words (or other units) per observation, `value` the
    absolute numbers in the data, if set. `refinements` bounds the refits per start of an agent. A member may sign one
    version per tick, and `versions` more in bursts; further ones wait. `tick_bytes` and `tick_messages` bound what one
    neighbour may send, or have sent to it, between two ticks.

    >>> network.Limits(members=10).observations
    1000000000000
    """

    members: int = 1000
    record_bytes: int = 64 << 20
    observations: int = 10**12
    units: int = 1_000_000
    value: float | None = None
    magnitude: float = 1e15
    shards: int = 10_000
    refinements: int = 20
    versions: int = 20
    tick_bytes: int = 64 << 20
    tick_messages: int = 200

    def __post_init__(self) -> None:
        low = [name for name in self.__struct_fields__ if not (getattr(self, name) or 0) > 0 and name != "value"]
        if self.value is not None and not self.value > 0:
            low.append("value")
        if low:
            raise ValueError(f"limits must be positive: {', '.join(low)}")


class SumRules(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Rules for groups that open only sums, so that no single contribution is ever visible.

    `rounds`: the most sums that are opened, each refining the previous one. `colluders`: the number of members that may
    pool their knowledge without learning anything about any other. `most_rows`: the most rows that a member may count;
    a member with more scales its contribution down.

    >>> network.SumRules(rounds=2).colluders
    1
    """

    rounds: Annotated[int, Meta(ge=1, le=1000)] = 3
    colluders: Annotated[int, Meta(ge=1)] = 1
    most_rows: Annotated[float, Meta(ge=1.0, le=1e9)] = 1e6


class PrivacyRules(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The (ε, δ)-differential privacy that all sums of a group together promise to each person.

    `rows_per_person` is the most rows of one person at a site. With `noise` "shared" members divide the noise among
    them, with enough to spare for the colluders that the sums allow; with "each" every member adds all of the noise and
    need not trust anybody.

    >>> network.PrivacyRules(epsilon=1.0, delta=1e-6).rows_per_person
    1
    """

    epsilon: Annotated[float, Meta(gt=0.0, le=100.0)]
    delta: Annotated[float, Meta(gt=0.0, lt=1.0)]
    rows_per_person: Annotated[int, Meta(ge=1)] = 1
    noise: Literal["shared", "each"] = "shared"


Share = Annotated[float, Meta(gt=0.0, le=1.0)]


class Rules(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The rules by which members count.

    `agreement`: a motion is settled once more than this share of the seats has voted for it. `least_observations`:
    smaller evidence is neither published nor accepted; disclosure rules, where the charter has some, state their own.
    `share`: no member counts for more than this share of all evidence; larger ones are scaled down. `compare`: data
    sets with at least this many observations carry a mark by which members notice that two of them hold the same data.
    `robust`: members that clearly disagree with most others are left out, at a small cost if there are none.
    `components`: the number of slots in the merge that members read: that of the model, another number, or "auto" to
    estimate it. `validation`: the share of each data set that is kept out of the fit, for scoring posteriors.
    `intervals`: members publish how their evidence depends on the merge, so that its intervals can be calibrated.

    >>> network.Rules(robust=True).agreement
    0.5
    """

    agreement: Annotated[float, Meta(ge=0.5, lt=1.0)] = 0.5
    least_observations: Annotated[int, Meta(ge=1)] = 1
    share: Share = 1.0
    compare: Annotated[int, Meta(ge=10)] = 100
    robust: bool = False
    components: Annotated[int, Meta(ge=1)] | Literal["model", "auto"] = "model"
    validation: Annotated[float, Meta(ge=0.0, le=0.5)] = 0.0
    intervals: bool = False

    @property
    def notes(self) -> bool:
        """Whether members publish notes on a merge once no more news arrives."""
        return self.intervals or self.validation > 0.0
