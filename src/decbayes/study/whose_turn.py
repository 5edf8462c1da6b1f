"""Whose turn it is: the steps of a study, which of them are done, and which can be taken now."""

from collections.abc import Iterator
from dataclasses import dataclass

from decbayes.study.folder import Study

COMMAND = "decbayes study"


@dataclass(frozen=True)
class Step:
    """Something that one person does: who, what, the commands, and whether it is done or can be done now.

    >>> from decbayes.study import Protocol, Step, Study, steps
    >>> protocol = Protocol("stay", "mean", {"north": "Dr Kim", "south": ""}, {"variance": 1.0})
    >>> [step.who for step in steps(Study.create("stay", protocol)) if step.due]
    ['north', 'south']
    """

    who: str
    what: str
    commands: tuple[str, ...]
    done: bool = False
    due: bool = False

    def __str__(self) -> str:
        return f"{self.who}: {self.what}. {' then '.join(f'`{command}`' for command in self.commands)}"


def steps(study: Study) -> list[Step]:
    """All steps of a study, in order.

    >>> from decbayes.study import Protocol, Study, steps
    >>> protocol = Protocol("stay", "mean", {"north": "Dr Kim"}, {"variance": 1.0})
    >>> [step.what for step in steps(Study.create("stay", protocol))]
    ['fit and release', 'merge and write the report']
    """
    return [*listing_steps(study), *fitting_steps(study), *round_steps(study), *merging_steps(study)]


def listing_steps(study: Study) -> Iterator[Step]:
    """Each site lists its columns or words, if sites must agree on them."""
    if study.agreed_list is None:
        return
    for name, site in study.sites.items():
        done = site.listed is not None or site.latest >= 0
        what = f"check the data and list their {study.agreed_list.kind}"
        yield Step(name, what, (f"{COMMAND} check DATA --site {name}",), done, due=not done)


def fitting_steps(study: Study) -> Iterator[Step]:
    """Each site fits and releases, once all lists are complete."""
    ready = not study.unlisted()
    for name, site in study.sites.items():
        first = f"{COMMAND} fit" if study.agreed_list else f"{COMMAND} fit DATA --site {name}"
        done = site.latest >= 0
        yield Step(name, "fit and release", (first, release(study, name)), done, due=ready and not done)


def round_steps(study: Study) -> Iterator[Step]:
    """Each site takes part in each round, once all have released the previous one."""
    for number in range(1, study.protocol.rounds + 1):
        for name, site in study.sites.items():
            done = number in site.released
            due = not done and study.round >= number - 1
            yield Step(name, f"round {number}", (f"{COMMAND} round", release(study, name)), done, due)


def merging_steps(study: Study) -> Iterator[Step]:
    """One site or person merges and writes the report, once all sites have released the last round."""
    complete = study.round >= study.protocol.rounds
    done = complete and study.reported
    what = "merge and write the report"
    yield Step(study.protocol.merges, what, (f"{COMMAND} report",), done, due=complete and not done)


def release(study: Study, site: str) -> str:
    """The command by which a site's approver releases a file."""
    return f"{COMMAND} release --approve '{study.protocol.sites[site] or 'NAME'}'"


def due(study: Study) -> list[Step]:
    """The steps that can be taken now."""
    return [step for step in steps(study) if step.due]


def turn(study: Study, me: str = "") -> str:
    """The next step in a sentence or two: the one of `me`, otherwise the one that everybody waits for."""
    open_steps = due(study)
    if not open_steps:
        return f"Everything in the protocol is done: {study.report} is the report."
    mine = [step for step in open_steps if step.who == me]
    if mine:
        return f"Next, you: {' then '.join(mine[0].commands)}"
    groups: dict[str, list[Step]] = {}
    for step in open_steps:
        groups.setdefault(step.what, []).append(step)
    what, waited = next(iter(groups.items()))
    names = ", ".join(step.who for step in waited)
    commands = " then ".join(waited[0].commands) if len(waited) == 1 else " then ".join(generic(waited[0]))
    return f"Next, {names}: {what} ({commands})."


def generic(step: Step) -> tuple[str, ...]:
    """The commands of a step as several people would type them."""
    commands = (command.replace(f"--site {step.who}", "--site NAME") for command in step.commands)
    return tuple(
        command.split(" --approve ")[0] + " --approve NAME" if " --approve " in command else command
        for command in commands
    )
