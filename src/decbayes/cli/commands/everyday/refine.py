"""`decbayes refine`: one site's next round, on what the others sent in the last."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import numpy as np
from cyclopts import Parameter
from cyclopts.types import NonNegativeInt, PositiveInt
from cyclopts.validators import Number

from decbayes.cli.shared.common_options import (
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
    Told,
    manifest_of,
    persons_of,
    public_documents,
    public_note,
    rules_named,
    safe_to_fit,
    save_draft,
)
from decbayes.cli.shared.standard_streams import json_option, print_json
from decbayes.cli.shared.terminal import fitting, messages
from decbayes.updates.rounds import Round, Sent
from decbayes.updates.update import shift

AS_THEY_ARE = Reading()


def refine(
    data: Annotated[list[Path], Parameter(help="All of this site's data, as `decbayes fit` reads them.", negative="")],
    /,
    *,
    own: Annotated[Path, Parameter(help="This site's newest posterior: its fit, or its last round.")],
    others: Annotated[
        list[Path], Parameter(help="The newest posteriors of all other sites.", consume_multiple=True, negative="")
    ],
    output: Annotated[Path, Parameter(name=["--output", "-o"], help="Where to write this site's next round.")],
    components: Annotated[
        str | None, Parameter(help="In the first round: number of components, or 'auto'; the same at all sites.")
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
    as_json: Annotated[bool, json_option("round", "file", "round", "sites", "shift")] = False,
    reading: Reading = AS_THEY_ARE,
) -> None:
    """Refit this site's data with what all other sites have sent as the prior, and write what it contributes now."""
    check_output(output, *data, own, *others)
    check_hold_back(hold_back)
    work_on(device)
    sent = read_sent([own, *others])
    if components is not None and sent[str(own)].round:
        raise WrongArgument("--components is for the first round; later ones have the number that was chosen then.")
    before = Round.of(sent, number_of(components))
    model = before.model
    told = Told()
    observations = model.read(the_data(model, data), report=told, **reading.options(type(model)))
    made = manifest_of(own)
    rules, person = (rules_named(None), "") if made is None else (made.rules, made.person)
    persons = persons_of(model, data, person, **reading.options(type(model)))
    safe = safe_to_fit(model, observations, rules, agreed=True, share=hold_back, persons=persons, told=told)
    observations, public = safe.data, public_documents(own, model)
    alike = before if rules is None else before.evened(observations, rules.least_documents, safe.persons)
    ascent = model.ascent if passes is None else replace(model.ascent, passes=passes)
    with fitting(1, ascent.passes) as bar:
        rng = np.random.default_rng(seed)
        refined = alike.refined(observations, rng=rng, ascent=ascent, damping=damping, progress=bar)
    kept = save_draft(
        refined.posterior,
        output,
        observations,
        rules,
        site="" if made is None else made.site,
        changed=safe.changed,
        left_out=told.left_out,
        persons=safe.persons,
        person=person,
        note=refined.note() | public_note(public),
        frequency=public,
        belief=alike.after(refined),
        others=before.others,
    )
    refined = replace(refined, posterior=kept)
    print_round(output, refined, shift(before.merged, before.after(refined)), as_json)


def print_round(output: Path, refined: Sent, moved: float, as_json: bool) -> None:
    """One line on a round: how far it moves the merge."""
    messages().print(
        f"{output}: round {refined.round} of {len(refined.sites)} sites; it moves the merge by {moved:.2g} standard "
        "deviations per parameter"
    )
    if as_json:
        print_json({"file": output, "round": refined.round, "sites": len(refined.sites), "shift": moved})
