"""What one member may ask of the others and how much it may cost them; by which rules members count."""

from collections.abc import Hashable
from typing import Annotated, Literal

import msgspec
from msgspec import Meta


class Allowance:
    """A budget per neighbour or member, refilled at every tick; whoever spends more than that waits longer."""

    def __init__(self, each_tick: float, most: float | None = None) -> None:
        self._each_tick, self._most = each_tick, each_tick if most is None else most
        self._left: dict[Hashable, float] = {}

    def has(self, who: Hashable) -> bool:
        """Whether anything is left."""
        return self._left.get(who, self._most) > 0

    def spend(self, who: Hashable, amount: float) -> bool:
        """Spend an amount if anything is left; returns whether it was."""
        left = self._left.get(who, self._most)
        if left <= 0:
            return False
        self._left[who] = left - amount
        return True

    def refill(self) -> None:
        """A tick has passed. Entries with a full budget are dropped."""
        later = {who: left + self._each_tick for who, left in self._left.items()}
        self._left = {who: left for who, left in later.items() if left < self._most}


# How long certificates are valid unless asked otherwise: those of a group's authority, and those of agents.
AUTHORITY_DAYS, AGENT_DAYS = 3650, 825


class Limits(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What one member may ask of the others. All members check the same limits, so that all accept the same records.

    `members` is the most agents there will ever be: a contribution must leave the merge proper even if all of them sent
    it. `observations` is the most that one member may claim, `units` the most words (or other units) of one
    observation, `value` the largest absolute number in the data, if there is one. `refinements` bounds the refits of
    one start of an agent. Whoever signs versions faster than one per tick has `versions` of them to spare; the rest
    waits. The last two bound what one neighbour may send, or have sent, between two ticks.

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
    """How members add up what they know, where nobody may see what a single one has.

    `rounds`: how many sums are opened at most, each refining the one before it. `colluders`: how many members may pool
    what they know without learning anything about a single other one. `most_rows`: the most rows that a member may
    count; one with more scales its contribution down.

    >>> network.SumRules(rounds=2).colluders
    1
    """

    rounds: Annotated[int, Meta(ge=1, le=1000)] = 3
    colluders: Annotated[int, Meta(ge=1)] = 1
    most_rows: Annotated[float, Meta(ge=1.0, le=1e9)] = 1e6


class PrivacyRules(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What is promised to each person by all sums of a group together: (ε, δ)-differential privacy.

    `rows_per_person` is the most rows that one person has at a site. With `noise` "shared" members share one noise,
    which stays what it is if as many of them collude as the group's sums allow; with "each" every member adds all of
    the noise, and does not have to trust anybody.

    >>> network.PrivacyRules(epsilon=1.0, delta=1e-6).rows_per_person
    1
    """

    epsilon: Annotated[float, Meta(gt=0.0, le=100.0)]
    delta: Annotated[float, Meta(gt=0.0, lt=1.0)]
    rows_per_person: Annotated[int, Meta(ge=1)] = 1
    noise: Literal["shared", "each"] = "shared"


Share = Annotated[float, Meta(gt=0.0, le=1.0)]


class Rules(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """By which rules members count.

    `agreement`: a member is removed, or its key replaced, when more than this share of the charter's members has signed
    it. `least_observations`: evidence of fewer is neither published nor accepted; where a charter has disclosure rules,
    they say it. `share`: no member counts for more than this share of all evidence; what it has beyond is scaled down.
    `compare`: data sets of at least so many observations carry a mark, by which members notice that two of them hold
    the same data. `robust`: members that clearly disagree with most others are left out, at a small price where there
    are none. `components`: how many slots the merge has that members read: as many as the model has components, another
    number, or "auto" to find it. `validation`: this share of each data set is kept out of the fit, so that its holder
    can score posteriors with it. `intervals`: members say beside their evidence how it depends on the merge, so that
    its intervals can be calibrated.

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
