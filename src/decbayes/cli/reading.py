"""The options that say where in files observations are, for commands that take data and a posterior."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, get_args

from cyclopts import Parameter

from decbayes.cli.running import WrongArgument
from decbayes.errors import InvalidData
from decbayes.models import holdback
from decbayes.models import topic_sources as topics
from decbayes.models.model import Model


def told(hint: Any, *, negative: str | None = None) -> Parameter:
    """An option that says of itself what the model's own option says."""
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
    format: Annotated[str, told(topics.Format)] = ""
    encoding: Annotated[str, told(topics.Encoding)] = "utf-8"
    whole: Annotated[bool, told(topics.Whole, negative="")] = False
    strict: Annotated[bool, told(topics.Strict, negative="")] = False
    tokenizer: Annotated[str, told(topics.Tokenizer)] = ""

    def options(self, kind: type[Model]) -> dict[str, Any]:
        """What was said, as a model's `read` takes it; refused if it is about texts and the model is not."""
        usual, said = asdict(Reading()), asdict(self)
        given = {name: value for name, value in said.items() if value != usual[name]}
        unknown = sorted(given.keys() - kind.sources)
        if unknown:
            raise InvalidData(f"--{unknown[0]} is about texts, and {kind.__name__} has none.")
        return given


def the_data(model: Model, paths: list[Path]) -> Any:
    """What a model reads: one file, or several where it can."""
    if model.many_files:
        return paths
    if len(paths) != 1:
        raise InvalidData(f"{type(model).__name__} reads one file, not {len(paths)}.")
    return paths[0]


def check_hold_back(share: float) -> None:
    if not 0.0 <= share <= MOST_HELD_BACK:
        raise WrongArgument(f"--hold-back must be from 0 to {MOST_HELD_BACK:g}, not {share:g}.")


def without_held_back(model: Model, observations: Any, share: float) -> Any:
    return holdback.hold_back(model, observations, share=share)[0] if share else observations
