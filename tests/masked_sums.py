"""Members of a secure sum whose secrets are known, and a sum as they would make it."""

import hashlib
from dataclasses import dataclass, field

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from decbayes.secure import Seat, Secrets, Terms, opened

NAMES = ("east", "north", "south", "west")


def drawn(*words):
    """32 bytes that follow from words."""
    return hashlib.sha256(repr(words).encode()).digest()


def signing(name):
    return Ed25519PrivateKey.from_private_bytes(drawn("signing", name))


def public(name):
    return signing(name).public_key().public_bytes_raw()


def terms_of(names=NAMES, **changed):
    usual = {"group": "test", "round": 1, "anchor": "0" * 64, "length": 6}
    return Terms(**{**usual, **changed}, seats={name: public(name) for name in names})


@dataclass
class Sum:
    """A sum with members of known secrets, step by step."""

    terms: Terms
    numbers: dict
    secret: object = 0
    seats: dict = field(default_factory=dict)

    def begin(self):
        for name in self.numbers:
            secrets = Secrets(drawn("private", name, self.secret))
            self.seats[name] = Seat.begun(self.terms, name, signing(name).sign, secrets)
        return self

    def sent(self, kind):
        return [seat.sent[kind] for seat in self.seats.values() if kind in seat.sent]

    def mask(self, *names):
        keys = self.sent("key")
        for name in names or self.numbers:
            self.seats[name] = self.seats[name].masking(np.array(self.numbers[name]), keys, signing(name).sign)
        return self

    def open(self, *names):
        packets = self.sent("masked")
        for name in names or self.numbers:
            self.seats[name] = self.seats[name].opening(packets, signing(name).sign)
        return self

    def result(self):
        return opened(self.terms, self.sent("masked"), self.sent("opening"))


def whole(numbers, secret=0, **changed):
    """The sum of numbers by member, begun, masked and opened by all."""
    length = len(next(iter(numbers.values())))
    return Sum(terms_of(tuple(numbers), length=length, **changed), numbers, secret).begin().mask().open()
