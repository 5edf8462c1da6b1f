"""Notes on a merged posterior that members publish with their contributions, and the sum of all notes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from decbayes.disclosure import Rules
from decbayes.disclosure.latent_sums import NOBODY, coarse, persons_between, tells_few
from decbayes.errors import InvalidFile, InvalidPosterior, NotCalibrated, Refused
from decbayes.families import Array
from decbayes.families.matrices import mirrored, upper
from decbayes.models.core.information import size_of
from decbayes.models.core.model import Model
from decbayes.models.core.persons import EACH, Persons
from decbayes.network.protocol.group.charter import Charter
from decbayes.network.protocol.group.keys import AgentId
from decbayes.posterior import EXACT, JOINT, Posterior

if TYPE_CHECKING:
    from decbayes.calibration import Information, Scores
    from decbayes.network.protocol.records.merges import Merged
    from decbayes.network.protocol.records.record import Record


PREFIX = "note/"
SCORED = ("merged", "others", "own")
NONE, NO_GRID = np.zeros(0), np.zeros((0, 0))


@dataclass(frozen=True, eq=False)
class Note:
    """How a site's contribution depends on a merge, how its components overlap, and how well the merge predicts.

    `overlaps` are empty if the model has no components. `scores` are those of the merge, the merge without this site,
    and the site's own posterior, on data that it held back.
    """

    at: str
    information: "Information | None" = None
    overlaps: Array = field(default_factory=lambda: NONE)
    scores: "Scores | None" = None

    def arrays(self) -> dict[str, np.ndarray[Any, Any]]:
        """The note's parts by their names in a record."""
        parts: dict[str, np.ndarray[Any, Any]] = {"at": np.frombuffer(bytes.fromhex(self.at), dtype="<i4")}
        if self.information is not None:
            matrix = self.information.matrix
            # Adding zero turns −0.0 into 0.0, as readers get it.
            parts |= {"step": self.information.contribution, "slope": upper(matrix) + 0.0}
            parts |= {"grid": self.information.grid} if self.information.grid.size else {}
        if self.overlaps.size:
            parts["overlaps"] = self.overlaps
        if self.scores is not None:
            sums = self.scores.observations, *self.scores.sums, *self.scores.products.ravel()
            parts["scores"] = np.array(sums, dtype=np.float64)
        return {PREFIX + name: part for name, part in parts.items()}


def same_note(one: Note, other: Note) -> bool:
    mine, theirs = one.arrays(), other.arrays()
    return mine.keys() == theirs.keys() and all(np.array_equal(part, theirs[name]) for name, part in mine.items())


def note_from(arrays: Mapping[str, Any], charter: Charter) -> Note | None:
    """The checked note in a record's arrays; None if there is none."""
    parts = {name.removeprefix(PREFIX): part for name, part in arrays.items() if name.startswith(PREFIX)}
    if not parts:
        return None
    if not parts.keys() <= {"at", "step", "slope", "grid", "overlaps", "scores"} or not names_posterior(parts):
        raise InvalidFile("the note has unknown parts.")
    shaped = all(part.ndim == (2 if name == "grid" else 1) for name, part in parts.items())
    numbers = [part for name, part in parts.items() if name != "at"]
    if not shaped or not all(part.dtype == np.float64 and np.isfinite(part).all() for part in numbers):
        raise InvalidFile("the note holds values that are not finite numbers.")
    check_magnitudes(parts, charter.limits.magnitude)
    overlaps = parts.get("overlaps", NONE)
    if not ((overlaps >= 0.0) & (overlaps <= 1.0)).all() or len(overlaps) > most_components(charter):
        raise InvalidFile("overlaps are shares from 0 to 1, one per component.")
    at = parts["at"].tobytes().hex()
    return Note(at, information_from(at, parts, charter), overlaps, scores_from(at, parts, charter))


def check_magnitudes(parts: Mapping[str, Any], most: float) -> None:
    """Refuse numbers beyond the limit of contributions, or its square: other parts are products of at most two."""
    for name, part in parts.items():
        if name != "at" and np.abs(part).max(initial=0.0) > (most if name == "step" else most * most):
            raise InvalidFile(f"the note's {name} is beyond the charter's limit `magnitude`.")


def most_components(charter: Charter) -> int:
    """The number of components in a member's own posterior."""
    structure = charter.model.structure
    sizes = [len(structure.prior[name]) for coupled in structure.symmetry for name in coupled.factors]
    return max(sizes, default=0)


def names_posterior(parts: Mapping[str, Any]) -> bool:
    at = parts.get("at", NONE)
    return bool(at.shape == (8,) and at.dtype == np.dtype("<i4"))


def information_from(at: str, parts: Mapping[str, Any], charter: Charter) -> "Information | None":
    from decbayes.calibration import Information

    step, slope = parts.get("step", NONE), parts.get("slope", NONE)
    size, grid = len(step), parts.get("grid", NO_GRID)
    if len(slope) != size * (size + 1) // 2 or not fits(size, charter):
        raise InvalidFile("the note's matrix does not fit its vector, or is larger than a record may be.")
    if not size:
        return None
    return Information(at, 1, step, mirrored(slope, size), grid=grid)


def scores_from(at: str, parts: Mapping[str, Any], charter: Charter) -> "Scores | None":
    from decbayes.calibration.validation import LEAST_HELD_BACK, Scores, unit_and_rule

    if "scores" not in parts:
        return None
    count, side = parts["scores"], len(SCORED) + 1
    if len(count) != 1 + side + side**2 or not (count[0] >= LEAST_HELD_BACK and count[0] == int(count[0])):
        raise InvalidFile("the note's scores are not those of a merge, the others and the site.")
    if charter.disclosure is not None and count[0] < charter.disclosure.least_observations:
        raise Refused("rules", "its scores are of fewer observations than the disclosure rules ask for.")
    sums, products = count[1 : 1 + side], count[1 + side :].reshape(side, side)
    if not sums[0] >= 1.0:
        raise InvalidFile("the note's scores are for no observations.")
    return Scores(SCORED, (at, "", ""), int(count[0]), sums, products, *unit_and_rule(charter.model))


def note_of(
    charter: Charter,
    merged: "Merged",
    origin: AgentId,
    data: Any,
    held_back: Any,
    rules: Rules | None = None,
    persons: Persons = EACH,
    held_back_persons: Persons = EACH,
) -> Note:
    """A member's note on the merge, from its fitted and held-back data, as far as the rules allow."""
    posterior, site = merged.posterior, [entry[0] for entry in merged.entries].index(origin)
    information = information_on(charter, posterior, data, rules, persons) if charter.rules.intervals else None
    try:
        overlaps, scores = (
            overlaps_on(charter.model, merged, site, data, rules, persons),
            scores_on(charter.model, merged, site, held_back, rules, held_back_persons),
        )
    except InvalidPosterior:
        # Without this member's contribution the merge is improper, so there is nothing to compare with.
        overlaps, scores = NONE, None
    return Note(posterior.digest, information, overlaps, scores)


def information_on(
    charter: Charter, posterior: Posterior, data: Any, rules: Rules | None = None, persons: Persons = EACH
) -> "Information | None":
    """How the contribution depends on the merge; None if unknown, or if it would reveal too much about the data."""
    if obstacle(charter):
        return None
    from decbayes.calibration import Information
    from decbayes.calibration.validation import model_of

    model = model_of(charter.model, posterior)
    try:
        size = size_of(posterior.structure)
        enough = persons.total(model.count(data)) >= size and fits(size, charter)
        if not enough or (rules is not None and tells_few(model, posterior, data, rules.least_cell, persons)):
            return None
        information = Information.usual(model, data, posterior, rules=rules is not None)
        if not fits(size, charter, information.grid.size):
            information = replace(information, grid=NO_GRID)
        return information if rules is None else coarsened(information, model, data, posterior, persons)
    except NotCalibrated:
        return None


def coarsened(
    information: "Information", model: Model, data: Any, posterior: Posterior, persons: Persons
) -> "Information":
    """The information, rounded; its matrix is zero if no observation lies between two components."""
    between = 1.0
    if posterior.structure.symmetry:
        sums, _ = persons_between(model, posterior, data, persons)
        between = float((sums - np.diag(sums.diagonal())).max() > NOBODY * model.count(data))
    # The grid is not rounded: it follows from the record's contribution, and rounded sums can be those of no rows.
    matrix, contribution = between * coarse(information.matrix), coarse(information.contribution)
    return replace(information, contribution=contribution, matrix=matrix)


def fits(size: int, charter: Charter, further: int = 0) -> bool:
    """Whether a matrix over this many parameters, and further numbers, fit into a record and into readers' memory."""
    return 8 * (size**2 + further) <= charter.limits.record_bytes


def obstacle(charter: Charter) -> str:
    """Why merges of this group cannot be calibrated by notes; empty if they can."""
    if not charter.rules.intervals:
        return "the charter has no rule `intervals`"
    if charter.model.calibrated_by != "linear response":
        return f"{charter.model_name} is calibrated by refits of all data (`decbayes.calibrate` in Python)"
    if charter.rules.robust or charter.rules.share < 1.0:
        return "the merge is not the sum of what members contribute (rules `robust`, `share`)"
    if charter.epoch is not None:
        return "data of earlier epochs are not read again"
    if Posterior.of_prior(charter.model.structure).uncertainty in (EXACT, JOINT):
        return "intervals of this model are for all its parameters jointly, and need no calibration"
    return ""


def overlaps_on(model: Model, merged: "Merged", site: int, data: Any, rules: Rules | None, persons: Persons) -> Array:
    alignment = merged.alignment
    if alignment is None or len(alignment.posteriors) < 2 or len(alignment.structure.symmetry) != 1:
        return NONE
    from decbayes.calibration import overlap

    shares = np.clip(overlap(model, alignment, site, data), 0.0, 1.0)
    if rules is None:
        return shares
    presence = model.presence(alignment.posteriors[site], data, persons)
    return np.where(presence < rules.least_cell, 0.0, np.round(shares, 4))


def scores_on(
    model: Model, merged: "Merged", site: int, held_back: Any, rules: Rules | None, persons: Persons
) -> "Scores | None":
    from decbayes.calibration.validation import LEAST_HELD_BACK, validate

    alignment = merged.alignment
    least = LEAST_HELD_BACK if rules is None else max(LEAST_HELD_BACK, rules.least_observations)
    if held_back is None or alignment is None or persons.total(model.count(held_back)) < least:
        return None
    posteriors: Sequence[Posterior] = (merged.posterior, alignment.without(site), alignment.posteriors[site])
    return validate(model, dict(zip(SCORED, posteriors, strict=True)), held_back)


@dataclass(frozen=True)
class Belief:
    """A merged posterior, calibrated if possible, and what members' notes say about it.

    `why` says why it is not calibrated; empty if it is. `stale` are members without a note on this merge. `overlaps`
    and `scores` are each member's own statements, which nobody else can check.
    """

    posterior: Posterior
    why: str
    stale: tuple[AgentId, ...] = ()
    overlaps: Mapping[AgentId, Array] = field(default_factory=dict)
    scores: "Scores | None" = None


def believed(charter: Charter, merged: "Merged", records: Sequence["Record"]) -> Belief:
    """The merge with the sum of all notes on it; a function of the set of records alone."""
    at = merged.posterior.digest
    notes = {record.origin: record.note for record in records if record.note is not None and record.note.at == at}
    posterior, why = intervals(charter, merged.posterior, records, notes)
    scores = [note.scores for note in notes.values() if note.scores is not None]
    return Belief(
        posterior,
        why,
        tuple(record.origin for record in records if record.origin not in notes) if charter.rules.notes else (),
        {origin: note.overlaps for origin, note in notes.items() if note.overlaps.size},
        sum(scores[1:], scores[0]) if scores else None,
    )


def intervals(
    charter: Charter, posterior: Posterior, records: Sequence["Record"], notes: Mapping[AgentId, Note]
) -> tuple[Posterior, str]:
    """The posterior, calibrated if possible, and the reason if not."""
    size = sum(prior.size for prior in posterior.structure.prior.values())
    published = [note.information for note in notes.values() if note.information is not None]
    # A matrix of another size belongs to another merge.
    parts = [information for information in published if len(information.contribution) == size]
    why = obstacle(charter)
    if not why and len(notes) < len(records):
        why = f"{len(records) - len(notes)} of {len(records)} members have not published a note on this merge yet"
    if not why and len(parts) < len(records):
        why = f"{len(records) - len(parts)} of {len(records)} members have too few observations for a note"
        why += ", or their notes have another number of parameters" if len(published) > len(parts) else ""
    if why or not parts:
        return posterior, why or "it holds no data"
    if len({part.grid.shape for part in parts}) > 1:  # some disclose less than others
        parts = [replace(part, grid=NO_GRID) for part in parts]
    from decbayes.calibration.intervals import by_response

    try:
        return by_response(posterior, parts), ""
    except (NotCalibrated, InvalidPosterior) as error:
        return posterior, str(error)
