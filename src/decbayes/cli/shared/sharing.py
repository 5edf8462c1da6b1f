"""What may leave this site: the rules in force, drafts, and files from other sites."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from cyclopts import Parameter
from numpy.typing import NDArray

from decbayes.cli.shared.common_options import the_data
from decbayes.cli.shared.terminal import messages, plain
from decbayes.disclosure import Rules
from decbayes.disclosure.manifest import KEY, Manifest, manifest_in
from decbayes.errors import InvalidFile, NotDisclosed
from decbayes.files import load, load_note, save
from decbayes.inputs.tables import LeftOut
from decbayes.inputs.texts import STANDARD_INPUT
from decbayes.merging.base.components import group_evidence
from decbayes.models.core.evaluation import hold_back, rows_of
from decbayes.models.core.model import Model
from decbayes.models.core.persons import EACH, Persons
from decbayes.posterior import Posterior

if TYPE_CHECKING:
    from decbayes.disclosure import Ledger
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
        show_default=False,
    ),
]
SiteOption = Annotated[str, Parameter(name="--site", help="The name that this site goes by.", show_default=False)]
PersonOption = Annotated[
    str,
    Parameter(
        name="--person",
        help="The column that identifies persons, if a person may have several rows: the rules count persons. It is "
        "used for counting only, and its values never leave.",
        show_default=False,
    ),
]


def rules_named(text: str | None) -> Rules | None:
    """The rules in force; None where there are none."""
    setting = text if text is not None else os.environ.get(VARIABLE, "")
    if setting == NONE:
        return None
    return Rules.load(Path(setting)) if setting not in ("", USUAL) else Rules()


def rules_asked_for(text: str | None) -> Rules | None:
    """The rules asked for, by option or in the environment; None without either."""
    return None if text is None and not os.environ.get(VARIABLE) else rules_named(text)


def within_agreed(rules: Rules | None, path: Path | None) -> Rules | None:
    """The rules of another site's file hold here as well; a site may only be stricter."""
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


def least_in_list(asked: int | None, rules: Rules | None) -> int:
    """How many documents a word needs to be listed: as many as somebody asks for, and never fewer than the rules do."""
    least = Rules().least_documents if rules is None else rules.least_documents
    if rules is not None and asked is not None and asked < least:
        from decbayes.disclosure.preparing import MADE_UP

        raise NotDisclosed(f"Words need at least {least} documents to be listed, not {asked}. {MADE_UP}")
    return asked or least


def public_note(numbers: Sequence[int]) -> dict[str, Any]:
    """Public numbers of documents for the note of a file, if there are any."""
    return {PUBLIC: list(numbers)} if any(numbers) else {}


def public_documents(path: Path | None, model: Model) -> tuple[int, ...]:
    """How many documents have each word, as another site's file or else the model says it; empty if it does not."""
    if path is None:
        return tuple(getattr(model, PUBLIC, ()))
    numbers = load_note(path).get(PUBLIC, [])
    numbers = over_words(numbers, path, model)
    proper = isinstance(numbers, list) and all(type(number) is int and number >= 0 for number in numbers)
    if not proper or len(numbers) not in (0, len(getattr(model, "vocabulary", ()))):
        raise InvalidFile(f"{path}: its numbers of documents per word make no sense.")
    return tuple(numbers)


def over_words(numbers: Any, path: Path, model: Model) -> Any:
    """Numbers of a file over the model's words, which may be more: nothing is known of the others."""
    words = tuple(getattr(model, "vocabulary", ()))
    if not isinstance(numbers, list) or not numbers or len(numbers) == len(words):
        return numbers
    known = load(path).structure.labels.get("topics", ())
    if len(known) != len(numbers) or not set(known) <= set(words):
        return numbers
    by_word = dict(zip(known, numbers, strict=True))
    return [by_word.get(word, 0) for word in words]


class ReadingReport:
    """Prints what readers report, and keeps how many rows were left out, by reason."""

    def __init__(self) -> None:
        self.left_out: dict[str, int] = {}

    def __call__(self, text: str) -> None:
        messages().print(text)
        if isinstance(text, LeftOut):
            self.leave_out(text.reason, text.rows)

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
    """The model and the data under the rules, without the share that is held back; what was changed is said.

    Columns are those of all data, so that the rules hold for these, too, and not only for what is fitted.
    A fit cannot tell rare words apart, unless it is `on_top` of earlier data that name them.
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
    """The data and persons that are fitted if a share is held back."""
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
    note: Mapping[str, Any] | None = None,
    **context: Any,
) -> Posterior:
    """Write what may leave of a posterior; what was hidden is said."""
    from decbayes.disclosure.drafting import drafted

    draft, manifest = drafted(posterior, observations, rules, site=site, changed=tuple(changed), **context)
    for change in manifest.changed[len(changed) :]:
        messages().print(plain(change))
    save(draft, output, note={**(note or {}), KEY: manifest.plain()})
    return draft


def ledger_beside(data: Sequence[Path], named: Path | None, file: Path) -> "Ledger":
    """This site's ledger: where its data are, which stay; a file that is to leave may lie in a folder of all sites."""
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
    """Refuse files that break the receiver's rules; without rules, drafts only get a remark."""
    if rules is not None:
        from decbayes.disclosure.drafting import check_received

        for path, posterior in zip(paths, posteriors, strict=True):
            check_received(path, posterior, rules)
        return
    # What went into a merge was released or not before.
    manifests = [None if "several" in load_note(path) else manifest_of(path) for path in paths]
    drafts = sum(manifest is not None and not manifest.released for manifest in manifests)
    if drafts:
        messages().print(f"{drafts} of {len(paths)} files are drafts: nobody has released them yet.")


def merged_manifest(paths: Sequence[Path], merged: Posterior) -> dict[str, Any]:
    """The manifest of a merge: as many rows as all files have, under the loosest of their rules."""
    manifests = [manifest for manifest in map(manifest_of, paths) if manifest is not None]
    if len(manifests) < len(paths):
        return {}
    rules = [manifest.rules for manifest in manifests if manifest.rules is not None]
    loosest = reduce(Rules.loosened, rules) if len(rules) == len(manifests) else None
    rows, persons = (sum(getattr(manifest, name) for manifest in manifests) for name in ("rows", "persons"))
    return {KEY: Manifest(merged.digest, manifests[0].model, loosest, rows=rows, persons=persons).plain()}


def persons_of(model: Model, files: Sequence[Path], column: str, **reading_options: Any) -> Persons:
    """Whom the observations of files are about; each is a person if no column says so."""
    return model.persons(the_data(model, files), column, **reading_options) if column else EACH


def rows_behind(paths: Sequence[Path], posteriors: Sequence[Posterior]) -> list[int] | None:
    """How many rows, documents or sequences are behind each file, if all of them say it."""
    manifests = [manifest_of(path) for path in paths]
    rows = [
        manifest.rows
        for manifest, posterior in zip(manifests, posteriors, strict=True)
        if manifest is not None and manifest.posterior == posterior.digest and manifest.rows
    ]
    return rows if len(rows) == len(paths) else None


def safe_to_send(model: Model, observations: Any, rules: Rules | None, persons: Persons = EACH) -> Any:
    """What sums for others are taken over: as in a fit, without values that too few persons have; refuses too few."""
    if rules is None:
        return observations
    from decbayes.disclosure.preparing import prepared

    return prepared(model, observations, rules, agreed=True, persons=persons, blind=False, fitted=False).data


def small_components(posterior: Posterior, rules: Rules | None) -> NDArray[np.bool_]:
    """The components that too few persons have, by the file itself."""
    (coupled,) = posterior.structure.symmetry or (None,)
    if rules is None or coupled is None:
        return np.zeros(0, dtype=np.bool_)
    from decbayes.disclosure.guarding import NEARLY

    evidence = group_evidence(posterior, coupled.factors)
    return np.asarray((evidence > NEARLY) & (evidence < rules.least_cell - NEARLY))
