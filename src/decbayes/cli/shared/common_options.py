"""Options that several commands share: device, page, where in files observations are, what is promised to persons."""

import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args

from cyclopts import Parameter
from cyclopts.types import PositiveInt
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
    from decbayes.page import Page
    from decbayes.privacy import Privacy


Device = Annotated[DeviceName | None, Parameter(help="Where to work: cpu, cuda (a GPU), or auto.", show_default=False)]


def available(device: DeviceName) -> DeviceName:
    """What "auto" means here; where there is no GPU, a line says so."""
    with warnings.catch_warnings(record=True) as raised:
        warnings.simplefilter("always")
        gpu = device_for(device)
    for warning in raised:
        messages().print(str(warning.message))
    return "cpu" if gpu is None else "cuda"


def work_on(device: DeviceName | None) -> None:
    """Use a device for the rest of the command."""
    if device is not None:
        use_device(available(device))


Record = Annotated[Path | None, Parameter(help="Record the page into this file; `decbayes page FILE` shows it again.")]
PageOption = Annotated[
    list[str] | None,
    Parameter(
        help="Show a live page in the browser: at any free port of 127.0.0.1, at this one, or at HOST:PORT.",
        consume_multiple=(0, 1),
        negative="",
    ),
]


@contextmanager
def showing(words: list[str] | None, console: Console, record: Path | None = None) -> "Iterator[Page | None]":
    """A page, if one is asked for; says where it is."""
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


def both(first: Callable[[], None], second: Callable[[], None]) -> Callable[[], None]:
    def called() -> None:
        first()
        second()

    return called


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


def explained(hint: Any, *, negative: str | None = None) -> Parameter:
    """An option with the help of the model's own option."""
    return Parameter(help=get_args(hint)[1], negative=negative)


Columns = Annotated[
    str, Parameter(help="Columns to use, separated by commas; default: those of the posterior, or the texts in `text`.")
]

HoldBack = Annotated[float, Parameter(help="Share of the data to keep out of the fit, for `decbayes validate`.")]
# More than half of the data would judge, and less would learn.
MOST_HELD_BACK = 0.5


@Parameter(name="*")
@dataclass(frozen=True)
class Reading:
    """How files are read. All but the columns are about texts."""

    columns: Columns = ""
    format: Annotated[str, explained(texts.Format)] = ""
    encoding: Annotated[str, explained(texts.Encoding)] = "utf-8"
    whole: Annotated[bool, explained(texts.Whole, negative="")] = False
    strict: Annotated[bool, explained(texts.Strict, negative="")] = False
    tokenizer: Annotated[str, explained(texts.TokenizerName)] = ""

    def options(self, kind: type[Model]) -> dict[str, Any]:
        """The given options, for a model's `read`; refused if they are about texts and the model is not."""
        usual, values = asdict(Reading()), asdict(self)
        given = {name: value for name, value in values.items() if value != usual[name]}
        unknown = sorted(given.keys() - kind.reading_options)
        if unknown:
            raise InvalidData(f"--{unknown[0]} is about texts, and {kind.__name__} has none.")
        return given


def the_data(model: Model, paths: Sequence[Path]) -> Any:
    """The data as a model reads them: one file, or several where it can."""
    if model.many_files:
        return list(paths)
    if len(paths) != 1:
        raise InvalidData(f"{type(model).__name__} reads one file, not {len(paths)}.")
    return table_file(paths[0])


def check_hold_back(share: float) -> None:
    if not 0.0 <= share <= MOST_HELD_BACK:
        raise WrongArgument(f"--hold-back must be from 0 to {MOST_HELD_BACK:g}, not {share:g}.")


LedgerPath = Annotated[
    Path | None,
    Parameter(help="With --private: this site's ledger; default: releases.ledger beside the data.", show_default=False),
]
DataSet = Annotated[str, Parameter(help="With --private: whose privacy is spent; each name has a budget of its own.")]
RowsPerPerson = Annotated[PositiveInt, Parameter(help="With --private: the most rows that one person has.")]


@Parameter(name="*")
@dataclass(frozen=True)
class Promise:
    """What is promised to each person."""

    private: Annotated[
        bool, Parameter(negative="", help="Release with differential privacy: noise that hides each person.")
    ] = False
    epsilon: Annotated[
        float | None,
        Parameter(help="With --private: ε, such as 1.", show_default=False, validator=Number(gt=0, lte=100)),
    ] = None
    delta: Annotated[
        float,
        Parameter(help="With --private: δ, well below one over the number of persons.", validator=Number(gt=0, lt=1)),
    ] = 1e-6
    rows_per_person: RowsPerPerson = 1

    def privacy(self, sites: int = 0, colluders: int = 1) -> "Privacy":
        """The promise; with a number of sites one noise that they share."""
        from decbayes.privacy import Privacy

        if self.epsilon is None:
            raise WrongArgument("--private needs --epsilon: 1 is a strong promise, 8 a weak one.")
        shared = {"noise": "shared", "sites": sites, "colluders": colluders} if sites else {}
        try:
            return Privacy(self.epsilon, self.delta, rows_per_person=self.rows_per_person, **shared)  # type: ignore[arg-type]
        except ValueError as error:
            raise WrongArgument(str(error)) from None

    def check_used(self) -> None:
        """Refuse options that say nothing without --private."""
        if not self.private and (self.epsilon is not None or self != Promise(epsilon=self.epsilon)):
            raise WrongArgument("--epsilon, --delta and --rows-per-person go with --private.")


@Parameter(name="*")
@dataclass(frozen=True)
class Accounts:
    """Where a private release is recorded."""

    ledger: LedgerPath = None
    data_set: DataSet = "data"


NO_PROMISE, USUAL_ACCOUNTS = Promise(), Accounts()
