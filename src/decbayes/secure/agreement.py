"""What members agree on before the first sum: members, anchor, number of rounds, disclosure rules."""

import hashlib
import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from types import MappingProxyType
from typing import Any

from decbayes.base.arguments import check_kind, is_number
from decbayes.disclosure.rules import Rules
from decbayes.errors import InvalidRules, SumRefused
from decbayes.models.core.registry import model_for
from decbayes.posterior import Posterior
from decbayes.privacy.grid import Integers
from decbayes.remarks import Remark, ordered
from decbayes.secure.anchored import Share, length_of
from decbayes.secure.terms import Terms
from decbayes.structure import canonical_json

FORMAT = "decbayes secure sums 3"
USUAL = Rules()
# The number of standard errors by which a merge must be worse than own fits for a remark.
CLEARLY = 3.0
NAME = re.compile(r"[A-Za-z0-9_]{1,40}")
LOST = Remark(
    "only sums",
    "Only the sum over all members was opened.",
    "Which member supports which slot, whether members disagree, robust weights and flags cannot be known.",
    severity="note",
)


@dataclass(frozen=True)
class Agreement:
    """What members agree on. People compare its fingerprint.

    Args:
        name: the purpose of the sums.
        members: the public key of each member, by name.
        anchor: the posterior whose slots the sums use, with spare slots if there are any.
        rounds: the most sums that are opened. Each refines the previous one.
        colluders: the number of members that may pool their knowledge without learning anything about any other.
        most_rows: the most rows that a member may count. One with more scales its contribution down.
        step: the grid of the numbers, a power of two.
        rules: the disclosure rules at each site, as for files; None for public or made-up data.
        complete: whether nobody has left yet; then the first sum opens even if one part of the opening is missing.

    >>> model = db.GaussianMixture(2, 1, variance=1.0, prior_variance=100.0)
    >>> anchor = model.fit(np.array([[-9.0], [9.0]]), rng=0).posterior
    >>> publics = {name: bytes([number]) * 32 for number, name in enumerate(("north", "south", "west"))}
    >>> agreed = db.secure.Agreement("study 12", publics, anchor)
    >>> agreed.next_terms().length
    13
    """

    name: str
    members: Mapping[str, bytes]
    anchor: Posterior
    rounds: int = 3
    colluders: int = 1
    most_rows: float = 1e6
    step: float = 2.0**-20
    rules: Rules | None = USUAL
    complete: bool = True

    def __post_init__(self) -> None:
        check_kind(Posterior, anchor=self.anchor)
        members = {str(name): bytes(key) for name, key in sorted(self.members.items())}
        object.__setattr__(self, "members", MappingProxyType(members))
        for name in members:
            if not NAME.fullmatch(name):
                raise SumRefused(f"Names of members have up to 40 letters, digits and _; {name!r} has others.")
        if type(self.rounds) is not int or not 1 <= self.rounds <= 1000:
            raise SumRefused(f"rounds must be a whole number from 1 to 1000, not {self.rounds!r}.")
        if not is_number(self.most_rows) or not 1.0 <= self.most_rows <= 1e9:
            raise SumRefused(f"most_rows must be a number from 1 to 1e9, not {self.most_rows!r}.")
        self.next_terms()

    def next_terms(self, results: "Sequence[Merged]" = (), without: Collection[str] = ()) -> Terms:
        """The terms of the sum after these results, over all members but some; its anchor is the last merge."""
        anchor, length = results[-1].posterior if results else self.anchor, length_of(self.anchor.structure)
        seats = self.seats(without)
        # At most one of two sums of a round may open, so a smaller one needs all parts of its opening.
        everybody = results[-1].members if results else len(self.members) * self.complete
        absent, number = int(len(seats) == everybody), len(results) + 1
        return Terms(self.fingerprint, number, seats, anchor.digest, length, self.step, self.colluders, absent)

    def seats(self, without: Collection[str]) -> dict[str, bytes]:
        """The public keys of all members but some."""
        unknown = sorted(set(without) - self.members.keys())
        if unknown:
            raise SumRefused(f"There is no member {unknown[0]!r}; there are {', '.join(self.members)}.")
        return {name: key for name, key in self.members.items() if name not in without}

    def added(self, share: "Share", before: Integers | None) -> Integers:
        """What a member adds in a round, in steps: everything in the first round, only changes in later ones.

        So a later sum may be over fewer members: it shows how their total has changed, not the total itself.
        """
        steps = share.bounded(self.most_rows).steps(self.step)
        return steps if before is None else steps - before

    def result(self, steps: Integers, results: "Sequence[Merged]", terms: Terms) -> "Merged":
        """The result of the next opened sum, after these results."""
        total = steps + results[-1].share.steps(self.step) if results else steps
        share = Share.of_steps(self.anchor.structure, total, self.step)
        contradiction = contradiction_in(share)
        doubts = [*([] if contradiction is None else [doubtful(contradiction)]), *doubts_about_scores(share)]
        posterior = replace(share.posterior, remarks=ordered([*doubts, LOST]))
        return Merged(posterior, share, len(terms.seats))

    @cached_property
    def fingerprint(self) -> str:
        return hashlib.sha256(canonical_json(self.plain())).hexdigest()

    def plain(self) -> dict[str, Any]:
        """Everything except the anchor's numbers, as plain values."""
        return {
            "format": FORMAT,
            "name": self.name,
            "members": {name: key.hex() for name, key in self.members.items()},
            "anchor": self.anchor.digest,
            "rounds": self.rounds,
            "colluders": self.colluders,
            "most_rows": float(self.most_rows),
            "step": float(self.step),
            "rules": None if self.rules is None else self.rules.plain(),
        }

    @classmethod
    def fields_in(cls, values: Mapping[str, Any]) -> dict[str, Any]:
        """The fields other than the anchor, from plain values of a file."""
        members = {name: bytes.fromhex(key) for name, key in values["members"].items()}
        rules = None if values["rules"] is None else Rules.of(values["rules"])
        plain = {name: values[name] for name in ("name", "rounds", "colluders", "most_rows", "step")}
        return {**plain, "members": members, "rules": rules}

    @classmethod
    def of(cls, text: bytes, anchor: Posterior) -> "Agreement":
        """The agreement in an untrusted file."""
        try:
            values = json.loads(text)
            if values["format"] != FORMAT:
                raise ValueError
            plain = cls.fields_in(values)
        except (ValueError, KeyError, TypeError, AttributeError, InvalidRules, RecursionError):
            raise SumRefused("The agreement is damaged, or of another version.") from None
        agreed = cls(**plain, anchor=anchor)
        if agreed.plain() != values:
            raise SumRefused("The anchor is not the one that was agreed on, or the agreement was changed.")
        return agreed


@dataclass(frozen=True)
class Merged:
    """An opened sum: the posterior of all members' data, and how much data is behind it.

    >>> model = db.models.GaussianMean(variance=1.0, dimension=1)
    >>> publics = {name: bytes([number]) * 32 for number, name in enumerate("abc")}
    >>> agreed = db.secure.Agreement("means", publics, db.Posterior.of_prior(model.structure))
    >>> share = db.secure.Share(model.fit(np.full((5, 1), 2.0)).posterior, rows=5, persons=5, units=5)
    >>> merged = agreed.result(share.steps(agreed.step), [], agreed.next_terms())
    >>> merged.posterior == share.posterior, merged.share.rows
    (True, 5.0)
    """

    posterior: Posterior
    share: Share
    members: int


def contradiction_in(share: Share) -> str | None:
    """How a sum contradicts the summed amounts of data; None if it does not."""
    tally = model_for(share.posterior.structure).tally(share.posterior)
    return None if tally is None else tally.contradiction(share.units, share.rows)


def doubts_about_scores(share: Share) -> list[Remark]:
    """A remark if the last merge predicts held-back rows worse than the members' own fits do."""
    scores = share.held_back
    if scores is None or scores.gain > -CLEARLY * scores.error:
        return []
    return [
        Remark(
            "worse than alone",
            "Members predict rows that they have held back better by themselves than with the merge.",
            "Members' data may differ, the anchor may have too few slots, or somebody has added wrong numbers: ask "
            "members for released files, and merge those.",
            f"With the merge of the round before, the log-likelihood per held-back unit is {scores.gain:.2g} ± "
            f"{scores.error:.2g} against members' own fits.",
        )
    ]


def doubtful(contradiction: str) -> Remark:
    return Remark(
        "sum contradicts itself",
        "At least one member has added numbers that no data can give.",
        "Nobody can tell which one from the sum: ask members for released files, and merge those.",
        f"In the sum over all members, {contradiction}.",
    )
