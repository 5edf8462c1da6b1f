"""Find the next step in a shared folder: whose turn it is, and which site the data belong to."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from decbayes.base.arguments import given
from decbayes.cli.shared.common_options import Reading, Refit, model_input
from decbayes.cli.shared.outputs import check_output
from decbayes.cli.shared.posterior_files import check_alike
from decbayes.cli.shared.running import WrongArgument
from decbayes.errors import NothingToMerge
from decbayes.merging.base.problem import Number
from decbayes.models.core.registry import model_for
from decbayes.updates.exchange import SUFFIX, Exchange, Turn
from decbayes.updates.rounds import Sent, joinable, slots_of


@dataclass(frozen=True)
class RoundToMake:
    """A round to make: its input files, this site's first, and where to write it.

    `auto`: the sites find the number of slots together. `wide` is the number of components that this site then fits
    before the first round; 0 if it need not.
    """

    sent: Mapping[str, Sent]
    site_file: Path
    output: Path
    slots: int | None = None
    auto: bool = False
    wide: int = 0

    def with_components(self, components: Number) -> "RoundToMake":
        """This step if the site asks for a number of components, or for 'auto'."""
        auto = self.auto or any(sent.auto for sent in self.sent.values())
        latest = max(self.sent.values(), key=lambda sent: sent.round)
        if latest.round and components not in (None, "auto" if auto else slots_of(latest.posterior)):
            raise WrongArgument("--components is for the first round; later ones have the number that was chosen then.")
        if auto and components not in (None, "auto"):
            raise WrongArgument("Other sites look for the number together, with 'auto': leave out --components.")
        auto = auto or (components == "auto" and joinable(next(iter(self.sent.values())).posterior))
        if not auto or latest.round:
            return replace(self, auto=auto)
        from decbayes.updates.joining import wide_start  # loads the solvers

        wide = wide_start(self.sent) if self.slots is None else 0
        narrow = [name for name, sent in self.sent.items() if not sent.auto]
        if not wide and self.slots is None and len(narrow) < len(self.sent) and narrow:
            raise WrongArgument(
                f"{narrow[0]} has not been fitted with more components yet: run the same command there."
            )
        return replace(self, auto=auto, wide=wide)

    def components(self, requested: Number) -> Number:
        """The number of slots: what other sites chose, or what was asked for."""
        if self.auto:
            return self.slots or "largest"
        if self.slots is not None and requested not in (None, self.slots):
            raise WrongArgument(f"Other sites have begun with {self.slots} components: leave out --components.")
        return self.slots if self.slots is not None else requested or "largest"


@dataclass(frozen=True)
class Waiting:
    """Nothing to do until other sites have sent their files."""

    turn: Turn
    sites: int


@dataclass(frozen=True)
class Joining:
    """The first posterior of a new site, with the model that the others use."""

    site: str
    like: Path
    output: Path
    sites: int

    def fit(self, data: Sequence[Path], reading: Reading, refit: Refit) -> None:
        from decbayes.cli.commands.everyday.fit import fit
        from decbayes.files import load

        kind = type(model_for(load(self.like).structure))
        if not kind.many_files and len(data) != 1:
            raise WrongArgument(f"This model reads one file, not {len(data)}.")
        files = list(data) if kind.many_files else data[0]
        options = {"seed": refit.seed, "hold_back": refit.hold_back, "site": self.site, **given(passes=refit.passes)}
        fit(kind, files, output=self.output, like=self.like, **options, **reading.options(kind))


def next_step(
    folder: Path, site: str, data: Sequence[Path], output: Path | None, reading: Reading, components: Number
) -> RoundToMake | Waiting | Joining:
    if not folder.is_dir():
        raise WrongArgument(f"--folder {folder} is not a folder.")
    exchange = Exchange.read(folder)
    if not exchange.sites:
        raise NothingToMerge(
            f"{folder} holds no posterior yet. The first site makes one: decbayes fit MODEL DATA -o "
            f"{folder / f'NAME{SUFFIX}'}"
        )
    check_alike([folder / name for name in exchange.files], [*exchange.files.values()])
    name = site or identify_site(exchange, data, reading)
    if name not in exchange.sites:
        first = folder / next(iter(exchange.files))
        return Joining(name, first, output or folder / f"{name}{SUFFIX}", len(exchange.sites))
    turn = exchange.turn(name)
    if not turn.due:
        return Waiting(turn, len(exchange.sites))
    files = [folder / name for name in turn.inputs]
    sent = {str(path): turn.inputs[path.name] for path in files}
    step = RoundToMake(sent, files[0], output or folder / turn.file, turn.slots, turn.auto).with_components(components)
    if step.wide and output is None:
        step = replace(step, output=folder / replace(turn, round=0).file)
    check_output(step.output, *data, *files)
    return step


def identify_site(exchange: Exchange, data: Sequence[Path], reading: Reading) -> str:
    """The site with the name of the data file, or else the only one with as much data."""
    name = data[0].name.split(".")[0]
    if name in exchange.sites:
        return name
    model = model_for(next(iter(exchange.newest.values())).posterior.structure)
    observations = model.read(model_input(model, data), **reading.options(type(model)))
    amounts = float(np.sum(model.units(observations))), float(model.count(observations))
    tallies = {site: model.tally(sent.posterior) for site, sent in exchange.newest.items()}
    alike = [site for site, tally in tallies.items() if tally is not None and tally.contradiction(*amounts) is None]
    if len(alike) == 1:
        return alike[0]
    raise WrongArgument(
        f"Which site is this? Give --site NAME: {', '.join(exchange.sites)}; or a new name, and the site joins."
    )
