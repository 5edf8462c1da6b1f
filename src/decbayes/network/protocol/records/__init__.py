"""Signed records that members publish, the notes in them, and how they are checked, pooled and merged."""

from decbayes.network.protocol.records.merges import Merged
from decbayes.network.protocol.records.pool import Change, Pool
from decbayes.network.protocol.records.record import Entry, Header, Record, SignedHeader, sign_record
from decbayes.network.protocol.records.verification import REASONS, open_record, verify

__all__ = [
    "REASONS",
    "Change",
    "Entry",
    "Header",
    "Merged",
    "Pool",
    "Record",
    "SignedHeader",
    "open_record",
    "sign_record",
    "verify",
]
