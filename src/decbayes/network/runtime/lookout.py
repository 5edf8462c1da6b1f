"""What an agent's service watches and logs: dropped messages, floods, links, isolation, members that stand out."""

from collections import Counter
from functools import partial
from typing import Any

from decbayes.network.protocol.agent import Agent
from decbayes.network.protocol.records.merges import UNCOMPUTABLE, Merged
from decbayes.network.runtime.links.transport import Transport
from decbayes.network.runtime.queues import Inbox, Worker
from decbayes.network.runtime.reports.description import member_name, set_description
from decbayes.network.runtime.reports.log import Log

# Ticks without news after which the members are examined.
QUIET_TICKS = 15
# Ticks without a neighbour after which that is logged.
ALONE_TICKS = 25
ALONE = "No neighbour is linked."
# Dropped messages between two ticks from which on a neighbour is shut out.
FLOOD = 1000
# The interval, in ticks, of log lines on addresses that crowd the gate, and the most addresses per time.
CROWD_TICKS, MOST_CROWDS = 50, 10


class Lookout:
    """Checks everything at each tick. Only merges run outside the agent's thread."""

    def __init__(self, agent: Agent, transport: Transport, inbox: Inbox, merges: Worker, log: Log) -> None:
        self._agent, self._transport, self._inbox, self._merges, self._log = agent, transport, inbox, merges, log
        self.merged: Merged | None = None
        """The last merge that was examined; a new one may take long, and is made in another thread."""
        self.quiet = self._ticks_alone = self._dropped = 0
        self._root = self._looked_at = b""
        self._flags: dict[str, tuple[str, ...]] = {}
        self._same_data: set[tuple[str, ...]] = set()
        self._groups: set[str] = set()
        self._unreachable: dict[str, str] = {}
        self.crowded: dict[str, int] = {}
        """Addresses that crowd the gate, with the number of connections closed in the last ten seconds."""
        self._crowds: Counter[str] = Counter()
        self._crowds_due = 0

    def tick(self) -> None:
        self._look_around()
        self._report_losses()
        self._shut_out_floods()
        self._report_refusals()
        self._report_crowds()
        self._report_unreachable()

    def _look_around(self) -> None:
        root = self._agent.pool.root
        self.quiet = self.quiet + 1 if root == self._root else 0
        self._root = root
        self._ticks_alone = 0 if self._agent.peers else self._ticks_alone + 1
        if self.quiet == QUIET_TICKS and self._looked_at != root:
            self._looked_at = root
            self._merges.submit(self._look_at_members)
        if self._ticks_alone == ALONE_TICKS:
            waiting = " Nothing is published before one answers." if self._agent.waiting else ""
            who = "No linked agent belongs to this group. Compare charters." if self._transport.linked else ALONE
            self._log("alone", text=f"{who}{waiting}")

    def _report_losses(self) -> None:
        """Report dropped messages; anything important in them will be sent again."""
        dropped = self._inbox.dropped + self._transport.dropped
        if dropped > self._dropped:
            self._log("dropped", messages=dropped - self._dropped)
        self._dropped = dropped

    def _shut_out_floods(self) -> None:
        """Shut out a neighbour that floods this agent, so that others get their turn."""
        for source, count in list(self._inbox.dropped_of.items()):
            if count >= FLOOD and source in self._agent.peers:
                member = member_name(self._agent, source)
                why = f"a flood: {count:,} messages were dropped"
                self._log("shut_out", member=member, address=self._transport.shut_out(source), why=why)
        self._inbox.dropped_of.clear()

    def _report_refusals(self) -> None:
        """Count and log links that were refused before they reached the agent, for want of a valid certificate."""
        warnings = [self._log.warnings.popleft() for _ in range(len(self._log.warnings))]
        for text in (*warnings, *self._transport.refusals()):
            self._agent.refused["link"] += 1
            self._log("refused", reason="link", text=text)

    def _report_crowds(self) -> None:
        """Report addresses that crowd the gate: at once, then every ten seconds while it lasts."""
        for crowd in self._transport.crowds():
            self._crowds[crowd.address] += crowd.connections
        if self._crowds and self._agent.ticks >= self._crowds_due:
            self.crowded = dict(self._crowds.most_common(MOST_CROWDS))
            for address, connections in self.crowded.items():
                self._log("crowded", address=address, connections=connections, addresses=len(self._crowds))
            self._crowds.clear()
            self._crowds_due = self._agent.ticks + CROWD_TICKS
        elif self._agent.ticks >= self._crowds_due + CROWD_TICKS:
            self.crowded = {}

    def _report_unreachable(self) -> None:
        """Report once why a neighbour cannot be reached; again if the reason changes or it was reachable in between."""
        reasons = dict(self._log.unreachable)
        for endpoint, why in reasons.items() - self._unreachable.items():
            self._log("unreachable", endpoint=endpoint, why=why)
        self._unreachable = reasons

    def _report_flags(self, described: dict[str, Any]) -> None:
        """Report flagged members whenever the flags change. Flags exclude nobody."""
        flags = {name: tuple(member["flags"]) for name, member in described["members"].items() if member.get("flags")}
        for name, texts in flags.items() - self._flags.items():
            member = described["members"][name]
            self._log("flagged", member=name, share=member["share"], apart=member.get("apart"), why="; ".join(texts))
        self._flags = flags
        warnings = set(described.get("groups", {}).get("warnings", ()))
        for text in warnings - self._groups:
            self._log("group", why=text)
        self._groups = warnings
        same = {tuple(names) for names in described["same_data"]}
        for names in same - self._same_data:
            self._log("same_data", members=list(names), why="the same data set counts for each of them")
        self._same_data = same

    # In the merging thread

    def _look_at_members(self) -> None:
        """Merge all records, and report flagged members."""
        try:
            pool = self._agent.pool.as_of_now()
            merged = pool.merged()
            if not pool.charter.rules.robust:
                # Parties may lead to the advice to merge robustly, which is moot in a robust group.
                _ = merged.parties
            described = set_description(merged, pool)
            if pool.charter.rules.notes:
                pool.believed()
        except UNCOMPUTABLE as error:
            self._inbox.post(partial(self._log, "not_merged", why=str(error)))
            return
        self.merged = merged
        self._inbox.post(partial(self._report_flags, described))
