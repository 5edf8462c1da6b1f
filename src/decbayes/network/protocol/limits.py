"""What one member may ask of the others."""

import msgspec

# How long certificates are valid unless asked otherwise: those of a group's authority, and those of agents.
AUTHORITY_DAYS, AGENT_DAYS = 3650, 825


class Limits(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What one member may ask of the others. All members check the same limits, so that all accept the same records.

    `members` is the most agents there will ever be: a contribution must leave the merge proper even if all of them sent
    it. `versions` bounds the signed headers that are kept of one agent, `refinements` the refits of one start of an
    agent. The last two bound what one neighbour may send, or have sent, between two ticks.
    """

    members: int = 1000
    record_bytes: int = 64 << 20
    observations: int = 10**12
    magnitude: float = 1e15
    shards: int = 10_000
    versions: int = 100_000
    refinements: int = 20
    tick_bytes: int = 256 << 20
    tick_messages: int = 10_000

    def __post_init__(self) -> None:
        low = [name for name in self.__struct_fields__ if not getattr(self, name) > 0]
        if low:
            raise ValueError(f"limits must be positive: {', '.join(low)}")
