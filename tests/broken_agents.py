"""Agents with one rule of the protocol broken, each of which the simulator's checkers must expose."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, Protocol

from decbayes.errors import Refused
from decbayes.merging import product
from decbayes.network.protocol import agent as agent_module
from decbayes.network.protocol.agent import Agent
from decbayes.network.protocol.effects import Persist
from decbayes.network.protocol.limits import Allowance
from decbayes.network.protocol.records import verification
from decbayes.network.protocol.records.pool import Pool
from decbayes.network.protocol.records.verification import open_record
from decbayes.network.protocol.site import member as member_module
from decbayes.network.protocol.site.evidence import Learned, correct, learn, relearn
from decbayes.network.protocol.site.publisher import Publisher
from decbayes.network.protocol.talk import gossip as gossip_module
from decbayes.network.protocol.talk import messages
from decbayes.network.protocol.talk.gossip import Gossip
from decbayes.network.simulation.schedule import simulated_identities

# Histories with a traitor, and all of them.
TREASON = range(4, 600, 5)
ALL = range(120)
# The unbroken originals.
ON_PULL, ON_DISCONNECT, FAILED = Agent.on_pull, Agent.on_disconnect, Agent.on_persist_failed
PUBLISH, INIT, ADOPT, REMIND = Publisher.publish, Publisher.__init__, Publisher.adopt, Publisher.remind
WANTS, LISTING, OPEN, GIVE_UP = Gossip._wants, messages.listing, open_record, Gossip.give_up


class Patch(Protocol):
    """What replaces a name for a while, as pytest's MonkeyPatch does."""

    def setattr(self, target: Any, name: str, value: Any) -> None: ...


MUTANTS: dict[str, tuple[Callable[[Patch], None], range]] = {}


def mutant(breaks: Callable[[Patch], None], seeds: range = ALL) -> None:
    MUTANTS[breaks.__name__.replace("_", " ")] = breaks, seeds


treason = partial(mutant, seeds=TREASON)
# Few histories show some mutants; these are tried from the first ones that do.
rare = partial(partial, mutant)


@mutant
def nobody_relays(patch):
    patch.setattr(
        Agent,
        "on_pull",
        lambda self, peer, message: ON_PULL(self, peer, messages.Pull(tuple({self.id} & set(message.origins)))),
    )


@mutant
def a_shard_counts_twice(patch):
    def learn_again(self, data, *, shard=None, persons=None, rng):
        self._data.shards[shard] = data
        return learn(self.charter, self.evidence, {shard: data}, rng)

    patch.setattr(Agent, "learn", learn_again)


@mutant
def a_version_is_sent_before_it_is_durable(patch):
    def publish(self):
        effects = PUBLISH(self)
        if effects and isinstance(effects[0], Persist):
            self.persisted(effects[0].item)
        return effects

    patch.setattr(Publisher, "publish", publish)


@mutant
def a_lost_disk_starts_over(patch):
    def begin(self, *args, **keywords):
        INIT(self, *args, **keywords)
        self.synced, self._step = True, 1

    patch.setattr(Publisher, "__init__", begin)


@mutant
def a_forgotten_version_is_followed_by_the_next_number(patch):
    patch.setattr(Publisher, "_leap", lambda self: 1)


@mutant
def hashes_are_never_compared(patch):
    patch.setattr(Gossip, "tick", lambda self: self.tell_news())


@mutant
def what_was_asked_for_is_never_asked_for_again(patch):
    patch.setattr(gossip_module, "PATIENCE", 10**9)


@rare(seeds=range(209, 600, 5))
def contradictions_are_not_pulled(patch):
    def wants(self, entry):
        return WANTS(self, entry) and entry[1] > self._pool.version(entry[0])

    patch.setattr(Gossip, "_wants", wants)


@treason
def proofs_do_not_spread(patch):
    def listing(entries, excluded, decisions=(), *, complete):
        return LISTING(entries, (), decisions, complete=complete)

    patch.setattr(messages, "listing", listing)


@mutant
def leaving_takes_the_evidence_away(patch):
    def on_disconnect(self, peer):
        self.pool.records.pop(simulated_identities(8)[int(peer)].id, None)
        self.pool._root = None
        return ON_DISCONNECT(self, peer)

    patch.setattr(Agent, "on_disconnect", on_disconnect)


@mutant
def retractions_are_not_believed(patch):
    def open_but_retractions(content, charter, roster):
        sealed = OPEN(content, charter, roster)
        if not sealed.signed.header.shards:
            raise Refused("evidence", "a retraction")
        return sealed

    patch.setattr(agent_module, "open_record", open_but_retractions)


@mutant
def a_restart_forgets_everything(patch):
    patch.setattr(Pool, "restore", lambda self, saved, check=None: None)


@mutant
def refining_adds_instead_of_replacing(patch):
    def doubled(charter, own, *rest):
        refined = relearn(charter, own, *rest)
        posterior = product([own.posterior, refined.evidence.posterior])
        return Learned(replace(own, posterior=posterior), own.shards)

    patch.setattr(member_module, "relearn", doubled)


@mutant
def unsaved_records_are_not_saved_later(patch):
    def failed(self, item, why):
        effects = FAILED(self, item, why)
        self._unsaved.clear()
        return effects

    patch.setattr(Agent, "on_persist_failed", failed)


@mutant
def records_under_new_keys_are_refused(patch):
    def founders_only(content, charter, roster):
        return OPEN(content, charter, replace(roster, seats={n: founder(seat) for n, seat in roster.seats.items()}))

    def founder(seat):
        return replace(seat, keys=seat.keys[:1])

    patch.setattr(agent_module, "open_record", founders_only)


@mutant
def what_is_withdrawn_stays(patch):
    patch.setattr(member_module, "correct", lambda charter, own, *rest: Learned(own, own.shards))


@mutant
def what_is_withdrawn_leaves_its_numbers(patch):
    def correct_names(charter, own, *rest):
        corrected = correct(charter, own, *rest)
        return Learned(replace(corrected.evidence, posterior=own.posterior), own.shards)

    patch.setattr(member_module, "correct", correct_names)
    patch.setattr(verification, "check_consistency", lambda header, posterior, charter: None)


@mutant
def who_was_too_fast_is_never_heard_again(patch):
    patch.setattr(Allowance, "refill", lambda self: None)


@rare(seeds=range(253, 900))
def a_store_is_believed_to_be_up_to_date(patch):
    def adopt(self, record):
        ADOPT(self, record)
        self.synced, self._step = True, 1

    patch.setattr(Publisher, "adopt", adopt)


@mutant
def an_old_copy_of_the_disk_is_taken_for_a_twin(patch):
    def remind(self, record):
        self.twin = True
        return REMIND(self, record)

    patch.setattr(Publisher, "remind", remind)


@mutant
def everything_is_hopeless_after_one_refusal(patch):
    patch.setattr(Gossip, "_wants", lambda self, entry: WANTS(self, entry) and entry[0] not in self._hopeless)
    patch.setattr(Agent, "_refuse", refuse_for_ever)


def refuse_for_ever(self, peer, error):
    for origin, record in self.pool.records.items():
        GIVE_UP(self._gossip, (origin, record.version, record.digest))
    self.refused[error.reason] += 1
    return agent_module.Report("refused", {"peer": peer, "reason": error.reason, "text": str(error)})
