"""A checker is worth what it catches: protocols with one rule broken, each of which the simulator must expose."""

from collections.abc import Callable
from functools import partial

import pytest

from decbayes.errors import Refused
from decbayes.merging import product
from decbayes.network.protocol import agent as agent_module
from decbayes.network.protocol import gossip as gossip_module
from decbayes.network.protocol import messages, pool, validation
from decbayes.network.protocol.agent import Agent
from decbayes.network.protocol.effects import Persist
from decbayes.network.protocol.evidence import Evidence, Learned, learn, relearn
from decbayes.network.protocol.gossip import Gossip
from decbayes.network.protocol.pool import Change, Pool
from decbayes.network.protocol.publisher import Publisher
from decbayes.network.protocol.validation import open_record
from decbayes.network.simulation.ledger import Violation
from decbayes.network.simulation.schedule import run_history, simulated_identities

# Histories with a traitor, and all of them.
TREASON = range(4, 600, 5)
ALL = range(120)
# The unbroken originals.
ON_PULL, ON_DISCONNECT, FAILED = Agent.on_pull, Agent.on_disconnect, Agent.on_persist_failed
PUBLISH, INIT = Publisher.publish, Publisher.__init__
WANTS, LISTING, ADD, OPEN = Gossip._wants, messages.listing, Pool.add, open_record

Patch = pytest.MonkeyPatch
MUTANTS: dict[str, tuple[Callable[[Patch], None], range]] = {}


def mutant(breaks: Callable[[Patch], None], seeds: range = ALL) -> None:
    MUTANTS[breaks.__name__.replace("_", " ")] = breaks, seeds


treason = partial(mutant, seeds=TREASON)


@mutant
def last_arrival_wins(patch):
    def add(self, record):
        if record.origin in self.proofs:
            return Change.EXCLUDED
        if self.see(record.signed):
            return Change.EQUIVOCATION
        self.records[record.origin], self._root = record, None
        return Change.NEWER

    patch.setattr(Pool, "add", add)


@mutant
def nobody_relays(patch):
    patch.setattr(
        Agent,
        "on_pull",
        lambda self, peer, message: ON_PULL(self, peer, messages.Pull(tuple({self.id} & set(message.origins)))),
    )


@mutant
def a_shard_counts_twice(patch):
    def learn_again(self, data, *, shard=None, rng):
        self._shards[shard] = data
        return learn(self.charter, self.own, shard, data, rng)

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
        self.heard, self._step = True, 1

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


@treason
def equivocation_goes_unnoticed(patch):
    def see(self, signed):
        self.history.setdefault(signed.origin, {}).setdefault(signed.version, signed)
        return False

    patch.setattr(Pool, "see", see)


@treason
def contradictions_are_not_pulled(patch):
    def wants(self, entry):
        return WANTS(self, entry) and entry[1] > self._pool.version(entry[0])

    patch.setattr(Gossip, "_wants", wants)


@treason
def proofs_do_not_spread(patch):
    patch.setattr(messages, "listing", lambda entries, excluded, *, complete: LISTING(entries, (), complete=complete))


@treason
def the_excluded_are_let_in_again(patch):
    def add(self, record):
        proofs, self.proofs = self.proofs, {}
        try:
            return ADD(self, record)
        finally:
            self.proofs = proofs | self.proofs

    def check_new(self, sealed):
        return None

    patch.setattr(Pool, "add", add)
    patch.setattr(Agent, "_check_new", check_new)


@mutant
def leaving_takes_the_evidence_away(patch):
    def on_disconnect(self, peer):
        self.pool.records.pop(simulated_identities(8)[int(peer)].id, None)
        self.pool._root = None
        return ON_DISCONNECT(self, peer)

    patch.setattr(Agent, "on_disconnect", on_disconnect)


@mutant
def signatures_are_not_checked(patch):
    patch.setattr(validation, "verify_signature", lambda signed, charter: None)


@mutant
def retractions_are_dropped_once_heard(patch):
    def add(self, record):
        change = ADD(self, record)
        if change is Change.NEWER and record.retraction:
            self.records.pop(record.origin)
        return change

    patch.setattr(Pool, "add", add)


@mutant
def retractions_are_not_believed(patch):
    def open_but_retractions(content, charter):
        sealed = OPEN(content, charter)
        if not sealed.signed.header.shards:
            raise Refused("evidence", "a retraction")
        return sealed

    patch.setattr(agent_module, "open_record", open_but_retractions)


@mutant
def merging_follows_the_order_of_arrival(patch):
    def merge_in_order(posteriors):
        total = sum(posterior.contribution["mean"] for posterior in posteriors)
        return type(posteriors[0])(posteriors[0].structure, {"mean": total})

    patch.setattr(pool, "merge", merge_in_order)
    patch.setattr(Pool, "counted", lambda self: (r for r in self.records.values() if not r.retraction))


@mutant
def a_restart_forgets_everything(patch):
    patch.setattr(Agent, "_restore", lambda self, saved: None)


@mutant
def refining_adds_instead_of_replacing(patch):
    def doubled(charter, own, shards, others, rng):
        refined = relearn(charter, own, shards, others, rng)
        posterior = product([own.posterior, refined.evidence.posterior])
        return Learned(Evidence(posterior, own.shards, own.observations), own.shards)

    patch.setattr(agent_module, "relearn", doubled)


@mutant
def unsaved_records_are_not_saved_later(patch):
    def failed(self, item, why):
        effects = FAILED(self, item, why)
        self._unsaved.clear()
        return effects

    patch.setattr(Agent, "on_persist_failed", failed)


def caught_by(seeds: range) -> str | None:
    """What the checkers say, or None if they let all histories pass."""
    for seed in seeds:
        try:
            run_history(seed)
        except Violation as violation:
            return str(violation)
    return None


@pytest.mark.parametrize("name", MUTANTS)
def test_the_checkers_catch(name, monkeypatch):
    breaks, seeds = MUTANTS[name]
    breaks(monkeypatch)
    violation = caught_by(seeds)
    print(f"{name}: {violation}")
    assert violation is not None


def test_there_are_at_least_ten_mutants_and_the_real_protocol_passes():
    assert len(MUTANTS) >= 10
    assert caught_by(range(10)) is None
