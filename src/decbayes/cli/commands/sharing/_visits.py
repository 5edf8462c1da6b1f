"""One site's contribution to a secure sum, recorded in the ledger before it leaves."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from decbayes.cli.shared.common_options import Reading, Refit, model_input
from decbayes.cli.shared.sharing import ReadingReport, persons_of, public_documents, safe_to_fit
from decbayes.cli.shared.terminal import fit_progress, messages, plain
from decbayes.disclosure import Ledger, Rules
from decbayes.disclosure.budgets import check_spending
from decbayes.disclosure.ledger import today
from decbayes.disclosure.manifest import Manifest
from decbayes.disclosure.preparing import prepared
from decbayes.disclosure.releasing import person_digests, release
from decbayes.errors import NotDisclosed
from decbayes.models.core.evaluation import hold_back, rows_of
from decbayes.models.core.registry import model_for
from decbayes.posterior import Posterior
from decbayes.privacy import Privacy
from decbayes.privacy.mechanism import PrivateMerge
from decbayes.secure.anchored import Share
from decbayes.secure.contributing import contribution
from decbayes.secure.folder import ANCHOR, Folder
from decbayes.secure.private_rounds import PrivateShare, private_share
from decbayes.updates.rounds import check_data


@dataclass(frozen=True)
class Visit:
    """One site's contribution to a secure sum, recorded in the ledger before it leaves."""

    folder: Folder
    data: Sequence[Path]
    rules: Rules | None
    ledger: Ledger
    site: str
    approver: str
    reason: str
    person: str
    refit: Refit
    reading: Reading
    data_set: str = "data"

    def private_share(self, promise: Privacy, before: PrivateMerge | None, known: frozenset[str]) -> PrivateShare:
        """A private release of this site's rows with its share of the noise; refused if the budget is spent."""
        model = model_for(self.folder.agreement.anchor.structure)
        sources = self.reading.options(type(model))
        rows = model.read(model_input(model, self.data), report=ReadingReport(), **sources)
        persons = persons_of(model, self.data, self.person, rules=Rules(), **sources)
        share = private_share(
            model, rows, promise, before, known, site=self.site, persons=persons, data_set=self.data_set
        )
        check_spending(self.ledger.path, share.spending, self.ledger.entries())
        return share

    def share(self, number: int, before: Posterior, previous: Posterior | None) -> Share:
        if self.rules is not None and not self.approver.strip():
            raise NotDisclosed("Numbers leave this site now: say who approves that, --approve NAME.")
        model, report = model_for(before.structure), ReadingReport()
        sources = self.reading.options(type(model))
        read = model.read(model_input(model, self.data), report=report, **sources)
        persons = persons_of(model, self.data, self.person, rules=self.rules, **sources)
        safe = safe_to_fit(
            model, read, self.rules, agreed=True, share=self.refit.hold_back, persons=persons, report=report
        )
        if previous is not None and model.count(safe.data) <= self.folder.agreement.most_rows:
            check_data(model, safe.data, previous, f"The contribution of {self.site} to the last sum")
        model_to_fit: Any = safe.model
        ascent = self.refit.ascent(model_to_fit)
        with fit_progress(1, ascent.passes) as bar:
            share, manifest = contribution(
                safe.data,
                before,
                previous,
                rng=np.random.default_rng(self.refit.seed),
                model=replace(model_to_fit, ascent=ascent),
                rules=self.rules,
                persons=safe.persons,
                damping=self.refit.damping,
                held_back=self.held_back(model, read, persons),
                progress=bar,
                site=self.site,
                changed=safe.changed,
                left_out=report.left_out,
                person=self.person,
                frequency=public_documents(self.folder.path / ANCHOR, model),
            )
        for change in manifest.changed[len(safe.changed) :]:
            messages().print(plain(change))
        if previous is None and before.structure.symmetry:
            messages().print(f"{slots_filled(share.posterior)} by the components of this site")
        self.print_share(share)
        self.record(number, manifest, person_digests(model, safe.data, self.ledger, safe.persons))
        return share

    def print_share(self, share: Share) -> None:
        """Print how well the merge predicts rows that were held back, and whether rows exceed the agreed maximum."""
        if (scores := share.held_back) is not None:
            messages().print(
                f"{scores.units:,.0f} held-back units of this site: {scores.score:.4g} each with the merge, "
                f"{scores.gain:+.2g} ± {scores.error:.2g} compared with its own part alone"
            )
        if share.rows > self.folder.agreement.most_rows:
            messages().print(
                f"{share.rows:,.0f} rows count as {self.folder.agreement.most_rows:,.0f}, the agreed maximum."
            )

    def held_back(self, model: Any, read: Any, persons: Any) -> Any:
        """The rows that fits leave out, under the rules; None if there are too few, or if their scores must stay."""
        if not self.refit.hold_back:
            return None
        if self.rules is None:
            return hold_back(model, read, share=self.refit.hold_back)[1]
        try:
            whole = prepared(model, read, self.rules, agreed=True, persons=persons, fitted=False).data
        except NotDisclosed:
            return None
        held_back = rows_of(model.count(whole), self.refit.hold_back)[1]
        few = persons.taken(held_back).total(len(held_back)) < self.rules.least_cell
        return None if few else hold_back(model, whole, share=self.refit.hold_back)[1]

    def record(self, number: int, manifest: Manifest, members: Sequence[str]) -> None:
        """Record in the ledger what is about to leave."""
        if not self.approver.strip():
            return
        why = f"masked, for a sum of {len(self.folder.agreement.members)} members"
        release(
            manifest,
            f"{self.folder.path.name}/round_{number}/{self.site}.masked",
            self.ledger,
            approver=self.approver,
            reason=f"{self.reason} ({why})" if self.reason else why,
            date=today(),
            members=members,
        )


def slots_filled(posterior: Posterior) -> str:
    """How many slots a site's components fill; if nearly all share one, the anchor is too vague."""
    (coupled,) = posterior.structure.symmetry
    empty = posterior.untouched(coupled)
    return f"{len(empty) - int(empty.sum())} of {len(empty)} slots are filled"
