"""A checker is worth what it catches: protocols with one rule broken, each of which the simulator must expose."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial

import msgspec
import numpy as np
import pytest

from decbayes.errors import Refused
from decbayes.merging import product
from decbayes.network.protocol import agent as agent_module
from decbayes.network.protocol import gossip as gossip_module
from decbayes.network.protocol import messages, pool, validation
from decbayes.network.protocol.agent import Agent
from decbayes.network.protocol.budget import Allowance
from decbayes.network.protocol.effects import Persist
from decbayes.network.protocol.evidence import Learned, correct, learn, relearn
from decbayes.network.protocol.gossip import Gossip
from decbayes.network.protocol.pool import Change, Pool
from decbayes.network.protocol.publisher import Publisher
from decbayes.network.protocol.roster import Roster, roster
from decbayes.network.protocol.validation import open_record
from decbayes.network.simulation.ledger import Violation
from decbayes.network.simulation.schedule import run_history, simulated_identities
from decbayes.network.simulation.simulator import Disk
from decbayes.posterior import Posterior

# Histories with a traitor, and all of them.
TREASON = range(4, 600, 5)
ALL = range(120)
# The unbroken originals.
ON_PULL, ON_DISCONNECT, FAILED = Agent.on_pull, Agent.on_disconnect, Agent.on_persist_failed
PUBLISH, INIT, ADOPT, REMIND = Publisher.publish, Publisher.__init__, Publisher.adopt, Publisher.remind
WANTS, LISTING, ADD, OPEN = Gossip._wants, messages.listing, Pool.add, open_record
MERGE = pool.merge_records
JOIN, CHANGED, HEADER = Pool._join, Pool._changed, validation.open_header
GIVE_UP, PUT, VERIFY_SIGNATURE, COUNTS = Gossip.give_up, Disk.put, validation.verify_signature, Roster.counts

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
    def add(self, record):
        return Change.STALE if (change := self._join(record)) is Change.EQUIVOCATION else change

    patch.setattr(Pool, "add", add)


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

    patch.setattr(Pool, "add", add)
    patch.setattr(Agent, "_check_new", lambda self, sealed: None)


@mutant
def leaving_takes_the_evidence_away(patch):
    def on_disconnect(self, peer):
        self.pool.records.pop(simulated_identities(8)[int(peer)].id, None)
        self.pool._root = None
        return ON_DISCONNECT(self, peer)

    patch.setattr(Agent, "on_disconnect", on_disconnect)


@mutant
def signatures_are_not_checked(patch):
    patch.setattr(validation, "verify_signature", lambda signed, public: None)


@mutant
def retractions_are_dropped_once_heard(patch):
    def add(self, record):
        change = ADD(self, record)
        if change is Change.NEWER and record.empty:
            self.records.pop(record.origin)
        return change

    patch.setattr(Pool, "add", add)


@mutant
def retractions_are_not_believed(patch):
    def open_but_retractions(content, charter, roster):
        sealed = OPEN(content, charter, roster)
        if not sealed.signed.header.shards:
            raise Refused("evidence", "a retraction")
        return sealed

    patch.setattr(agent_module, "open_record", open_but_retractions)


@mutant
def merging_follows_the_order_of_arrival(patch):
    def merge_in_order(charter, records, set_hash):
        merged = MERGE(charter, records, set_hash)
        total = sum((record.posterior.contribution["mean"] for record in records), np.zeros((1, 2)))
        return replace(merged, posterior=Posterior(charter.structure, {"mean": total}))

    patch.setattr(pool, "merge_records", merge_in_order)
    patch.setattr(Pool, "counted", lambda self: (r for r in self.records.values() if not r.empty))


@mutant
def a_restart_forgets_everything(patch):
    patch.setattr(Agent, "_restore", lambda self, saved: None)


@mutant
def refining_adds_instead_of_replacing(patch):
    def doubled(charter, own, shards, others, rng):
        refined = relearn(charter, own, shards, others, rng)
        posterior = product([own.posterior, refined.evidence.posterior])
        return Learned(replace(own, posterior=posterior), own.shards)

    patch.setattr(agent_module, "relearn", doubled)


@mutant
def unsaved_records_are_not_saved_later(patch):
    def failed(self, item, why):
        effects = FAILED(self, item, why)
        self._unsaved.clear()
        return effects

    patch.setattr(Agent, "on_persist_failed", failed)


@mutant
def versions_are_compared_as_texts(patch):
    def join(self, record):
        held = self.records.get(record.origin)
        if held is not None and str(record.version) > str(held.version):
            self.records[record.origin], self._root = record, None
            return Change.NEWER
        return JOIN(self, record)

    patch.setattr(Pool, "_join", join)
    patch.setattr(Pool, "knows", lambda self, origin, version, digest: False)


@treason
def of_two_contradictions_the_later_one_stays(patch):
    def join(self, record):
        held = self.records.get(record.origin)
        if held is not None and held.version == record.version:
            self.records[record.origin], self._root = record, None
            return Change.NEWER
        return JOIN(self, record)

    patch.setattr(Pool, "_join", join)


@treason
def a_higher_version_wipes_a_proof_out(patch):
    def add(self, record):
        proof = self.proofs.get(record.origin)
        if proof is not None and record.version > proof.first.version:
            del self.proofs[record.origin]
        return ADD(self, record)

    patch.setattr(Pool, "add", add)
    patch.setattr(Pool, "knows", lambda self, origin, version, digest: version < self.version(origin))
    patch.setattr(Agent, "_check_new", lambda self, sealed: None)


@treason
def contributions_may_hold_more_than_they_state(patch):
    patch.setattr(validation, "check_consistency", lambda header, posterior, charter: None)


@mutant
def the_removed_count(patch):
    def counts(self, origin, heard):
        return COUNTS(replace(self, removed=frozenset()), origin, heard)

    patch.setattr(Roster, "counts", counts)


@mutant
def one_vote_removes(patch):
    def decided_by_one(charter, headers):
        votes = [vote for header in headers for vote in header.votes]
        return Roster(charter, frozenset(subject for subject, key in votes if not key), roster(charter, ()).replaced)

    patch.setattr(pool, "roster", decided_by_one)


@mutant
def votes_are_never_taken_back(patch):
    def changed(self, before, after):
        removed = self._roster.removed
        CHANGED(self, before, after)
        self._roster = replace(self._roster, removed=self._roster.removed | removed)

    patch.setattr(Pool, "_changed", changed)


@mutant
def votes_are_counted_once_and_not_again(patch):
    patch.setattr(Pool, "_changed", lambda self, before, after: setattr(self, "_root", None))


@mutant
def a_new_key_counts_beside_the_old_one(patch):
    patch.setattr(Roster, "counts", lambda self, origin, heard: COUNTS(self, origin, ()))


@mutant
def records_under_new_keys_are_refused(patch):
    patch.setattr(agent_module, "open_record", lambda content, charter, roster: OPEN(content, charter))


@mutant
def keys_that_are_nobodys_are_listed(patch):
    def entries(self):
        return [(origin, record.version, record.digest) for origin, record in sorted(self.records.items())]

    patch.setattr(Pool, "entries", entries)


@mutant
def what_is_withdrawn_stays(patch):
    patch.setattr(agent_module, "correct", lambda charter, own, shards, kept, rng: Learned(own, own.shards))


@mutant
def what_is_withdrawn_leaves_its_numbers(patch):
    def correct_names(charter, own, shards, kept, rng):
        corrected = correct(charter, own, shards, kept, rng)
        return Learned(replace(corrected.evidence, posterior=own.posterior), own.shards)

    patch.setattr(agent_module, "correct", correct_names)
    patch.setattr(validation, "check_consistency", lambda header, posterior, charter: None)


@mutant
def who_was_too_fast_is_never_heard_again(patch):
    patch.setattr(Allowance, "refill", lambda self: None)


@mutant
def a_forged_signature_makes_a_version_hopeless(patch):
    def verify_signature(signed, public):
        try:
            VERIFY_SIGNATURE(signed, public)
        except Refused as error:
            error.entry = signed.entry
            raise

    patch.setattr(validation, "verify_signature", verify_signature)


@mutant
def of_several_writes_the_first_is_made(patch):
    patch.setattr(Disk, "put", lambda self, items: PUT(self, items[:1]))


@mutant
def a_store_is_believed_to_be_up_to_date(patch):
    def adopt(self, record):
        ADOPT(self, record)
        self.heard, self._step = True, 1

    patch.setattr(Publisher, "adopt", adopt)


@mutant
def an_old_copy_of_the_disk_is_taken_for_a_twin(patch):
    def remind(self, record):
        self.twin = True
        return REMIND(self, record)

    patch.setattr(Publisher, "remind", remind)


@mutant
def a_key_that_is_not_yet_a_members_is_hopeless(patch):
    def open_header(content, signature, roster):
        try:
            return HEADER(content, signature, roster)
        except Refused as error:
            with suppress(msgspec.MsgspecError, ValueError):
                error.entry = validation.SignedHeader(validation._headers.decode(content), signature).entry
            raise

    patch.setattr(validation, "open_header", open_header)


@mutant
def everything_is_hopeless_after_one_refusal(patch):
    patch.setattr(Gossip, "_wants", lambda self, entry: WANTS(self, entry) and entry[0] not in self._hopeless)
    patch.setattr(Agent, "_refuse", refuse_for_ever)


def refuse_for_ever(self, peer, error):
    for origin, record in self.pool.records.items():
        GIVE_UP(self._gossip, (origin, record.version, record.digest))
    self.refused[error.reason] += 1
    return agent_module.Report("refused", {"peer": peer, "reason": error.reason, "text": str(error)})


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


def test_there_are_at_least_thirty_mutants_and_the_real_protocol_passes():
    assert len(MUTANTS) >= 30
    assert caught_by(range(10)) is None
