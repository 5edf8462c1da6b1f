"""Posterior files with what they say of the data behind them."""

from pathlib import Path

from decbayes.cli.terminal import progress_bar
from decbayes.errors import InvalidFile, StructureMismatch
from decbayes.files import load, load_note
from decbayes.merging.agreement import alike, why
from decbayes.merging.columns import same_columns
from decbayes.structure import Structure
from decbayes.updates.rounds import Sent

OR_PRIORS = ", or merge on common priors: --topic-prior learn --document-prior 0.1"


def is_topics(structure: Structure) -> bool:
    return structure.model.get("name") == "LatentDirichletAllocation"


def same_words(first: Structure, second: Structure) -> bool:
    """Whether both are topics of the same words, so that common priors would make them fit."""
    return is_topics(first) and is_topics(second) and first.labels == second.labels


def sent_in(path: Path) -> Sent:
    try:
        return Sent.of(load(path), load_note(path))
    except InvalidFile as error:
        raise InvalidFile(str(error) if str(path) in str(error) else f"{path}: {error}") from None


def read_sent(paths: list[Path], *, any_prior: bool = False) -> dict[str, Sent]:
    """All files by name; one that does not fit the first is refused. Numbers of components may differ."""
    with progress_bar() as bar:
        read = [sent_in(path) for path in bar.track(paths, description="reading")]
    ordered = [posterior.structure for posterior in same_columns([each.posterior for each in read])]
    for path, structure in zip(paths, ordered, strict=True) if not any_prior else ():
        first = ordered[0]
        if structure != first and not alike(structure, first):
            told = f"{path} does not fit {paths[0]}: {why(first, structure, strictly=False)}"
            remedy = OR_PRIORS if same_words(first, structure) else ""
            raise StructureMismatch(f"{told} Fit it again with --like {paths[0]}{remedy}.")
    again = [" (again)" * paths[:place].count(path) for place, path in enumerate(paths)]
    return {f"{path}{mark}": each for path, mark, each in zip(paths, again, read, strict=True)}
