"""`decbayes overlap`: the share of each component's data that the merge of the other sites puts into its slot."""

import json
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from decbayes.cli.shared.common_options import PosteriorColumns, model_input
from decbayes.cli.shared.match_confidence import OVERLAPS
from decbayes.cli.shared.outputs import check_output, output_option
from decbayes.cli.shared.sharing import (
    PersonOption,
    RulesOption,
    as_fitted,
    check_data_behind,
    made_in,
    manifest_of,
    persons_of,
    rules_in_force,
    safe_to_send,
    small_components,
)
from decbayes.cli.shared.standard_streams import json_option, print_json, write_text
from decbayes.cli.shared.terminal import messages, print_written
from decbayes.errors import NotDisclosed, StructureMismatch
from decbayes.files import load, load_note
from decbayes.merging import align
from decbayes.merging.base.compatibility import same_columns
from decbayes.models.core.registry import model_for


def overlap(
    data: Annotated[Path, Parameter(help="This site's data, as for `decbayes fit`.")],
    site_posterior: Annotated[Path, Parameter(help="This site's posterior.")],
    others: Annotated[list[Path], Parameter(help="The posteriors of all other sites.")],
    /,
    *,
    output: Annotated[Path, output_option("Where to write the overlaps, a small JSON file.")],
    columns: PosteriorColumns = "",
    person: PersonOption = "",
    rules: RulesOption = None,
    as_json: Annotated[bool, json_option("component", "component", "overlap")] = False,
) -> None:
    """Write one number per component: the share of its data that the other sites' merge puts into its slot."""
    from decbayes.calibration import overlap as compute_overlap

    check_output(output, data, site_posterior, *others, text=True, as_json=as_json)
    if not others:
        raise StructureMismatch("Give the posteriors of the other sites after this site's.")
    stated = load(site_posterior)
    read = same_columns([stated, *map(load, others)])
    if not read[0].structure.symmetry:
        raise StructureMismatch(f"{site_posterior} has no components, so there are no matches to check.")
    model = model_for(read[0].structure)
    observations = model.read(model_input(model, [data]), columns=columns, report=messages().print)
    fitted = as_fitted(model, observations, [data], manifest_of(site_posterior)).data
    compared = model.restricted(fitted, stated.structure)
    posterior = read[0] if compared is fitted else stated  # columns in the order of all, or words of this site
    check_data_behind(
        model_for(posterior.structure), posterior, compared, made_in(load_note(site_posterior)), site_posterior
    )
    in_force = rules_in_force(rules)
    observations = safe_to_send(model, observations, in_force, persons_of(model, [data], person, rules=in_force))
    if small_components(read[0], in_force).any():
        raise NotDisclosed(f"{site_posterior} has components of too few persons. Fit it again under the rules.")
    with messages().status("comparing"):
        shares = compute_overlap(model, align(read), 0, observations)
    content = {"format": OVERLAPS, "posterior": read[0].digest, "overlaps": [round(float(x), 4) for x in shares]}
    write_text(output, json.dumps(content))
    text = ", ".join(f"{k}: {share:.0%}" for k, share in enumerate(shares))
    print_written(output, text)
    if as_json:
        print_json(*({"component": k, "overlap": share} for k, share in enumerate(shares)))
