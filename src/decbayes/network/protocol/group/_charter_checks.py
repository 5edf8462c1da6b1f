"""What a charter must satisfy; InvalidCharter says what does not fit together."""

from typing import TYPE_CHECKING

from decbayes.errors import DecbayesError, InvalidCharter, SumRefused
from decbayes.merging.base.compatibility import why
from decbayes.models.core.registry import MODELS
from decbayes.network.protocol.limits import SumRules

if TYPE_CHECKING:
    from decbayes.network.protocol.group.charter import Charter

# Size of a sum message: bytes per number, and room for everything else.
NUMBER_BYTES, AROUND = 8, 8192


def check(charter: "Charter") -> None:
    if charter.model_name not in MODELS:
        raise InvalidCharter(f"There is no model '{charter.model_name}'; a charter names one of {', '.join(MODELS)}.")
    if not 1 <= len(charter.members) <= charter.limits.members:
        raise InvalidCharter(
            f"{len(charter.members)} members; there must be 1 to limits.members = {charter.limits.members}."
        )
    if len(set(charter.members.values())) < len(charter.members):
        raise InvalidCharter("Two members have the same key; every agent needs its own.")
    if charter.epoch is not None and charter.epoch.prior.structure != charter.model.structure:
        raise InvalidCharter("The epoch's prior is a posterior of another model.")
    if charter.epoch is not None and not charter.epoch.counted.keys() <= charter.members.keys():
        raise InvalidCharter("The epoch's prior counts shards of a non-member.")
    if charter.rules.components != "model":
        check_components(charter)
    if charter.sums is not None or charter.anchor is not None or charter.privacy is not None:
        check_sums(charter)
    if charter.disclosure is not None and charter.rules.least_observations > 1:
        raise InvalidCharter("Where there are disclosure rules, least_observations is one of them: [disclosure].")
    if any("\n" in word for word in charter.vocabulary):
        raise InvalidCharter("The vocabulary has words with line breaks; its file has one word per line.")
    for text in (charter.group, charter.id, *charter.members):
        if not text or not text.isprintable():
            raise InvalidCharter(f"{text!r} is not a name: names consist of printable characters, at least one.")


def check_components(charter: "Charter") -> None:
    """Refuse a number of slots that the model, a robust merge or a later epoch does not allow."""
    why = ""
    if not charter.model.structure.resizable:
        why = f"{charter.model_name} has no components, so their number cannot change"
    elif charter.rules.robust:
        why = "a robust merge has as many slots as the model has components"
    elif charter.epoch is not None:
        why = "after the first epoch the prior already distinguishes the model's components"
    if why:
        raise InvalidCharter(f'rules.components must be "model" here: {why}.')


def check_sums(charter: "Charter") -> None:
    """Refuse rules that need single contributions in a group that opens only sums."""
    rules, anchor = charter.rules, charter.anchor
    lost = {
        "robust = true": rules.robust,
        "share": rules.share < 1.0,
        "validation beside privacy": rules.validation > 0.0 and charter.privacy is not None,
        "intervals = true": rules.intervals,
        "components": rules.components != "model",
        "approval = true": charter.disclosure is not None and charter.disclosure.approval,
    }
    for name, asked in lost.items():
        if asked:
            raise InvalidCharter(
                f"Where only sums are opened, single contributions are invisible: the rule {name} cannot be applied. "
                "Leave it out, or publish contributions."
            )
    if charter.sums is None:
        raise InvalidCharter("An anchor or a promise of privacy needs a group that opens only sums.")
    if charter.epoch is not None:
        raise InvalidCharter("Where only sums are opened there are no epochs: each round refines the one before it.")
    if charter.privacy is not None:
        check_privacy(charter, charter.sums)
    elif anchor is None and charter.model.structure.symmetry:
        raise InvalidCharter(
            f"{charter.model_name} has components, and members must agree beforehand which is which: name an anchor, a "
            "posterior of public data or one that a member has released."
        )
    if anchor is not None and anchor.structure != charter.model.structure:
        reason = why(charter.model.structure, anchor.structure, strictly=True)
        raise InvalidCharter(f"The anchor does not fit the charter's model: {reason}")


def check_privacy(charter: "Charter", sums: SumRules) -> None:
    """Refuse models without private releases, and a number of rounds that does not match the budget's division."""
    try:
        rounds = charter.model.mechanism().rounds
    except DecbayesError as error:
        raise InvalidCharter(str(error)) from None
    if charter.anchor is not None:
        raise InvalidCharter("Private releases begin at the prior, which depends on no data: leave out the anchor.")
    if sums.rounds != rounds:
        raise InvalidCharter(
            f"{charter.model_name} divides its budget among {rounds} rounds; the sums have {sums.rounds}."
        )


def check_adding_up(charter: "Charter") -> None:
    """Refuse a group with too few members for its sums, or whose sum messages exceed its limits."""
    if charter.sums is None:
        return
    try:
        length = charter.agreement(charter.members).next_terms().length
    except SumRefused as error:
        raise InvalidCharter(str(error)) from None
    if NUMBER_BYTES * length + AROUND > charter.limits.record_bytes:
        raise InvalidCharter(f"Each member adds {length:,} numbers, for which limits.record_bytes is too small.")
