"""Releases as files: posterior files of the prior with the release as a note. All of it is public."""

import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from decbayes import files
from decbayes.errors import InvalidFile, InvalidRules, NotPrivate
from decbayes.posterior import Posterior
from decbayes.privacy.accounting import Privacy
from decbayes.privacy.grid import LARGEST
from decbayes.privacy.releasing import Release
from decbayes.remarks import is_short_text

KEY = "release"
FIELDS = {"privacy": dict, "round": int, "variance": str, "ids": list, "site": str, "anchor": list, "values": list}
# The most numbers and sites in one round, and the largest variance.
MOST = 1_000_000
WIDEST = 10**40


def save_release(release: Release, path: str | os.PathLike[str]) -> None:
    """Write a release to a file, atomically; refused if it lacks a part of its noise.

    >>> columns = {"age": db.columns.Gaussian(centre=50, scale=20), "ill": db.columns.YesNo()}
    >>> model, ledger = db.LogisticRegression("ill", columns=columns), db.disclosure.Ledger("one.ledger")
    >>> prior, patients = db.Posterior.of_prior(model.structure), {"age": [40.0, 60.0], "ill": [False, True]}
    >>> release = model.release(prior, patients, db.Privacy(1.0, 1e-6), ledger=ledger)
    >>> db.privacy.save_release(release, "north.0.release")
    >>> db.privacy.load_release("north.0.release").ids == release.ids
    True
    """
    if not release.open:
        raise NotPrivate(
            "A release with shared noise protects nobody by itself: only a secure sum may see it. `decbayes secure new "
            "--private` begins one by files, `decbayes charter new --privacy` on a network; else use noise='each'."
        )
    numbers = {"anchor": release.anchor.tolist(), "values": release.values.tolist()}
    files.save(Posterior.of_prior(release.structure), path, note={KEY: release.facts | numbers})


def load_release(path: str | os.PathLike[str]) -> Release:
    """Read a release from a file and check it.

    >>> db.privacy.load_release("missing.release")
    Traceback (most recent call last):
    FileNotFoundError: [Errno 2] No such file or directory: 'missing.release'
    """
    structure, note = files.load(path).structure, files.load_note(path)
    if KEY not in note:
        raise InvalidFile(f"{path} is a posterior, not a private release: `decbayes fit --private` makes one.")
    try:
        stated = checked_fields(note[KEY])
        privacy, variance = Privacy.of(stated["privacy"]), int(stated["variance"])
        anchor, values = np.array(stated["anchor"], dtype=np.float64), np.array(stated["values"], dtype=np.int64)
        if variance >= WIDEST or not (np.abs(values) < LARGEST).all():
            raise ValueError
        return Release(
            structure, privacy, stated["round"], anchor, values, variance, tuple(stated["ids"]), stated["site"]
        )
    except (KeyError, TypeError, ValueError, OverflowError, InvalidRules, InvalidFile):
        raise InvalidFile(f"{path}: the release in it cannot be read. Ask its site for the file again.") from None


def checked_fields(stated: Any) -> Mapping[str, Any]:
    """The values of an untrusted release, if their types and numbers are right."""
    if not isinstance(stated, dict) or stated.keys() != FIELDS.keys():
        raise ValueError
    for name, kind in FIELDS.items():
        value = stated[name]
        if type(value) is not kind or (isinstance(value, list) and len(value) > MOST):
            raise TypeError
    whole, texts = stated["values"], [*stated["ids"], stated["site"]]
    if not all(type(value) is int for value in whole) or not all(map(is_short_text, texts)):
        raise TypeError
    if not all(type(value) in (int, float) for value in stated["anchor"]):
        raise TypeError
    return stated
