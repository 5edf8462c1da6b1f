"""Options of private releases, which several commands share."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter
from cyclopts.types import PositiveInt
from cyclopts.validators import Number

from decbayes.cli.shared.running import WrongArgument

if TYPE_CHECKING:
    from decbayes.privacy import Privacy

LedgerPath = Annotated[
    Path | None,
    Parameter(
        help="With --private: this site's ledger; default: releases.ledger beside the output.", show_default=False
    ),
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
