"""What may leave this site: the rules in force, drafts, and the files of other sites."""

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from cyclopts import Parameter
from numpy.typing import NDArray

from decbayes.cli.shared.common_options import model_input
from decbayes.cli.shared.terminal import messages, plain, plural
from decbayes.disclosure import Rules
from decbayes.disclosure.manifest import KEY, Manifest, manifest_in
from decbayes.errors import InvalidFile, NotDisclosed, StructureMismatch
from decbayes.files import load, load_note, save
from decbayes.inputs.tables import RowsLeftOut, column_names
from decbayes.inputs.texts import STANDARD_INPUT
from decbayes.merging.base.components import group_evidence
from decbayes.models.core.evaluation import hold_back, rows_of
from decbayes.models.core.model import Model, split_names
from decbayes.models.core.persons import EACH, Persons
from decbayes.posterior import Posterior
from decbayes.remarks import Remark

if TYPE_CHECKING:
    from decbayes.disclosure import Ledger
    from decbayes.disclosure.origin import Made
    from decbayes.disclosure.preparing import Prepared

NONE, USUAL = "none", "usual"
PUBLIC = "public_documents"
HELD_BACK = "held back"
VARIABLE = "DECBAYES_RULES"
LEDGER = "releases.ledger"
RulesOption = Annotated[
    str | None,
    Parameter(
        name="--rules",
        help=f"What may leave this site: a TOML file of stricter disclosure rules; or '{NONE}' for public or made-up "
        f"data. Default: {VARIABLE}, or the usual rules.",
    ),
]
SiteOption = Annotated[str, Parameter(name="--site", help="This site's name.")]
PersonOption = Annotated[
    str,
    Parameter(
        name="--person",
        help="The column that identifies persons, if a person may have several rows: the rules count persons. It is "
        "used for counting only, and its values never leave; 'none' states that each row is another person.",
    ),
]


def rules_in_force(text: str | None) -> Rules | None:
    """The rules in force; None if there are none."""
    setting = text if text is not None else os.environ.get(VARIABLE, "")
    if setting == NONE:
        return None
    return Rules.load(Path(setting)) if setting not in ("", USUAL) else Rules()


def rules_given(text: str | None) -> Rules | None:
    """The rules given by option or environment; None if neither is set."""
    return None if text is None and not os.environ.get(VARIABLE) else rules_in_force(text)


def tightened_by(rules: Rules | None, path: Path | None) -> Rules | None:
    """Apply the rules of another site's file as well: a site may only be stricter."""
    agreed = None if path is None else manifest_of(path)
    if agreed is None or agreed.rules is None:
        return rules
    if rules is None:
        raise NotDisclosed(f"{path} obeys disclosure rules, and a site may only be stricter: leave out --rules {NONE}.")
    return rules.tightened(agreed.rules)


def manifest_of(path: Path) -> Manifest | None:
    try:
        return manifest_in(load_note(path))
    except InvalidFile as error:
        raise NotDisclosed(str(error)) from None


def least_listed(requested: int | None, rules: Rules | None) -> int:
    """In how many documents a word must occur to be listed: as many as asked for, but at least what the rules need."""
    least = Rules().least_documents if rules is None else rules.least_documents
    if rules is not None and requested is not None and requested < least:
        from decbayes.disclosure.preparing import MADE_UP

        raise NotDisclosed(f"Words need at least {least} documents to be listed, not {requested}. {MADE_UP}")
    return requested or least


def public_note(numbers: Sequence[int]) -> dict[str, Any]:
    """Public document counts for the note of a file, if there are any."""
    return {PUBLIC: list(numbers)} if any(numbers) else {}


def public_documents(path: Path | None, model: Model) -> tuple[int, ...]:
    """In how many documents each word occurs, from another site's file or else the model; empty if unknown."""
    if path is None:
        return tuple(getattr(model, PUBLIC, ()))
    numbers = over_words(load_note(path).get(PUBLIC, []), path, model)
    valid = isinstance(numbers, list) and all(type(number) is int and number >= 0 for number in numbers)
    if not valid or len(numbers) not in (0, len(getattr(model, "vocabulary", ()))):
        raise InvalidFile(f"{path}: its document counts are invalid. Ask the site for another file.")
    return tuple(numbers)


def over_words(numbers: Any, path: Path, model: Model) -> Any:
    """A file's counts in the order of the model's vocabulary, with 0 for words that the file lacks."""
    words = tuple(getattr(model, "vocabulary", ()))
    if not isinstance(numbers, list) or not numbers or len(numbers) == len(words):
        return numbers
    file_words = load(path).structure.labels.get("topics", ())
    if len(file_words) != len(numbers) or not set(file_words) <= set(words):
        return numbers
    by_word = dict(zip(file_words, numbers, strict=True))
    return [by_word.get(word, 0) for word in words]


class ReadingReport:
    """Prints what readers report; keeps the numbers of rows that were left out, by reason, and remarks on values."""

    def __init__(self) -> None:
        self.left_out: dict[str, int] = {}
        self.remarks: list[Remark] = []

    def __call__(self, text: str) -> None:
        messages().print(text)
        if isinstance(text, RowsLeftOut):
            self.leave_out(text.reason, text.rows)
        elif type(text) is not str:
            from decbayes.models.core.points import unagreed_values

            unagreed: Any = text
            self.remarks.append(unagreed_values(unagreed.column, unagreed.share))

    def leave_out(self, reason: str, rows: int) -> None:
        self.left_out[reason] = self.left_out.get(reason, 0) + rows


def safe_to_fit(
    model: Model,
    observations: Any,
    rules: Rules | None,
    *,
    agreed: bool,
    on_top: bool = False,
    share: float = 0.0,
    persons: Persons = EACH,
    report: ReadingReport,
) -> "Prepared":
    """The model and its data under the rules, without the share that is held back; prints what changed.

    The rules are applied to the columns of all data, and again to what is fitted. A fit cannot tell rare words apart,
    unless it is `on_top` of earlier data that name them.
    """
    from decbayes.disclosure.preparing import Prepared, prepared

    whole = Prepared(model, observations, persons=persons)
    if rules is not None:
        whole = prepared(model, observations, rules, agreed=agreed, persons=persons, blind=False)
    safe = without_held_back(whole, share)
    if share:
        report.leave_out(HELD_BACK, whole.model.count(whole.data) - whole.model.count(safe.data))
    if share and rules is not None:
        again = prepared(safe.model, safe.data, rules, agreed=agreed, persons=safe.persons, blind=False)
        safe = replace(again, changed=tuple(dict.fromkeys((*whole.changed, *again.changed))))
    for change in safe.changed:
        messages().print(plain(change))
    if on_top or rules is None:
        return safe
    return replace(safe, data=safe.model.rare_unnamed(safe.data, rules.least_documents, safe.persons))


def without_held_back(whole: "Prepared", share: float) -> "Prepared":
    """The data and persons that remain if a share is held back."""
    if not share:
        return whole
    persons = whole.persons.taken(rows_of(whole.model.count(whole.data), share)[0])
    return replace(whole, data=hold_back(whole.model, whole.data, share=share)[0], persons=persons)


def save_draft(
    posterior: Posterior,
    output: Path,
    observations: Any,
    rules: Rules | None,
    *,
    site: str = "",
    changed: Sequence[str] = (),
    remarks: Sequence[Remark] = (),
    note: Mapping[str, Any] | None = None,
    halves: bool = False,
    **context: Any,
) -> Posterior:
    """Write the draft of a posterior under the rules, with remarks on its data; prints what was hidden.

    With `halves` it says how far random halves of its rows are apart, if components keep all their rows.
    """
    from decbayes.disclosure.drafting import drafted

    posterior = replace(posterior, remarks=(*dict.fromkeys((*posterior.remarks, *remarks)),))
    draft, manifest = drafted(posterior, observations, rules, site=site, changed=tuple(changed), **context)
    hidden = manifest.changed[len(changed) :]
    for change in hidden:
        messages().print(plain(change))
    try:
        # Topics are not compared, and need not load what compares sites.
        if halves and not hidden and not any(family.countable for family in draft.structure.families.values()):
            from decbayes.calibration import with_halves
            from decbayes.models.core.registry import model_for

            with messages().status("comparing random halves of the rows"):
                draft = with_halves(model_for(draft.structure), draft, observations, persons=context.get("persons"))
    finally:  # The fit is kept, should somebody interrupt those of halves.
        save(draft, output, note={**(note or {}), KEY: manifest.plain()})
    return draft


def ledger_beside(data: Sequence[Path], named: Path | None, file: Path) -> "Ledger":
    """This site's ledger, by default beside its data: the file that leaves may be in a folder that all sites share."""
    from decbayes.disclosure import Ledger

    if named is not None:
        return Ledger(named)
    path = (Path() if not data or data[0] == STANDARD_INPUT else data[0].parent) / LEDGER
    strayed = file.parent / LEDGER
    if strayed.exists() and not (path.exists() and path.samefile(strayed)):
        raise NotDisclosed(
            f"{strayed} lies beside the file, not beside the data. If it is this site's and nobody else can read that "
            f"folder, name it: --ledger {strayed}. Otherwise name this site's own, or move it there with its key."
        )
    return Ledger(path)


def check_received_files(paths: Sequence[Path], posteriors: Sequence[Posterior], rules: Rules | None) -> None:
    """Refuse files that break the receiver's rules; without rules, drafts only cause a message."""
    if rules is not None:
        from decbayes.disclosure.drafting import check_received

        for path, posterior in zip(paths, posteriors, strict=True):
            check_received(path, posterior, rules)
        return
    # Inputs of an earlier merge were checked before it.
    manifests = [None if "several" in load_note(path) else manifest_of(path) for path in paths]
    drafts = sum(manifest is not None and not manifest.released for manifest in manifests)
    if drafts:
        messages().print(f"Drafts, not released yet: {drafts} of {plural(len(paths), 'file')}.")


def merged_manifest(paths: Sequence[Path], merged: Posterior) -> dict[str, Any]:
    """The manifest of a merge for its file, if all files have one."""
    manifest = summed_manifest(paths, merged)
    return {} if manifest is None else {KEY: manifest.plain()}


def summed_manifest(paths: Sequence[Path], merged: Posterior) -> Manifest | None:
    """The manifest of a merge: the sum of all rows and persons, under the loosest of all rules."""
    manifests = [manifest for manifest in map(manifest_of, paths) if manifest is not None]
    if len(manifests) < len(paths):
        return None
    rules = [manifest.rules for manifest in manifests if manifest.rules is not None]
    loosest = reduce(Rules.loosened, rules) if len(rules) == len(manifests) else None
    rows, persons = (sum(getattr(manifest, name) for manifest in manifests) for name in ("rows", "persons"))
    left_out: Counter[str] = Counter()
    for manifest in manifests:
        left_out.update(manifest.left_out or {})
    # If a site counts rows, there may be fewer persons than all sites together state.
    person = manifests[0].person if all(manifest.person for manifest in manifests) else ""
    return Manifest(
        merged.digest, manifests[0].model, loosest, rows=rows, persons=persons, person=person, left_out=left_out
    )


def records_text(manifest: Manifest, record: str, counting: int | None = None) -> str:
    """The number of rows behind a file, of persons if a column names them, and of rows that count if not all do."""
    persons = f" of {plural(manifest.persons, 'person')}" if manifest.person else ""
    part = "" if counting is None else f", of which {counting:,} count"
    return f"{plural(manifest.rows, record)}{persons}{part}"


def persons_of(
    model: Model, files: Sequence[Path], column: str, *, rules: Rules | None = None, **reading_options: Any
) -> Persons:
    """The persons behind the observations; without a column, or with "none", each observation is a person.

    Under `rules` tables in which persons seem to have several rows need one or the other.
    """
    if rules is not None and not column:
        from decbayes.disclosure.identifiers import check_rows_are_persons

        for file in files:
            check_rows_are_persons(file, model)
    named = column not in ("", NONE)
    return model.persons(model_input(model, files), column, **reading_options) if named else EACH


def person_column(known: Path | None, files: Sequence[Path]) -> str:
    """The column that tells persons apart at the site of a known file, if these files have it, too."""
    manifest = None if known is None else manifest_of(known)
    if manifest is None or not manifest.person:
        return ""
    if all(manifest.person in column_names(file) for file in files):
        messages().print(plain(f"Persons are told apart by column '{manifest.person}', as in {known}."))
        return manifest.person
    advice = "If persons have several, name the column that tells them apart: --person."
    messages().print(plain(f"{known} counts persons; here each row or document counts as one. {advice}"))
    return ""


def check_names(model: Model, files: Sequence[Path], columns: str, rules: Rules | None) -> None:
    """Refuse columns that identify persons, also where the model of a table does not keep their names."""
    if rules is None or hasattr(model, "columns") or not hasattr(model, "dimension"):
        return
    from decbayes.columns import Gaussian
    from decbayes.disclosure.preparing import check_columns
    from decbayes.inputs.large import read_points

    for table in (read_points(file, split_names(columns)) for file in files):
        check_columns(dict.fromkeys(table.columns, Gaussian()), np.asarray(table.values), rules)


def as_fitted(
    model: Model, data: Any, files: Sequence[Path], manifest: Manifest | None, **reading_options: Any
) -> "Prepared":
    """A site's data as they were fitted, and the persons they are about, by the manifest of its file."""
    from decbayes.disclosure.preparing import Prepared, prepared

    if manifest is None:
        return Prepared(model, data)
    whole = Prepared(model, data, persons=persons_of(model, files, manifest.person, **reading_options))
    if manifest.rules is not None:
        whole = prepared(model, data, manifest.rules, agreed=True, persons=whole.persons, blind=False)
    held_back = (manifest.left_out or {}).get(HELD_BACK, 0)
    return without_held_back(whole, held_back / max(model.count(whole.data), 1))


def made_in(note: Mapping[str, Any]) -> "Made":
    """How a posterior was made, by the note in its file."""
    return "round" if note.get("round") else "on top" if note.get("holds") else "fit"


def check_data_behind(model: Model, posterior: Posterior, data: Any, made: "Made", path: Path) -> None:
    """Refuse data that do not match a site's posterior, by sums that do not depend on the fit."""
    from decbayes.disclosure.guarding import of_number
    from decbayes.disclosure.origin import holds_sums_of

    if holds_sums_of(of_number(model, posterior), posterior, data, made) is False:
        raise StructureMismatch(
            f"{path} is not the posterior of these data alone: its sums differ. Give this site's "
            "newest posterior and all data behind it."
        )


def rows_behind(paths: Sequence[Path], posteriors: Sequence[Posterior]) -> list[int] | None:
    """How many rows, documents or sequences are behind each file; None if a file does not tell."""
    manifests = [manifest_of(path) for path in paths]
    rows = [
        manifest.rows
        for manifest, posterior in zip(manifests, posteriors, strict=True)
        if manifest is not None and manifest.posterior == posterior.digest and manifest.rows
    ]
    return rows if len(rows) == len(paths) else None


def safe_to_send(model: Model, observations: Any, rules: Rules | None, persons: Persons = EACH) -> Any:
    """The data for sums that leave: without values that too few persons have, as in a fit; refuses too few rows."""
    if rules is None:
        return observations
    from decbayes.disclosure.preparing import prepared

    return prepared(model, observations, rules, agreed=True, persons=persons, blind=False, fitted=False).data


def small_components(posterior: Posterior, rules: Rules | None) -> NDArray[np.bool_]:
    """Which components too few persons have, according to the file."""
    (coupled,) = posterior.structure.symmetry or (None,)
    if rules is None or coupled is None:
        return np.zeros(0, dtype=np.bool_)
    from decbayes.disclosure.guarding import NEARLY

    evidence = group_evidence(posterior, coupled.factors)
    return np.asarray((evidence > NEARLY) & (evidence < rules.least_cell - NEARLY))
