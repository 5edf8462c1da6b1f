"""How far to believe a merge: what the notes of its members say, added up."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from decbayes.errors import InvalidPosterior, NotCalibrated
from decbayes.families import Array
from decbayes.network.protocol.charter import Charter
from decbayes.network.protocol.keys import AgentId
from decbayes.network.protocol.notes import Note, obstacle
from decbayes.posterior import Posterior

if TYPE_CHECKING:
    from decbayes.calibration import Scores
    from decbayes.network.protocol.merges import Merged
    from decbayes.network.protocol.record import Record


@dataclass(frozen=True)
class Belief:
    """A merged posterior, calibrated or not, and what its members say of it.

    `why` is empty if it is calibrated. `stale` are members whose note is about an earlier merge, or who have none yet.
    `overlaps` and `scores` are what each member says of itself: nobody else can check them.
    """

    posterior: Posterior
    why: str
    stale: tuple[AgentId, ...] = ()
    overlaps: Mapping[AgentId, Array] = field(default_factory=dict)
    scores: "Scores | None" = None


def believed(charter: Charter, merged: "Merged", records: Sequence["Record"]) -> Belief:
    """What the notes about this very merge say; it follows from the set of records alone."""
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
    """The posterior, calibrated if that is possible, and why it is not."""
    size = sum(prior.size for prior in posterior.structure.prior.values())
    said = [note.information for note in notes.values() if note.information is not None]
    # A member may say something of another size: then it has not said what this merge needs.
    parts = [information for information in said if len(information.contribution) == size]
    why = obstacle(charter)
    if not why and len(notes) < len(records):
        why = f"{len(records) - len(notes)} of {len(records)} members have not looked at this merge yet"
    if not why and len(parts) < len(records):
        why = f"{len(records) - len(parts)} of {len(records)} members have too few observations to say what it needs"
        why += ", or say it of another number of parameters" if len(said) > len(parts) else ""
    if why or not parts:
        return posterior, why or "there is nothing in it"
    from decbayes.calibration.calibrating import by_response

    try:
        return by_response(posterior, parts), ""
    except (NotCalibrated, InvalidPosterior) as error:
        return posterior, str(error)
