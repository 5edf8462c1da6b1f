"""The protocol in plain words, and the checklist: pages for people, in Markdown that is readable as text."""

from collections.abc import Iterator

from decbayes.disclosure.previewing import in_words
from decbayes.study.agreed_list import kind_of
from decbayes.study.folder import CHECKLIST, Study
from decbayes.study.protocol import Protocol
from decbayes.study.whose_turn import Step, steps


def page(study: Study) -> str:
    """The study's question and method, for people who do not program."""
    protocol = study.protocol
    parts = [
        f"# {protocol.name}",
        f"**Question.** {protocol.question}" if protocol.question else "",
        f"**Authors.** {', '.join(protocol.authors)}" if protocol.authors else "",
        f"**Written on** {protocol.created}. **Protocol** {protocol.fingerprint}." if protocol.created else "",
        "## What is done",
        method_section(study),
        "## Sites",
        "\n".join(site_lines(protocol)),
        "## What leaves a site",
        disclosure_section(protocol),
        "## Analysis plan",
        plan_section(protocol),
        "## Who does what",
        f"[{CHECKLIST}]({CHECKLIST}) lists all steps. `decbayes study status` says whose turn it is.",
    ]
    return "\n\n".join(filter(None, parts)) + "\n"


def method_section(study: Study) -> str:
    protocol, kind = study.protocol, kind_of(study.protocol)
    about = (kind.about or kind.__name__).rstrip(".")
    settings = "".join(f"\n- {name.replace('_', ' ')}: `{value}`" for name, value in protocol.settings.items())
    first = (
        f"Each site fits the same model to its own data: {about[0].lower()}{about[1:]} "
        f"(`decbayes fit {protocol.model}`). Data stay where they are. Each site hands over one small file, which says "
        f"what its data have taught the model. {protocol.merges} merges these files into the result of all data."
    )
    agreed = (
        f" Before that, sites agree on {study.agreed_list.kind}: each lists its own, and all lists are joined."
        if study.agreed_list
        else ""
    )
    rounds = (
        f" In {protocol.rounds} further round{'s' * (protocol.rounds > 1)}, each site fits once more, given what all "
        "others have found."
        if protocol.rounds
        else ""
    )
    return f"{first}{agreed}{rounds}\n{settings}"


def site_lines(protocol: Protocol) -> Iterator[str]:
    for site, approver in protocol.sites.items():
        yield f"- **{site}**: {f'{approver} approves what leaves' if approver else 'decides itself who approves'}"


def disclosure_section(protocol: Protocol) -> str:
    if protocol.rules is None:
        return "There are no disclosure rules: the data are public or made up."
    person = (
        f" Persons are identified by the column `{protocol.person}`, which never leaves." if protocol.person else ""
    )
    return (
        f"Files obey disclosure rules: {in_words(protocol.rules)}.{person} A file is a draft until somebody has seen "
        "its preview and approved it by name. Only approved files are merged. Drafts, ledgers and previews stay in a "
        "private folder at the site."
    )


def plan_section(protocol: Protocol) -> str:
    shown = protocol.plan
    if not shown:
        return (
            "Not simulated yet. Once a site has listed its columns, `decbayes study plan --observations 200` "
            "tries the study on made-up data, and writes here how good its intervals would be."
        )
    lines = [f"Simulated with `decbayes study plan`: {shown.get('data_sets', '?')} data sets of each size.", ""]
    lines += [f"- {text}" for text in shown.get("advice", [])]
    return "\n".join(lines)


def checklist(study: Study) -> str:
    """All steps, as boxes to tick."""
    lines = [f"# {study.protocol.name}: who does what", ""]
    lines += [box(step) for step in steps(study)]
    lines += ["", "Every command can be run again. `decbayes study status` reads the folder and says whose turn it is."]
    return "\n".join(lines) + "\n"


def box(step: Step) -> str:
    commands = ", then ".join(f"`{command}`" for command in step.commands)
    return f"- [{'x' if step.done else ' '}] **{step.who}**: {step.what}: {commands}"
