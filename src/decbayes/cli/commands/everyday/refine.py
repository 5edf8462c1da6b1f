"""`decbayes refine`: one round of one site, from its data and what the others sent in the last."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from cyclopts import Parameter
from cyclopts.types import NonNegativeInt, PositiveInt
from cyclopts.validators import Number

from decbayes.cli.commands.everyday._turns import Joining, RoundToMake, Waiting, step_in
from decbayes.cli.shared.common_options import (
    USUAL_ACCOUNTS,
    Accounts,
    Device,
    HoldBack,
    Reading,
    check_hold_back,
    the_data,
    work_on,
)
from decbayes.cli.shared.match_confidence import number_of
from decbayes.cli.shared.outputs import check_output
from decbayes.cli.shared.posterior_files import read_sent
from decbayes.cli.shared.running import WrongArgument
from decbayes.cli.shared.sharing import (
    PersonOption,
    ReadingReport,
    SiteOption,
    manifest_of,
    persons_of,
    public_documents,
    public_note,
    rules_named,
    safe_to_fit,
    save_draft,
)
from decbayes.cli.shared.standard_streams import json_option, print_json
from decbayes.cli.shared.terminal import fitting, many, messages, plain
from decbayes.disclosure.guarding import of_number
from decbayes.disclosure.origin import Made, holds_sums_of
from decbayes.errors import StructureMismatch
from decbayes.merging.base.problem import Number as Slots
from decbayes.models.core.registry import model_for
from decbayes.updates.rounds import ROUNDS_BEFORE, Round, Sent, slots_of
from decbayes.updates.update import shift

AS_THEY_ARE = Reading()
# What `decbayes secure new` writes into its folder.
AGREEMENT = "agreement.json"


@Parameter(name="*")
@dataclass(frozen=True)
class Where:
    """The folder that all sites share; or this site's file and those of all others."""

    folder: Annotated[
        Path | None,
        Parameter(help="The folder that all sites share: whose turn it is follows from the files there."),
    ] = None
    site: SiteOption = ""
    own: Annotated[Path | None, Parameter(help="Without --folder: this site's newest posterior.")] = None
    others: Annotated[
        list[Path] | None,
        Parameter(
            help="Without --folder: the newest posteriors of all other sites.", consume_multiple=True, negative=""
        ),
    ] = None
    output: Annotated[
        Path | None,
        Parameter(
            name=["--output", "-o"],
            help="Where to write this site's next round. Default: into the folder, as SITE.ROUND.posterior.",
            show_default=False,
        ),
    ] = None

    def step(self, data: list[Path], reading: Reading, components: Slots) -> RoundToMake | Waiting | Joining:
        """What there is to do, from the files that are there."""
        if self.folder is not None:
            if self.own is not None or self.others:
                raise WrongArgument("--folder finds the files itself: leave out --own and --others.")
            return step_in(self.folder, self.site, data, self.output, reading, components)
        if self.own is None or self.others is None or self.output is None:
            raise WrongArgument("Give --folder; or --own, --others and --output.")
        if self.site:
            raise WrongArgument("--site goes with --folder; without it, --own says which site this is.")
        check_output(self.output, *data, self.own, *self.others)
        return RoundToMake(read_sent([self.own, *self.others]), self.own, self.output).asked(components)


BY_NAME = Where()


@Parameter(name="*")
@dataclass(frozen=True)
class Secure:
    """This site's part in sums that open only together."""

    secure: Annotated[
        bool, Parameter(negative="", help="Take part in the secure sums of --folder, as `decbayes secure round` does.")
    ] = False
    key: Annotated[Path | None, Parameter(help="With --secure: this site's key.")] = None
    agreed: Annotated[str, Parameter(help="With --secure: the fingerprint that all members compared.")] = ""
    approve: Annotated[
        str, Parameter(help="With --secure: the name of whoever approves that the masked numbers leave.")
    ] = ""


IN_THE_CLEAR = Secure()


def refine(
    data: Annotated[list[Path], Parameter(help="All of this site's data, as `decbayes fit` reads them.", negative="")],
    /,
    *,
    where: Where = BY_NAME,
    components: Annotated[
        str | None,
        Parameter(
            help="In the first round: number of components; or 'auto' to find it together: each site first fits "
            "more components than needed, and after three rounds slots that the data do not need are joined. For "
            "topics and states, 'auto' estimates it from the first posteriors. The same at all sites."
        ),
    ] = None,
    passes: Annotated[PositiveInt | None, Parameter(help="Maximum number of passes over the data.")] = None,
    damping: Annotated[
        float,
        Parameter(
            help="Size of the step, 1 for all of it; smaller if rounds oscillate.", validator=Number(gt=0, lte=1)
        ),
    ] = 1.0,
    hold_back: HoldBack = 0.0,
    seed: Annotated[NonNegativeInt, Parameter(help="Random seed.")] = 0,
    device: Device = None,
    as_json: Annotated[bool, json_option("round", "file", "round", "sites", "shift", "waiting")] = False,
    private: Annotated[
        bool, Parameter(negative="", help="The next private release, from all releases so far; see `fit --private`.")
    ] = False,
    person: PersonOption = "",
    accounts: Accounts = USUAL_ACCOUNTS,
    secure: Secure = IN_THE_CLEAR,
    reading: Reading = AS_THEY_ARE,
) -> None:
    """Refit this site's data with what all other sites have sent as the prior, and write what it contributes now."""
    if secure.secure:
        if where.folder is None or secure.key is None or where != Where(where.folder) or private or components:
            raise WrongArgument(
                "--secure goes with --folder, --key, --agreed and --approve: the agreement has the rest."
            )
        from decbayes.cli.commands.sharing.secure import take_part

        take_part(
            where.folder, data, key=secure.key, agreed=secure.agreed, approve=secure.approve, ledger=accounts.ledger,
            person=person, passes=passes, damping=damping, hold_back=hold_back, data_set=accounts.data_set, seed=seed,
            as_json=as_json, reading=reading,
        )  # fmt: skip
        return
    if secure != IN_THE_CLEAR:
        raise WrongArgument("--key, --agreed and --approve go with --secure.")
    if where.folder is not None and (where.folder / AGREEMENT).is_file():
        raise WrongArgument(f"{where.folder} holds secure sums: give --secure --key KEY to take part in them.")
    if private:
        from decbayes.cli.commands.everyday._private import refine_privately

        files = where.own, where.others or [], where.folder, where.output
        refine_privately(data, where.site, *files, accounts, person, reading, as_json)
        return
    if accounts != USUAL_ACCOUNTS or person:
        raise WrongArgument("--ledger, --data-set and --person go with --private; otherwise they are those of --own.")
    check_hold_back(hold_back)
    work_on(device)
    asked = number_of(components)
    step = where.step(data, reading, asked)
    if isinstance(step, Waiting):
        print_waiting(step, as_json)
        return
    if isinstance(step, Joining):
        step.fit(data, reading, seed=seed, passes=passes, hold_back=hold_back)
        print_first(step, as_json)
        return
    before = Round.of(step.sent, step.components(asked), in_step=where.folder is None, auto=step.auto)
    refined = make_round(step, before, data, reading, passes=passes, damping=damping, hold_back=hold_back, seed=seed)
    (print_wide if step.wide else print_round)(step.output, refined, before, as_json)


def make_round(
    step: RoundToMake,
    before: Round,
    data: list[Path],
    reading: Reading,
    *,
    passes: int | None,
    damping: float,
    hold_back: float,
    seed: int,
) -> Sent:
    """Refit under the rules of this site's file, and write the draft of its next round."""
    model, report = before.model, ReadingReport()
    observations = model.read(the_data(model, data), report=report, **reading.options(type(model)))
    manifest = manifest_of(step.own)
    rules, person = (rules_named(None), "") if manifest is None else (manifest.rules, manifest.person)
    persons = persons_of(model, data, person, **reading.options(type(model)))
    safe = safe_to_fit(model, observations, rules, agreed=True, share=hold_back, persons=persons, report=report)
    observations, public = safe.data, public_documents(step.own, model)
    check_own(before, observations, step.own)
    alike = before if rules is None else before.evened(observations, rules.least_documents, safe.persons)
    ascent = model.ascent if passes is None else replace(model.ascent, passes=passes)
    rng = np.random.default_rng(seed)
    with fitting(1 + ascent.restarts if step.wide else 1, ascent.passes) as bar:
        if step.wide:
            refined = alike.fitted_wide(observations, step.wide, rng=rng, ascent=ascent, progress=bar)
        else:
            refined = alike.refined(observations, rng=rng, ascent=ascent, damping=damping, progress=bar)
    kept = save_draft(
        refined.posterior,
        step.output,
        observations,
        rules,
        site="" if manifest is None else manifest.site,
        changed=safe.changed,
        left_out=report.left_out,
        persons=safe.persons,
        person=person,
        note=refined.note() | public_note(public),
        frequency=public,
        **({} if step.wide else {"belief": alike.after(refined), "others": before.others}),
    )
    return replace(refined, posterior=kept)


def check_own(before: Round, data: Any, path: Path) -> None:
    """Refuse data that this site's newest posterior is not about, by the sums that do not depend on its fit."""
    own = next(iter(before.sent.values()))
    model = model_for(own.posterior.structure)
    made: Made = "round" if own.round else "on top" if own.holds else "fit"
    theirs = before.model.restricted(data, own.posterior.structure)
    if holds_sums_of(of_number(model, own.posterior), own.posterior, theirs, made) is False:
        raise StructureMismatch(
            f"{path} is not the posterior of these data alone: its sums are those of others. Give the site's own "
            "newest posterior and all data behind it."
        )


def print_round(output: Path, refined: Sent, before: Round, as_json: bool) -> None:
    """One line on a round: how far it moves the merge; and whether sites have left."""
    moved = shift(before.merged, before.after(refined))
    if before.missing:
        whose = "its" if before.missing == 1 else "their"
        messages().print(f"{many(before.missing, 'site')} of the last round left: {whose} data no longer count.")
    messages().print(
        f"{output}: round {refined.round} of {len(refined.sites)} sites; it moves the merge by {moved:.2g} standard "
        "deviations per parameter"
    )
    if as_json:
        print_json(values(output, refined.round, len(refined.sites), moved))


def print_wide(output: Path, refined: Sent, before: Round, as_json: bool) -> None:
    messages().print(
        f"{output}: {many(slots_of(refined.posterior), 'component')}, more than needed. When all sites have sent "
        f"theirs, rounds begin; after {ROUNDS_BEFORE}, slots that the data do not need are joined."
    )
    if as_json:
        print_json(values(output, 0, len(before.sent), None))


def print_waiting(step: Waiting, as_json: bool) -> None:
    """Whom this site waits for, and what to do if they do not come back."""
    turn = step.turn
    if turn.round == 1:
        messages().print(plain(f"{turn.site} has sent its first posterior. Waiting for {', '.join(turn.waiting)}."))
    else:
        messages().print(
            plain(
                f"{turn.site} has sent round {turn.round - 1}. Waiting for {', '.join(turn.waiting)}. If a site has "
                "left, move its files out of the folder: the others go on without it."
            )
        )
    if as_json:
        print_json(values(None, turn.round - 1, step.sites, None, turn.waiting))


def print_first(step: Joining, as_json: bool) -> None:
    messages().print(plain(f"{step.site} joins {many(step.sites, 'site')}. The same command makes its next round."))
    if as_json:
        print_json(values(step.output, 0, step.sites + 1, None))


def values(file: Path | None, number: int, sites: int, moved: float | None, waiting: Any = ()) -> Mapping[str, Any]:
    return {"file": file, "round": number, "sites": sites, "shift": moved, "waiting": list(waiting)}
