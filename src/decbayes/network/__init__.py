"""Agents that join, leave, crash and still agree, without a centre.

The protocol core does no input or output. A transport feeds an `Agent` with calls and bytes, and carries out the
effects that come back. This is all of it:

    charter, identity = Charter.load("group.toml"), Identity.load("site-a.key")
    with SqliteStore("site-a.store", charter) as store:
        agent = Agent(charter, identity, rng=rng, saved=store.load())

        def perform(effects):                         # persists first, in order, then returns what is left to do
            for effect in settle(agent, effects, store):
                match effect:
                    case Send(peer, message): link.send(peer, message)       # may lose, delay, double, reorder
                    case Report(event, fields): log(event, **fields)

        perform(agent.on_connect("site-b"))           # a link is up; "site-b" is the transport's name for it
        perform(agent.on_bytes("site-b", message))    # a message came in, whatever it holds
        perform(agent.on_tick())                      # now and then, say five times a second
        perform(agent.on_disconnect("site-b"))        # what site-b has said still counts
        perform(agent.observe(data, rng=rng))         # fit and publish own data
        perform(agent.refine(rng=rng))                # optional: refit against everybody else's evidence
        agent.merged()                                # the posterior, and the set of versions it was made from

An agent is not thread-safe: one thread calls it. A long fit may run elsewhere: `learned = agent.learn(data, rng=rng)`
there (it reads the agent's own evidence and changes nothing that messages change), `agent.publish(learned)` here.

Messages are small but for `Batch`, which carries the bodies that its receiver has asked for. The largest is
`message_bytes(charter)`; a transport should refuse longer ones before they are in memory. A transport may drop any
message: hashes are compared again at every tick. Nothing that an agent sends was not durable before.
"""

from decbayes.network.agent import Agent
from decbayes.network.charter import Charter
from decbayes.network.effects import Effect, Peer, Persist, Report, Saved, Send, Store, settle
from decbayes.network.epoch import Epoch
from decbayes.network.evidence import Evidence, Learned
from decbayes.network.keys import AgentId, Identity, agent_id, short
from decbayes.network.limits import Limits
from decbayes.network.messages import message_bytes
from decbayes.network.pool import Change, Entry, Merged, Pool, Proof
from decbayes.network.record import Header, Record, SignedHeader, sign_record
from decbayes.network.store import SqliteStore
from decbayes.network.validation import REASONS, open_record, verify

__all__ = [
    "REASONS",
    "Agent",
    "AgentId",
    "Change",
    "Charter",
    "Effect",
    "Entry",
    "Epoch",
    "Evidence",
    "Header",
    "Identity",
    "Learned",
    "Limits",
    "Merged",
    "Peer",
    "Persist",
    "Pool",
    "Proof",
    "Record",
    "Report",
    "Saved",
    "Send",
    "SignedHeader",
    "SqliteStore",
    "Store",
    "agent_id",
    "message_bytes",
    "open_record",
    "settle",
    "short",
    "sign_record",
    "verify",
]
