"""Whether posteriors were fitted to the rows of a file: by sums that do not depend on the fit, and by files' notes."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from decbayes.calibration.sites import excess, units_in
from decbayes.cli.shared.common_options import model_input
from decbayes.cli.shared.sharing import HELD_BACK, as_fitted, made_in, manifest_of
from decbayes.cli.shared.terminal import messages, plain
from decbayes.disclosure.manifest import Manifest
from decbayes.disclosure.origin import holds_sums_of
from decbayes.errors import InvalidData, NotDisclosed
from decbayes.models.core.model import Model
from decbayes.models.core.registry import model_for
from decbayes.updates.rounds import Sent, sent_in


@dataclass(frozen=True, eq=False)
class PosteriorFile:
    """A posterior's file, and what it says about the rows that were fitted."""

    path: Path
    sent: Sent
    manifest: Manifest | None

    @classmethod
    def of(cls, path: Path) -> "PosteriorFile":
        return cls(path, sent_in(path), manifest_of(path))

    @property
    def held_back(self) -> int:
        """The number of rows that were held back from the fit, or from all fits in a merge."""
        return 0 if self.manifest is None else (self.manifest.left_out or {}).get(HELD_BACK, 0)

    @property
    def stated(self) -> int | None:
        """The number of fitted rows according to the manifest."""
        known = self.manifest is not None and self.manifest.posterior == self.sent.posterior.digest
        return (self.manifest.rows or None) if known and self.manifest else None

    def excess(self, model: Model, rows: Any) -> float:
        """How many more observations the posterior holds than these rows; 0 if as many, or if unknown."""
        if self.stated is not None:
            return self.stated - model.count(rows)
        return excess(self.sent.posterior, units_in(model, rows))

    def fitted_to(self, data: Path, columns: str = "") -> bool | None:
        """Whether it is the fit of these rows, less those held back; None if unknown, such as for a merge of more."""
        posterior, made = self.sent.posterior, made_in(self.sent.note())
        # A file without a manifest may be a merge, too.
        several = self.sent.several or made == "on top" or self.manifest is None
        model = model_for(posterior.structure)
        try:
            rows = model.read(model_input(model, [data]), columns=columns)
            if (more := self.excess(model, rows) + self.held_back) or self.sent.several:
                return None if several and more >= 0 else False
            same = holds_sums_of(model, posterior, as_fitted(model, rows, [data], self.manifest).data, made)
        except (InvalidData, NotDisclosed):  # other categories, no column of persons, or too few of them
            return None
        return None if several and not same else same


def check_holds(paths: Sequence[Path], data: Path) -> None:
    """Refuse posteriors from which the rows of a file cannot be left out, because they do not hold all of them.

    Most merges list the files they were made of. If this site's fit is given as well, that tells whether a merge of the
    same model holds its rows; otherwise it is assumed to, and a line says so.
    """
    fitted = {file: file.fitted_to(data) for file in map(PosteriorFile.of, paths)}
    own = [file.sent for file, answer in fitted.items() if answer]
    for file, answer in fitted.items():
        merged = any(file.sent.data & site.data for site in own)
        alike = any(file.sent.posterior.structure == site.posterior.structure for site in own)
        if answer is False or (alike and file.sent.holds and not merged):
            raise InvalidData(
                f"{file.path} is neither the fit of {data} nor merged with it, so its rows cannot be left out: score "
                "such a posterior without --leave-one-out."
            )
        if file.held_back and (answer or not merged):
            raise InvalidData(f"{file.path}: rows were held back from its fit. Score only these, with --held-back.")
        if not merged:
            messages().print(plain(f"{file.path} is assumed to hold the rows of {data}: give their fit to check."))


def check_holds_only(path: Path, data: Path, model: Model, rows: Any, columns: str) -> None:
    """Refuse a posterior of other rows than these, as far as their number and, for the fit of a site, sums tell."""
    file = PosteriorFile.of(path)
    if off := file.excess(model, rows):
        why = "some are missing" if off > 0.0 else "some were in no fit"
        raise InvalidData(
            f"{path} holds {abs(off):,.6g} observations {'more' if off > 0.0 else 'fewer'} than {data}: {why}. Give "
            "all data that it was fitted to in one file, and --held-back if rows were held back."
        )
    if file.fitted_to(data, columns) is False:
        raise InvalidData(f"{path} was not fitted to {data}: the sums differ. Give the data that it was fitted to.")


def check_holds_none(paths: Sequence[Path], data: Path, columns: str, count: int, held_back: int) -> None:
    """Refuse to score rows of a site with its own posterior if that was fitted to some of them.

    `count` is the number of rows in the file, and `held_back` of those to be scored; 0 if all are.
    """
    for file in map(PosteriorFile.of, paths):
        if file.sent.several and file.manifest is not None and held_back and not file.held_back:
            messages().print(plain(f"{file.path}: no site held rows back. If it holds these, its score is too high."))
        # Reading the file again for each of many sites would take long.
        possible = file.stated is None or file.stated + file.held_back == count
        if possible and file.held_back != (held_back or count) and file.fitted_to(data, columns):
            kept = f"only {file.held_back:,} observations were" if file.held_back else "nothing was"
            raise InvalidData(
                f"{file.path} was fitted to {data}, and {kept} held back: what was fitted scores too high. Fit with "
                "--hold-back, and score with the same share as --held-back."
            )


def those_that_hold(paths: Sequence[Path], data: Path, columns: str, count: int) -> list[Path]:
    """The posteriors that are known to hold these `count` rows: their own fit, and merges of it."""
    files = [PosteriorFile.of(path) for path in paths]
    possible = [file for file in files if file.stated is None or file.stated + file.held_back == count]
    own = frozenset(file.sent.posterior.digest for file in possible if file.fitted_to(data, columns))
    return [file.path for file in files if own & file.sent.data]
