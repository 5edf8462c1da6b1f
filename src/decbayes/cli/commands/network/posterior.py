"""`decbayes posterior`: get a group's merged posterior from an agent or from its store."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import quote

from cyclopts import Parameter

from decbayes.base.extras import require_extra
from decbayes.cli.commands.network._link import LOOK, ON_THIS_MACHINE, WELL, Link, load_charter, print_notes
from decbayes.cli.shared.outputs import check_output, output_option
from decbayes.cli.shared.standard_streams import json_option, print_json
from decbayes.cli.shared.terminal import messages, plain, plural
from decbayes.errors import TransportFailed
from decbayes.files import load, save
from decbayes.posterior import Posterior

UNHEARD, IN_PRIOR = "not heard of", "in the prior"
KEYS = ("observations", "counted", "missing", "not_counted", "flags", "same_data", "set")
DAMAGE = "the rest is counted. A running agent receives them again; or use another agent's store"
NOTES = ("intervals", "stale_notes", "overlaps", "scores", "gain", "held_back", "per")

if TYPE_CHECKING:
    from decbayes.network import Charter


def posterior(
    charter: Annotated[Path, Parameter(help="The group's charter.")],
    /,
    *,
    agent: Annotated[str | None, Parameter(help="HOST:PORT of a running agent.")] = None,
    store: Annotated[Path | None, Parameter(help="The store of an agent, running or not.")] = None,
    output: Annotated[Path | None, output_option("Write the posterior to this file.")] = None,
    parts: Annotated[
        Path | None, Parameter(help="With --store: write each member's posterior into this folder, for `merge`.")
    ] = None,
    since: Annotated[
        Path | None, Parameter(help="An earlier posterior: its components keep their ids, numbers and names.")
    ] = None,
    as_json: Annotated[bool, json_option("posterior", *KEYS, "and where members publish notes", *NOTES)] = False,
    link: Link = ON_THIS_MACHINE,
) -> int:
    """Print and save the merged posterior of all contributions that an agent has received.

    Exits with 3 if no member counts yet, or if the store is damaged, so that contributions are missing.
    """
    require_extra("net", task="decbayes posterior")
    from decbayes.network.runtime.store import stored, stored_parts

    check_output(output, charter, store)
    earlier = None if since is None else load(since)
    agreed = load_charter(charter)
    if (agent is None) == (store is None):
        raise TransportFailed("Give either --agent HOST:PORT (a running agent) or --store FILE.")
    if parts is not None and store is None:
        raise TransportFailed("A running agent sends the merge only. --parts needs --store FILE.")
    if store is not None:
        answer = stored(store, agreed)
    else:
        with link.inquiry(agreed, str(agent)) as inquiry:
            answer = inquiry.posterior()
    if output is not None:
        save(answer.posterior if earlier is None else with_earlier_ids(earlier, answer.posterior), output)
    if store is not None and parts is not None:
        save_parts(stored_parts(store, agreed), parts)
    summary = summary_of(answer.description, agreed)
    further_keys = (*NOTES, "groups", "damaged")
    if as_json:
        print_json(summary | {name: answer.description[name] for name in further_keys if name in answer.description})
    else:
        print_summary(summary, answer.description, agreed)
    if not summary["observations"]:
        messages().print("No contribution counts yet: this is the prior. Ask again when the agent has received some.")
        return LOOK
    return LOOK if store is not None and "damaged" in answer.description else WELL


def with_earlier_ids(earlier: Posterior, merged: Posterior) -> Posterior:
    """The merge with the ids, numbers and names of an earlier one, even if words have been added since."""
    from decbayes.merging import follow
    from decbayes.merging.base.vocabularies import with_all_words

    return follow(*with_all_words((earlier, merged))).posterior


def save_parts(contributions: dict[str, Posterior], folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, contribution in contributions.items():
        # Any name is allowed for a member, but not for a file.
        save(contribution, folder / f"{quote(name, safe=' ')}.posterior")


def summary_of(description: dict[str, Any], charter: "Charter") -> dict[str, Any]:
    """Which members count, which do not and why, and what stands out."""
    # Members may have joined since the charter was written, so their names are untrusted.
    members = description.get("members", {})
    names = [*charter.members, *sorted(str(name) for name in members if name not in charter.members)]
    counted = [name for name in names if name in description["counted"]]
    states = {name: members.get(name, {}).get("state", UNHEARD) for name in names if name not in counted}
    unheard = [name for name, state in states.items() if state == UNHEARD]
    values = (
        description["observations"],
        counted,
        description.get("sums", {}).get("missing", unheard),
        {name: state for name, state in states.items() if state != UNHEARD},
        {name: flags for name in counted if (flags := list(members.get(name, {}).get("flags", ())))},
        list(description.get("same_data", ())),
        description["set"],
    )
    return dict(zip(KEYS, values, strict=True))


def print_summary(summary: dict[str, Any], description: dict[str, Any], charter: "Charter") -> None:
    from decbayes.network.runtime.reports.description import sum_lines

    private = "privacy" in description.get("sums", {})
    part = f", of which {description['counting']:,} count" if "counting" in description else ""
    print(f"observations  {'not released' if private else format(summary['observations'], ',') + part}")
    not_counted = dict(summary["not_counted"])
    prior = [name for name, state in summary["not_counted"].items() if state == IN_PRIOR and not_counted.pop(name)]
    print(
        f"counted       {plain(', '.join(summary['counted'])) or ('none since this epoch began' if prior else 'none')}"
    )
    if prior:
        print(f"in the prior  {plain(', '.join(prior))}")
    print(f"missing       {plain(', '.join(summary['missing'])) or 'none'}")
    if not_counted:
        print(f"not counted   {plain(', '.join(f'{name} ({state})' for name, state in not_counted.items()))}")
    for name, flags in summary["flags"].items():
        for flag in flags:
            print(f"flag          {plain(name)} {plain(str(flag))}")
    for names in summary["same_data"]:
        print(f"same data     {plain(' and '.join(map(str, names)))} hold the same data set; it counts for each")
    for text in description.get("groups", {}).get("warnings", ()):
        print(f"group         {plain(str(text))}")
    if damage := description.get("damaged"):
        whose = f" of {', '.join(damage['members'])}" if damage["members"] else ""
        print(f"damaged       {plural(damage['entries'], 'entry', 'entries')}{plain(whose)} cannot be read; {DAMAGE}")
    if "sums" in description:
        print(f"sums          {plain(sum_lines(description['sums'])[0])}")
    print_notes(description, charter, width=14)
    print(f"set           {plain(summary['set'])[:16]}")
