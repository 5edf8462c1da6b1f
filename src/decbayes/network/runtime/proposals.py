"""Questions from an owner's proposals: names, hexadecimal keys, rules by name."""

from collections.abc import Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import msgspec

from decbayes.disclosure import Rules as DisclosureRules
from decbayes.errors import InvalidCharter, InvalidRules
from decbayes.network.protocol.group.charter import NO_WORDS, Charter, member_key
from decbayes.network.protocol.group.motions import Admit, Amend, Extend, Question, Remove, Rotate
from decbayes.network.protocol.group.roster import rules_text
from decbayes.network.protocol.limits import Limits, Rules

if TYPE_CHECKING:
    from decbayes.network.runtime.store.orders import Propose


def question_of(proposal: "Propose", charter: Charter) -> Question:
    """The question that a proposal asks, under the charter in force."""
    match proposal.kind:
        case "add":
            if proposal.name in charter.members:
                raise InvalidCharter(f"There is a member named '{proposal.name}' already.")
            return Admit(proposal.name, member_key(proposal.name, proposal.key))
        case "remove":
            return Remove(member_name(proposal.name, charter))
        case "rotate":
            return Rotate(member_name(proposal.name, charter), member_key(proposal.name, proposal.key))
        case "rules":
            rules, disclosure = amended(proposal.rules, charter)
            limits = limits_from(msgspec.to_builtins(charter.limits) | proposal.limits)
            return Amend(rules, limits, rules_text(disclosure))
        case "words":
            new = {*proposal.words}.difference(charter.words)
            if charter.sums is not None:
                raise InvalidCharter(NO_WORDS)
            if not new:
                raise InvalidCharter("All of these words count already.")
            return Extend(tuple(sorted(new)))
    raise InvalidCharter(f"'{proposal.kind}' cannot be proposed.")


def member_name(name: str, charter: Charter) -> str:
    if name not in charter.members:
        raise InvalidCharter(f"There is no member '{name}'; the members are {', '.join(charter.members)}.")
    return name


def amended(given: Mapping[str, Any], charter: Charter) -> tuple[Rules, DisclosureRules | None]:
    if charter.disclosure is None:
        return rules_from(msgspec.to_builtins(charter.rules) | given), None
    names = {field.name for field in fields(DisclosureRules)}
    changed = {name: value for name, value in given.items() if name in names}
    rules = rules_from(msgspec.to_builtins(charter.rules) | {n: value for n, value in given.items() if n not in names})
    try:
        return rules, DisclosureRules.of(charter.disclosure.plain() | changed)
    except InvalidRules as error:
        raise InvalidCharter(f"rules: {error}") from None


def limits_from(given: Mapping[str, Any]) -> Limits:
    try:
        return msgspec.convert(given, Limits)
    except msgspec.ValidationError as error:
        raise InvalidCharter(f"limits: {error}. There are {', '.join(Limits.__struct_fields__)}.") from None


def rules_from(given: Mapping[str, Any]) -> Rules:
    try:
        return msgspec.convert(given, Rules)
    except msgspec.ValidationError as error:
        raise InvalidCharter(f"rules: {error}. There are {', '.join(Rules.__struct_fields__)}.") from None
