"""Options that several commands share: device, page, how to read files, privacy."""

import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args

from cyclopts import Parameter
from cyclopts.types import NonNegativeInt, PositiveInt
from cyclopts.validators import Number
from rich.console import Console

from decbayes.cli.shared.running import WrongArgument
from decbayes.cli.shared.standard_streams import table_file
from decbayes.cli.shared.terminal import messages
from decbayes.devices import DeviceName, device_for, use_device
from decbayes.errors import InvalidData
from decbayes.inputs import texts
from decbayes.models.core.model import Model

if TYPE_CHECKING:
    from decbayes.models.core.ascent import Ascent
    from decbayes.page import Page
    from decbayes.privacy import Privacy


Device = Annotated[DeviceName | None, Parameter(help="Where to compute: cpu, cuda (a GPU), or auto.")]


def available_device(device: DeviceName) -> DeviceName:
    """The device that "auto" means on this machine; says so if there is no GPU."""
    with warnings.catch_warnings(record=True) as raised:
        warnings.simplefilter("always")
        gpu = device_for(device)
    for warning in raised:
        messages().print(str(warning.message))
    return "cpu" if gpu is None else "cuda"


def work_on(device: DeviceName | None) -> None:
    """Use a device for the rest of the command."""
    if device is not None:
        use_device(available_device(device))


Record = Annotated[Path | None, Parameter(help="Record the page in this file; `decbayes page FILE` shows it again.")]
PageOption = Annotated[
    list[str] | None,
    Parameter(
        help="Show a live page in the browser: on a free port of 127.0.0.1, on this port, or at HOST:PORT.",
        consume_multiple=(0, 1),
    ),
]


@contextmanager
def live_page(words: list[str] | None, console: Console, record: Path | None = None) -> "Iterator[Page | None]":
    """A live page if one is wanted; prints its address."""
    from decbayes.page import Page, PageAddress

    check_record(words, record)
    if words is None:
        yield None
        return
    page = Page(PageAddress.parse(words), record)
    console.print(f"Page: {page.url}")
    try:
        yield page
    finally:
        page.close()


def check_record(words: list[str] | None, record: Path | None) -> None:
    if record is not None and words is None:
        raise WrongArgument("--record is for a page; give --page, too.")


def linger(page: "Page", console: Console, text: str) -> None:
    """Show the last state as final, on a terminal until Ctrl-C."""
    page.end(text)
    if not console.is_terminal:
        return
    console.print(f"{text} The page stays until you press Ctrl-C.")
    with suppress(KeyboardInterrupt):
        while page.alive:
            time.sleep(0.2)


def model_help(hint: Any) -> Parameter:
    """An option with the help text of the model's option."""
    return Parameter(help=get_args(hint)[1])


PosteriorColumns = Annotated[
    str, Parameter(help="Columns to use, separated by commas; default: those of the posterior.")
]
Level = Annotated[float, Parameter(help="Probability of the intervals.", validator=Number(gt=0, lt=1))]
Seed = Annotated[NonNegativeInt, Parameter(help="Random seed: the same seed gives the same result.")]
Passes = Annotated[PositiveInt | None, Parameter(help="Maximum number of passes over the data.")]
HoldBack = Annotated[float, Parameter(help="Share of the data to keep out of the fit, for `decbayes validate`.")]
# Beyond this, more data would judge than learn.
MOST_HELD_BACK = 0.5


@Parameter(name="*")
@dataclass(frozen=True)
class Reading:
    """How to read files. All options but `columns` are for texts."""

    columns: Annotated[
        str, Parameter(help="Columns to use, separated by commas; default: those of the posterior; of texts, `text`.")
    ] = ""
    format: Annotated[str, model_help(texts.Format)] = ""
    encoding: Annotated[str, model_help(texts.Encoding)] = "utf-8"
    whole: Annotated[bool, model_help(texts.Whole)] = False
    strict: Annotated[bool, model_help(texts.Strict)] = False
    tokenizer: Annotated[str, model_help(texts.TokenizerName)] = ""

    def options(self, kind: type[Model]) -> dict[str, Any]:
        """The options that were given, for a model's `read`; refuses options for texts if the model has none."""
        usual, values = asdict(Reading()), asdict(self)
        given = {name: value for name, value in values.items() if value != usual[name]}
        unknown = sorted(given.keys() - kind.reading_options)
        if unknown:
            raise InvalidData(f"--{unknown[0]} is about texts, and {kind.__name__} has none.")
        return given


def model_input(model: Model, paths: Sequence[Path]) -> Any:
    """The argument of a model's `read`: one file, or several if the model takes them."""
    if model.many_files:
        return list(paths)
    if len(paths) != 1:
        raise InvalidData(f"{type(model).__name__} reads one file, not {len(paths)}.")
    return table_file(paths[0])


AS_THEY_ARE = Reading()


@Parameter(name="*")
@dataclass(frozen=True)
class Refit:
    """How to refit a site's data in a round."""

    passes: Passes = None
    damping: Annotated[
        float, Parameter(help="Step size; below 1 if rounds oscillate.", validator=Number(gt=0, lte=1))
    ] = 1.0
    hold_back: HoldBack = 0.0
    seed: Seed = 0

    def ascent(self, model: Any) -> "Ascent":
        ascent: Ascent = model.ascent
        return ascent if self.passes is None else replace(ascent, passes=self.passes)


AS_USUAL = Refit()


def check_hold_back(share: float) -> None:
    if not 0.0 <= share <= MOST_HELD_BACK:
        raise WrongArgument(f"--hold-back must be from 0 to {MOST_HELD_BACK:g}, not {share:g}.")


@Parameter(name="*")
@dataclass(frozen=True)
class Promise:
    """The privacy that each person is promised."""

    private: Annotated[bool, Parameter(help="Release with differential privacy: noise that hides each person.")] = False
    epsilon: Annotated[
        float | None, Parameter(help="With --private: ε, such as 1.", validator=Number(gt=0, lte=100))
    ] = None
    delta: Annotated[
        float,
        Parameter(help="With --private: δ, well below one over the number of persons.", validator=Number(gt=0, lt=1)),
    ] = 1e-6
    rows_per_person: Annotated[
        PositiveInt, Parameter(help="With --private: the largest number of rows of one person.")
    ] = 1

    def privacy(self, sites: int = 0, colluders: int = 1) -> "Privacy":
        """The promise; with a number of sites, they share the noise."""
        from decbayes.privacy import Privacy

        if self.epsilon is None:
            raise WrongArgument("--private needs --epsilon: 1 is a strong promise, 8 a weak one.")
        shared = {"noise": "shared", "sites": sites, "colluders": colluders} if sites else {}
        try:
            return Privacy(self.epsilon, self.delta, rows_per_person=self.rows_per_person, **shared)  # type: ignore[arg-type]
        except ValueError as error:
            raise WrongArgument(str(error)) from None

    def check_used(self) -> None:
        """Refuse options that have no effect without --private."""
        if not self.private and (self.epsilon is not None or self != Promise(epsilon=self.epsilon)):
            raise WrongArgument("--epsilon, --delta and --rows-per-person go with --private.")


@Parameter(name="*")
@dataclass(frozen=True)
class Accounts:
    """The account of a private release."""

    ledger: Annotated[
        Path | None, Parameter(help="With --private: this site's ledger; default: releases.ledger beside the data.")
    ] = None
    data_set: Annotated[str, Parameter(help="With --private: the data set whose privacy budget is spent.")] = "data"


NO_PROMISE, USUAL_ACCOUNTS = Promise(), Accounts()
