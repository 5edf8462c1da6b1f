"""`decbayes refine`: make one site's next round from its data and what the others sent."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from cyclopts import Parameter

from decbayes.base.display import digits
from decbayes.cli.commands.everyday._shared_folder import Joining, RoundToMake, Waiting, next_step
from decbayes.cli.shared.common_options import (
    AS_THEY_ARE,
    AS_USUAL,
    USUAL_ACCOUNTS,
    Accounts,
    Device,
    Reading,
    Refit,
    check_hold_back,
    model_input,
    work_on,
)
from decbayes.cli.shared.match_confidence import component_number
from decbayes.cli.shared.outputs import check_output, output_option
from decbayes.cli.shared.posterior_files import read_sent
from decbayes.cli.shared.running import WrongArgument
from decbayes.cli.shared.sharing import (
    ReadingReport,
    SiteOption,
    check_data_behind,
    made_in,
    manifest_of,
    persons_of,
    public_documents,
    public_note,
    rules_in_force,
    safe_to_fit,
    save_draft,
)
from decbayes.cli.shared.standard_streams import json_option, print_json
from decbayes.cli.shared.terminal import fit_progress, messages, plain, plural
from decbayes.merging.base.problem import Number as Slots
from decbayes.models.core.registry import model_for
from decbayes.updates.rounds import ROUNDS_BEFORE, Round, Sent, slots_of
from decbayes.updates.update import shift

# What `decbayes secure new` writes into its folder.
AGREEMENT = "agreement.json"


@Parameter(name="*")
@dataclass(frozen=True)
class Where:
    """The folder that all sites share; or this site's file and those of all others."""

    folder: Annotated[
        Path | None, Parameter(help="The folder that all sites share; its files show whose turn it is.")
    ] = None
    site: SiteOption = ""
    own: Annotated[Path | None, Parameter(help="Without --folder: this site's newest posterior.")] = None
    others: Annotated[
        list[Path] | None,
        Parameter(help="Without --folder: the newest posteriors of all other sites.", consume_multiple=True),
    ] = None
    output: Annotated[
        Path | None,
        output_option("Where to write this site's next round. Default: into the folder, as SITE.ROUND.posterior."),
    ] = None

    def step(self, data: list[Path], reading: Reading, components: Slots) -> RoundToMake | Waiting | Joining:
        """The next step, according to the files that are there."""
        if self.folder is not None:
            if self.own is not None or self.others:
                raise WrongArgument("--folder finds the files itself: leave out --own and --others.")
            return next_step(self.folder, self.site, data, self.output, reading, components)
        if self.own is None or self.others is None or self.output is None:
            raise WrongArgument("Give --folder; or --own, --others and --output.")
        if self.site:
            raise WrongArgument("--site goes with --folder; without it, --own says which site this is.")
        check_output(self.output, *data, self.own, *self.others)
        return RoundToMake(read_sent([self.own, *self.others]), self.own, self.output).with_components(components)


BY_NAME = Where()


@Parameter(name="*")
@dataclass(frozen=True)
class Secure:
    """Options of secure sums."""

    secure: Annotated[
        bool, Parameter(help="Take part in the secure sums of --folder, as `decbayes secure round` does.")
    ] = False
    key: Annotated[Path | None, Parameter(help="With --secure: this site's key.")] = None
    agreed: Annotated[str, Parameter(help="With --secure: the fingerprint that all members compared.")] = ""
    approve: Annotated[
        str, Parameter(help="With --secure: the name of the person who approves that the masked numbers leave.")
    ] = ""

    def check(self, where: Where, others: bool) -> None:
        """Refuse options that do not go with secure sums, and secure sums without their options."""
        if self.secure and (where.folder is None or self.key is None or where != Where(where.folder) or others):
            raise WrongArgument(
                "--secure goes with --folder, --key, --agreed and --approve: the agreement sets the rest."
            )
        if not self.secure and self != IN_THE_CLEAR:
            raise WrongArgument("--key, --agreed and --approve go with --secure.")
        if not self.secure and where.folder is not None and (where.folder / AGREEMENT).is_file():
            raise WrongArgument(f"{where.folder} holds secure sums: give --secure --key KEY to take part in them.")


IN_THE_CLEAR = Secure()


def refine(
    data: Annotated[list[Path], Parameter(help="All of this site's data, as for `decbayes fit`.")],
    /,
    *,
    where: Where = BY_NAME,
    components: Annotated[
        str | None,
        Parameter(
            help="In the first round: the number of components, or 'auto' to find it together: each site first fits "
            "more components than needed, and after three rounds unneeded slots are joined. For "
            "topics and states, 'auto' estimates it from the first posteriors. Give the same at all sites."
        ),
    ] = None,
    refit: Refit = AS_USUAL,
    device: Device = None,
    as_json: Annotated[bool, json_option("round", "file", "round", "sites", "shift", "waiting")] = False,
    private: Annotated[
        bool, Parameter(help="Make the next private release from all releases so far; see `fit --private`.")
    ] = False,
    person: Annotated[
        str,
        Parameter(
            help="With --private or --secure: the column that identifies persons. Otherwise the one that this site "
            "named in its first fit applies."
        ),
    ] = "",
    accounts: Accounts = USUAL_ACCOUNTS,
    secure: Secure = IN_THE_CLEAR,
    reading: Reading = AS_THEY_ARE,
) -> None:
    """Refit this site's data with the contributions of all other sites as the prior, and write its new contribution."""
    secure.check(where, bool(private or components))
    if secure.secure:
        from decbayes.cli.commands.sharing.secure import SiteRecords, take_part

        assert where.folder is not None
        assert secure.key is not None
        take_part(
            where.folder, data, key=secure.key, agreed=secure.agreed,
            records=SiteRecords(secure.approve, ledger=accounts.ledger), data_set=accounts.data_set, person=person,
            refit=refit, as_json=as_json, reading=reading,
        )  # fmt: skip
        return
    if private:
        from decbayes.cli.commands.everyday._private_releases import refine_privately

        files = where.own, where.others or [], where.folder, where.output
        refine_privately(data, where.site, *files, accounts, person, reading, as_json)
        return
    if accounts != USUAL_ACCOUNTS or person:
        raise WrongArgument(
            "--ledger, --data-set and --person go with --private and --secure: leave them out. The person column that "
            "this site named in its first fit applies."
        )
    check_hold_back(refit.hold_back)
    work_on(device)
    requested = component_number(components)
    step = where.step(data, reading, requested)
    if isinstance(step, Waiting):
        print_waiting(step, as_json)
        return
    if isinstance(step, Joining):
        step.fit(data, reading, refit)
        print_first(step, as_json)
        return
    before = Round.of(step.sent, step.components(requested), in_step=where.folder is None, auto=step.auto)
    refined = make_round(step, before, data, reading, refit)
    (print_wide if step.wide else print_round)(step.output, refined, before, as_json)


def make_round(step: RoundToMake, before: Round, data: list[Path], reading: Reading, refit: Refit) -> Sent:
    """Refit under the rules of this site's file, and write the draft of its next round."""
    model, report = before.model, ReadingReport()
    observations = model.read(model_input(model, data), report=report, **reading.options(type(model)))
    manifest = manifest_of(step.site_file)
    rules, person = (rules_in_force(None), "") if manifest is None else (manifest.rules, manifest.person)
    persons = persons_of(model, data, person, **reading.options(type(model)))
    safe = safe_to_fit(model, observations, rules, agreed=True, share=refit.hold_back, persons=persons, report=report)
    observations, public = safe.data, public_documents(step.site_file, model)
    check_site_data(before, observations, step.site_file)
    evened = before if rules is None else before.evened(observations, rules.least_documents, safe.persons)
    ascent, rng = refit.ascent(model), np.random.default_rng(refit.seed)
    with fit_progress(1 + ascent.restarts if step.wide else 1, ascent.passes) as bar:
        if step.wide:
            refined = evened.fitted_wide(observations, step.wide, rng=rng, ascent=ascent, progress=bar)
        else:
            refined = evened.refined(observations, rng=rng, ascent=ascent, damping=refit.damping, progress=bar)
    others: dict[str, Any] = {} if step.wide else {"belief": evened.after(refined), "others": before.others}
    draft = save_draft(
        refined.posterior,
        step.output,
        observations,
        rules,
        site="" if manifest is None else manifest.site,
        changed=safe.changed,
        left_out=report.left_out,
        remarks=report.remarks,
        persons=safe.persons,
        person=person,
        note=refined.note() | public_note(public),
        frequency=public,
        **others,
    )
    return replace(refined, posterior=draft)


def check_site_data(before: Round, data: Any, path: Path) -> None:
    """Refuse data that do not match this site's newest posterior, by sums that do not depend on the fit."""
    newest = next(iter(before.sent.values()))
    model = model_for(newest.posterior.structure)
    restricted = before.model.restricted(data, newest.posterior.structure)
    check_data_behind(model, newest.posterior, restricted, made_in(newest.note()), path)


def print_round(output: Path, refined: Sent, before: Round, as_json: bool) -> None:
    """Print how far a round moves the merge, and whether sites have left."""
    distance = shift(before.merged, before.after(refined))
    if before.missing:
        whose = "its" if before.missing == 1 else "their"
        messages().print(f"{plural(before.missing, 'site')} of the last round left: {whose} data no longer count.")
    messages().print(
        f"{output}: round {refined.round} of {len(refined.sites)} sites; it moves the merge by {digits(distance, 2)} "
        "standard deviations per parameter"
    )
    if as_json:
        print_json(round_values(output, refined.round, len(refined.sites), distance))


def print_wide(output: Path, refined: Sent, before: Round, as_json: bool) -> None:
    messages().print(
        f"{output}: {plural(slots_of(refined.posterior), 'component')}, more than needed. When all sites have sent "
        f"theirs, rounds begin; after {ROUNDS_BEFORE}, slots that the data do not need are joined."
    )
    if as_json:
        print_json(round_values(output, 0, len(before.sent), None))


def print_waiting(step: Waiting, as_json: bool) -> None:
    """Print which sites this one waits for, and what to do if they do not return."""
    turn = step.turn
    if turn.round == 1:
        messages().print(plain(f"{turn.site} has sent its first posterior. Waiting for {', '.join(turn.waiting)}."))
    else:
        messages().print(
            plain(
                f"{turn.site} has sent round {turn.round - 1}. Waiting for {', '.join(turn.waiting)}. If a site has "
                "left, move its files out of the folder: the others continue without it."
            )
        )
    if as_json:
        print_json(round_values(None, turn.round - 1, step.sites, None, turn.waiting))


def print_first(step: Joining, as_json: bool) -> None:
    messages().print(plain(f"{step.site} joins {plural(step.sites, 'site')}. The same command makes its next round."))
    if as_json:
        print_json(round_values(step.output, 0, step.sites + 1, None))


def round_values(
    file: Path | None, number: int, sites: int, distance: float | None, waiting: Any = ()
) -> Mapping[str, Any]:
    return {"file": file, "round": number, "sites": sites, "shift": distance, "waiting": list(waiting)}
