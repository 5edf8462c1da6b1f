"""Everything decbayes raises on purpose, as one tree (catch `DecbayesError` for all of it), and its one warning."""


class MergeWarning(UserWarning):
    """A merge that should be checked before it is used: `posterior.remarks` says why.

    Silence it with `warnings.simplefilter("ignore", decbayes.errors.MergeWarning)`.
    """


def warn(text: str, category: type[Warning] = UserWarning) -> None:
    """Issue a warning at the line outside of decbayes that called it."""
    import sys
    import warnings

    caller, level = sys._getframe(1), 2
    # Decorators of the standard library stand between some of our functions.
    while caller.f_back and caller.f_globals.get("__name__", "").split(".")[0] in ("decbayes", "contextlib"):
        caller, level = caller.f_back, level + 1
    warnings.warn(text, category, stacklevel=level)


def printable(text: str) -> str:
    """Untrusted text with control and invisible characters escaped."""
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode("ascii") for one in text)


class DecbayesError(Exception):
    """Anything that decbayes refuses to do, with the reason and the likely remedy.

    Messages may quote files and neighbours, and are safe to print whatever those contain.
    """

    def __str__(self) -> str:
        return printable(super().__str__())


class StructureMismatch(DecbayesError):
    """Posteriors, files or data that do not share one structure."""


class InvalidStructure(DecbayesError):
    """A structure that contradicts itself: coupled factors of different sizes, a prior outside its domain, …"""


class InvalidPosterior(DecbayesError):
    """A posterior with missing factors, wrong shapes or values that are not finite."""


class OutOfDomain(InvalidPosterior):
    """Natural parameters that no distribution of the family has, such as a negative variance."""


class NothingToMerge(DecbayesError):
    """A merge of no posteriors at all."""


class TooManyRelabellings(DecbayesError):
    """A sum or search over K! relabellings that would not end."""


class InvalidFile(DecbayesError):
    """A file that is not a posterior of ours, is damaged, or claims something it does not hold."""


class InvalidData(DecbayesError):
    """Observations that the model cannot have produced: NaN, a wrong dimension, negative counts, …"""


class InvalidRules(DecbayesError):
    """Disclosure rules that are malformed, contradict each other, or are looser than agreed."""


class DamagedLedger(DecbayesError):
    """A ledger of releases that was changed, or that has lost lines."""


class NotDisclosed(DecbayesError):
    """What would leave a site, or has arrived from one, breaks disclosure rules; the reason quotes no data."""


class SumRefused(DecbayesError):
    """A secure sum that is not started, joined or opened, because it would reveal more than the sum, or be wrong."""


class NotPrivate(DecbayesError):
    """Something that cannot usefully be released under differential privacy: the model, the plan, or the anchor."""


class BudgetExceeded(NotDisclosed):
    """A private release that would spend more than the budget of its data set; nothing was released."""


class NotConvertible(DecbayesError):
    """A fitted model of another library, or a posterior of ours, that has no counterpart on the other side."""


class CannotDraw(DecbayesError, NotImplementedError):
    """A model or likelihood that does not define how observations are drawn, so nothing can be simulated."""


class NotCalibrated(DecbayesError):
    """Intervals or match probabilities that cannot be calibrated this way, because of the model or the merge."""


class MissingExtra(DecbayesError, ImportError):
    """A library that only this task needs and that is not installed."""


class MissingDevice(DecbayesError):
    """A GPU that was requested but is not available."""


class InvalidKey(DecbayesError):
    """A key file or public key that is not an Ed25519 key."""


class InvalidCertificate(DecbayesError):
    """A certificate, or its key, that is malformed, expired, signed by someone else, or cannot be made."""


class InvalidCharter(DecbayesError):
    """A charter that is malformed, contradicts itself, or does not describe the structure it claims."""


class InvalidProtocol(DecbayesError):
    """The protocol of a study that is malformed or contradicts itself, or a folder that holds none."""


class StoreFailed(DecbayesError):
    """A store that cannot write or read: the disk is full, or the file belongs to someone else."""


class Refused(DecbayesError):
    """Bytes from the network that are not used; `reason` is a one-word name by which they are counted.

    `entry` has the origin, version and digest of a record that will be refused whoever sends it.
    """

    def __init__(self, reason: str, text: str) -> None:
        super().__init__(f"{reason}: {text}")
        self.reason = reason
        self.entry: tuple[bytes, int, bytes] | None = None


class TransportFailed(DecbayesError):
    """A network that cannot be opened or does not answer: a port in use, an unknown host, nobody there, …"""


__all__ = [name for name, value in globals().items() if isinstance(value, type)]
