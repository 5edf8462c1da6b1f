"""Agents that join, leave, crash and still agree, without a centre.

The protocol core does no I/O. A transport feeds an `Agent` calls and bytes and carries out the effects it returns:

    charter, identity = Charter.load("group.toml"), Identity.load("site-a.key")
    with SqliteStore("site-a.store", charter) as store:
        agent = Agent(charter, identity, rng=rng, saved=store.load())

        def perform(effects):                         # persist first, then send and log the rest
            for effect in persist_first(agent, effects, store):
                match effect:
                    case Send(peer, message): link.send(peer, message)       # may lose, delay, double, reorder
                    case Report(event, fields): log(event, **fields)

        perform(agent.on_connect("site-b"))           # a link is up; "site-b" is the transport's name for it
        perform(agent.on_bytes("site-b", message))    # a message arrived, valid or not
        perform(agent.on_tick())                      # about five times a second
        perform(agent.on_disconnect("site-b"))        # the records of site-b still count
        perform(agent.observe(data, rng=rng))         # fit and publish own data
        perform(agent.refine(rng=rng))                # optional: refit against everybody else's evidence
        agent.merged()                                # the posterior, and the set of versions it was made from

An agent is not thread-safe: call it from one thread. A long fit may run in another one: `learned = agent.learn(data,
rng=rng)` there (it changes nothing that messages change), then `agent.publish(learned)` here.

Messages are small except `Batch`, which carries the bodies that its receiver has requested. The largest has
`message_bytes(charter)` bytes; a transport should refuse longer ones before loading them. A transport may drop any
message, because hashes are compared again at every tick. Everything an agent sends is durable before it is sent.

The examples of this package continue from these lines:

>>> from decbayes import network
>>> identity = network.Identity.from_seed(bytes(32))  # anybody could guess this key
>>> settings = {"dimension": 1, "variance": 1.0}
>>> charter = network.Charter("heights", "GaussianMean", settings, {"a": identity.public})
>>> posterior = charter.model.fit(np.ones((4, 1))).posterior
>>> shards = frozenset({"first"})
>>> record = network.sign_record(charter, identity, 1, posterior=posterior, shards=shards, observations=4)
"""

from typing import TYPE_CHECKING

from decbayes.base.lazily import exported

if TYPE_CHECKING:
    from decbayes.network.protocol.agent import Agent as Agent
    from decbayes.network.protocol.agent import persist_first as persist_first
    from decbayes.network.protocol.effects import Effect as Effect
    from decbayes.network.protocol.effects import Peer as Peer
    from decbayes.network.protocol.effects import Persist as Persist
    from decbayes.network.protocol.effects import Report as Report
    from decbayes.network.protocol.effects import Saved as Saved
    from decbayes.network.protocol.effects import Send as Send
    from decbayes.network.protocol.effects import Store as Store
    from decbayes.network.protocol.group.charter import Charter as Charter
    from decbayes.network.protocol.group.keys import AgentId as AgentId
    from decbayes.network.protocol.group.keys import Identity as Identity
    from decbayes.network.protocol.group.keys import agent_id as agent_id
    from decbayes.network.protocol.group.keys import short as short
    from decbayes.network.protocol.group.motions import Admit as Admit
    from decbayes.network.protocol.group.motions import Amend as Amend
    from decbayes.network.protocol.group.motions import Ballot as Ballot
    from decbayes.network.protocol.group.motions import Extend as Extend
    from decbayes.network.protocol.group.motions import Proof as Proof
    from decbayes.network.protocol.group.motions import Question as Question
    from decbayes.network.protocol.group.motions import Remove as Remove
    from decbayes.network.protocol.group.motions import Rotate as Rotate
    from decbayes.network.protocol.group.motions import Show as Show
    from decbayes.network.protocol.group.roster import Roster as Roster
    from decbayes.network.protocol.group.roster import Seat as Seat
    from decbayes.network.protocol.limits import Limits as Limits
    from decbayes.network.protocol.limits import PrivacyRules as PrivacyRules
    from decbayes.network.protocol.limits import Rules as Rules
    from decbayes.network.protocol.limits import SumRules as SumRules
    from decbayes.network.protocol.records.merges import Merged as Merged
    from decbayes.network.protocol.records.pool import Change as Change
    from decbayes.network.protocol.records.pool import Pool as Pool
    from decbayes.network.protocol.records.record import Entry as Entry
    from decbayes.network.protocol.records.record import Header as Header
    from decbayes.network.protocol.records.record import Record as Record
    from decbayes.network.protocol.records.record import SignedHeader as SignedHeader
    from decbayes.network.protocol.records.record import sign_record as sign_record
    from decbayes.network.protocol.records.verification import REASONS as REASONS
    from decbayes.network.protocol.records.verification import open_record as open_record
    from decbayes.network.protocol.records.verification import verify as verify
    from decbayes.network.protocol.site.evidence import Evidence as Evidence
    from decbayes.network.protocol.site.evidence import Learned as Learned
    from decbayes.network.protocol.talk.messages import message_bytes as message_bytes
    from decbayes.network.runtime.store.sqlite import SqliteStore as SqliteStore
    from decbayes.updates import Epoch as Epoch
else:
    # The protocol needs libraries that the rest of decbayes does without.
    __getattr__, __all__ = exported(
        __name__,
        {
            ".protocol.agent": "Agent persist_first",
            ".protocol.effects": "Effect Peer Persist Report Saved Send Store",
            ".protocol.group.charter": "Charter Epoch",
            ".protocol.group.keys": "AgentId Identity agent_id short",
            ".protocol.group.motions": "Admit Amend Ballot Extend Proof Question Remove Rotate Show",
            ".protocol.group.roster": "Roster Seat",
            ".protocol.limits": "Limits PrivacyRules Rules SumRules",
            ".protocol.records.merges": "Merged",
            ".protocol.records.pool": "Change Pool",
            ".protocol.records.record": "Entry Header Record SignedHeader sign_record",
            ".protocol.records.verification": "REASONS open_record verify",
            ".protocol.site.evidence": "Evidence Learned",
            ".protocol.talk.messages": "message_bytes",
            ".runtime.store.sqlite": "SqliteStore",
        },
        extra="net",
    )

    def __dir__() -> list[str]:
        return __all__
