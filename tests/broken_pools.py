"""Pools and checks of records with one rule broken, each of which the simulator's checkers must expose."""

from dataclasses import replace

import numpy as np
from broken_agents import mutant, rare, treason

from decbayes.errors import Refused
from decbayes.network.protocol.agent import Agent
from decbayes.network.protocol.records import pool, verification
from decbayes.network.protocol.records.pool import Change, Pool
from decbayes.network.simulation.simulated_sites import Disk
from decbayes.posterior import Posterior

# The unbroken originals.
MERGE, ADD, PUT = pool.merge_records, Pool.add, Disk.put
JOIN, VERIFY_SIGNATURE = Pool._join, verification.verify_signature


@mutant
def last_arrival_wins(patch):
    def add(self, record):
        if record.origin in self.proofs:
            return Change.EXCLUDED
        self.records[record.origin], self._root = record, None
        return Change.NEWER

    patch.setattr(Pool, "add", add)


@rare(seeds=range(309, 900, 5))
def equivocation_goes_unnoticed(patch):
    def add(self, record):
        return Change.STALE if (change := self._join(record)) is Change.EQUIVOCATION else change

    patch.setattr(Pool, "add", add)


@treason
def the_excluded_are_let_in_again(patch):
    def add(self, record):
        proofs, self.decisions.proofs = self.decisions.proofs, {}
        try:
            return ADD(self, record)
        finally:
            self.decisions.proofs = proofs | self.decisions.proofs

    patch.setattr(Pool, "add", add)
    patch.setattr(Agent, "_check_new", lambda self, sealed: None)


@mutant
def signatures_are_not_checked(patch):
    patch.setattr(verification, "verify_signature", lambda signed, public: None)


@mutant
def retractions_are_dropped_once_heard(patch):
    def add(self, record):
        change = ADD(self, record)
        if change is Change.NEWER and record.empty:
            self.records.pop(record.origin)
        return change

    patch.setattr(Pool, "add", add)


@mutant
def merging_follows_the_order_of_arrival(patch):
    def merge_in_order(charter, records, set_hash):
        merged = MERGE(charter, records, set_hash)
        total = sum((record.posterior.contribution["mean"] for record in records), np.zeros((1, 2)))
        return replace(merged, posterior=Posterior(charter.structure, {"mean": total}))

    patch.setattr(pool, "merge_records", merge_in_order)
    patch.setattr(Pool, "counted", lambda self: (r for r in self.records.values() if not r.empty))


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
def a_higher_version_wipes_a_proof_out(patch):
    def add(self, record):
        proof = self.proofs.get(record.origin)
        if proof is not None and record.version > getattr(proof.first, "version", record.version):
            del self.proofs[record.origin]
        return ADD(self, record)

    patch.setattr(Pool, "add", add)
    patch.setattr(Pool, "knows", lambda self, origin, version, digest: version < self.version(origin))
    patch.setattr(Agent, "_check_new", lambda self, sealed: None)


@treason
def contributions_may_hold_more_than_they_state(patch):
    patch.setattr(verification, "check_consistency", lambda header, posterior, charter: None)


@mutant
def a_forged_signature_makes_a_version_hopeless(patch):
    def verify_signature(signed, public):
        try:
            VERIFY_SIGNATURE(signed, public)
        except Refused as error:
            error.entry = signed.entry
            raise

    patch.setattr(verification, "verify_signature", verify_signature)


@mutant
def of_several_writes_the_first_is_made(patch):
    patch.setattr(Disk, "put", lambda self, items: PUT(self, items[:1]))
