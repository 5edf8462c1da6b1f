"""Files that obey disclosure rules and state which: writing drafts, and checking received files."""

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import decbayes
from decbayes import files
from decbayes.base.arguments import check_kind
from decbayes.disclosure.guarding import CHANGED, guarded
from decbayes.disclosure.ledger import today
from decbayes.disclosure.manifest import KEY, Manifest, manifest_in
from decbayes.disclosure.preparing import prepared
from decbayes.disclosure.releasing import verify
from decbayes.disclosure.rules import Rules
from decbayes.errors import DecbayesError, InvalidFile, NotDisclosed
from decbayes.models.core.model import Model
from decbayes.models.core.persons import Persons
from decbayes.models.core.registry import model_for
from decbayes.posterior import Posterior
from decbayes.remarks import REPEATED, RULES, Remark

USUAL = Rules()
POOLED = (
    "Results describe the changed data: numbers of rare values are rough. Intervals allow for that in outcomes only."
)


def save(
    posterior: Posterior,
    path: str | os.PathLike[str],
    *,
    data: Any = None,
    persons: Any = None,
    rules: Rules | None = USUAL,
    site: str = "",
    note: Mapping[str, Any] | None = None,
) -> None:
    """Write a posterior to a file, atomically.

    For a file that others will get, pass the `data` behind it: components and words of too few persons are then hidden,
    and the file states the rules that it obeys. Without data nothing is checked, and the file states no rules.

    Args:
        data: the data behind the posterior, to which the rules are applied.
        persons: a name or number per observation, if persons may have several observations.
        rules: the disclosure rules; None for public or made-up data, which the file then states.
        note: plain values to store beside the posterior; `files.load_note` reads them.

    >>> points = np.random.default_rng(0).normal(size=(100, 1))
    >>> model = db.models.GaussianMean(variance=1.0)
    >>> db.save(model.fit(points).posterior, "north.posterior", data=points, site="north")
    >>> db.load("north.posterior", rules=db.disclosure.Rules()).mean("mean").round(2)
    array([[0.08]])
    """
    if rules is not None:
        check_kind(Rules, rules=rules)
    if data is None and rules is not None:
        files.save(posterior, path, note=note)
        return
    draft, manifest = drafted(posterior, data, rules, site=site, persons=persons)
    files.save(draft, path, note={**(note or {}), KEY: manifest.plain()})


def drafted(
    posterior: Posterior,
    data: Any,
    rules: Rules | None,
    *,
    site: str = "",
    changed: tuple[str, ...] = (),
    left_out: Mapping[str, int] | None = None,
    persons: Any = None,
    person: str = "",
    **context: Any,
) -> tuple[Posterior, Manifest]:
    """The posterior as it may leave the site, and its manifest.

    `changed` and `left_out` describe changes before the fit, `person` names the column that identifies persons, and
    `context` are further arguments of `guarded`.
    """
    model, people = model_for(posterior.structure), Persons.of(persons)
    rows = 0 if data is None else model.count(data)
    if rules is not None:
        check_prepared(model, data, rules, people)
        safe = guarded(model, posterior, data, rules, persons=people, **context)
        pooled = [Remark(RULES, f"{CHANGED}: {text}", POOLED, severity="note") for text in changed]
        # A refit may carry what the first fit said.
        remarks = dict.fromkeys((*posterior.remarks, *pooled, *safe.remarks))
        posterior = replace(safe.posterior, remarks=tuple(remarks))
        changed = (*changed, *safe.changed)
    if people.total(rows) < rows and not model.are_pieces(data, people):
        posterior = replace(posterior, remarks=(*dict.fromkeys((*posterior.remarks, repeated_persons(model))),))
    return posterior, Manifest(
        posterior=posterior.digest,
        model=in_words(model),
        rules=rules,
        site=site,
        date=today(),
        rows=rows,
        persons=people.total(rows),
        person=person,
        left_out=left_out or {},
        changed=changed,
        software=f"decbayes {decbayes.__version__}",
    )


def repeated_persons(model: Model) -> Remark:
    """The remark that persons have several observations; only regressions have robust errors, which allow for it."""
    if hasattr(model, "robust_errors"):
        from decbayes.models.regressions.messages.doubts import REPEATED_PERSONS

        return REPEATED_PERSONS
    several = "rows" if model.record == "observation" else f"{model.record}s"
    return Remark(
        REPEATED,
        f"Persons have several {several}, which the model takes as independent: intervals are probably too narrow, and "
        "whether sites differ by more than chance is not tested.",
        f"To test it, fit {ONE_EACH.get(model.record, ONE_ROW)}.",
    )


def check_prepared(model: Model, data: Any, rules: Rules, persons: Persons) -> None:
    """Refuse data with rare values, because their posterior would reveal these."""
    try:
        changed = prepared(model, data, rules, agreed=True, persons=persons, blind=False).changed
    except NotDisclosed as error:
        raise NotDisclosed(f"{error} {PREPARE}" if "lack 'other'" in str(error) else str(error)) from None
    if changed:
        raise NotDisclosed(f"{changed[0]} This posterior was fitted without that. {PREPARE}")


ONE_ROW = "one row per person, such as the mean of each column"
ONE_EACH = {
    "document": "one document per person, all texts of a person together",
    "sequence": "one sequence per person",
}
PREPARE = "In Python, fit the model and the data that `db.disclosure.prepared` returns."


def in_words(model: Model) -> str:
    """The model's name for people, with the formula of a regression."""
    formula = getattr(model, "formula", "")
    return f"{type(model).__name__}: {formula}" if formula else type(model).__name__


def load(path: str | os.PathLike[str], *, rules: Rules | None = None, most_bytes: int = files.MOST_BYTES) -> Posterior:
    """Read a posterior from a file, checking its size, hash, names, shapes, numbers, domain and fingerprint.

    Args:
        rules: the disclosure rules that the file must state to obey; others are refused.
        most_bytes: larger files are refused.

    >>> model = db.models.GaussianMean(variance=1.0)
    >>> db.save(model.fit(np.zeros((3, 1))).posterior, "a.posterior")
    >>> db.load("a.posterior", rules=db.disclosure.Rules())
    Traceback (most recent call last):
    decbayes.errors.NotDisclosed: a.posterior does not say which disclosure rules it obeys. Ask its site to ...
    """
    posterior = files.load(path, most_bytes=most_bytes)
    if rules is not None:
        check_kind(Rules, rules=rules)
        check_received(Path(path), posterior, rules)
    return posterior


def check_received(path: Path, posterior: Posterior, rules: Rules) -> Manifest:
    """The manifest of a file that obeys the receiver's rules; NotDisclosed if it does not."""
    try:
        manifest = manifest_in(files.load_note(path))
    except InvalidFile as error:
        raise NotDisclosed(f"{path}: {error}") from None
    if manifest is None:
        raise NotDisclosed(
            f"{path} does not say which disclosure rules it obeys. Ask its site to fit it with this version."
        )
    if manifest.posterior != posterior.digest:
        raise NotDisclosed(f"{path}: its manifest is about another posterior. Ask its site for the file again.")
    if manifest.rules is None:
        raise NotDisclosed(f"{path} was made without disclosure rules (--rules none).")
    looser = [name for name in manifest.rules.looser_than(rules) if name != "approval"]
    if looser:
        raise NotDisclosed(f"{path} obeys looser rules than asked for: {', '.join(looser)}.")
    if rules.approval:
        if not manifest.released:
            raise NotDisclosed(f"{path} is a draft, and the rules ask for approval: `decbayes release` at its site.")
        try:
            verify(manifest)
        except DecbayesError as error:
            raise NotDisclosed(f"{path}: {error}") from None
    return manifest
