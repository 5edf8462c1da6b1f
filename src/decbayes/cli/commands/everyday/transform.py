"""`decbayes transform`: what a posterior says about each of many observations."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from cyclopts import Parameter
from cyclopts.types import PositiveInt

from decbayes.cli.shared.common_options import Device, Reading, the_data, work_on
from decbayes.cli.shared.outputs import check_output, check_rows, part_of, writing
from decbayes.cli.shared.standard_streams import STANDARD_OUTPUT, json_option, print_json
from decbayes.cli.shared.terminal import messages, print_written, progress_bar
from decbayes.cli.shared.unfinished import named
from decbayes.errors import InvalidData
from decbayes.files import load
from decbayes.inputs.texts import STANDARD_INPUT
from decbayes.models.core.model import Model
from decbayes.models.core.registry import model_for
from decbayes.models.core.transforms import Block
from decbayes.models.core.transforms import transform as blocks_of
from decbayes.models.topics.sources import OfTexts
from decbayes.posterior import Posterior
from decbayes.views import view_of

AS_THEY_ARE = Reading()


def transform(
    sources: Annotated[
        list[Path], Parameter(name="DATA MODEL", help="The data, as `decbayes fit` reads them; then a posterior file.")
    ],
    /,
    *,
    output: Annotated[
        Path, Parameter(name=["--output", "-o"], help="Where to write: .csv, .csv.gz or .parquet; - prints CSV.")
    ],
    digits: Annotated[
        PositiveInt,
        Parameter(help="Decimal places of shares in .csv files; other numbers get four more significant digits."),
    ] = 4,
    ids: Annotated[
        str, Parameter(help="A column of the table, or a key of JSON lines, to carry along: the documents' ids.")
    ] = "",
    device: Device = None,
    as_json: Annotated[bool, json_option("file", "file", "rows", "unknown")] = False,
    reading: Reading = AS_THEY_ARE,
) -> None:
    """Write one row per observation: where it stands, its largest component, and the shares of all."""
    *data, path = sources
    if not data:
        raise InvalidData("Name the data, and after them the posterior file.")
    check_output(output, *sources, text=True, as_json=as_json)
    check_rows(output)
    work_on(device)
    posterior = load(path)
    model = model_for(posterior.structure)
    options = reading.options(type(model))
    files = the_data(model, data)
    known = ids_of(model, files, ids, options)
    left = Written.of(
        output, command := named(type(model), data, {**options, "of": posterior.digest, "digits": digits, "ids": ids})
    )
    if left.blocks:
        messages().print(f"Continuing after {left.rows:,} rows, where {output} was interrupted.")
    done = Transforming(output, command, left, resumable=not {STANDARD_INPUT, STANDARD_OUTPUT} & {output, *data})
    blocks = blocks_of(posterior, files, skip=left.blocks, report=messages().print, **options)
    nothing = f"{', '.join(map(str, data))} holds no observations."
    done.write(blocks, digits, names_of(posterior), known, nothing=nothing)
    print_written(output, f"{done.reached.rows:,} rows, one per observation: for this site, not for others")
    if done.reached.unknown:
        messages().print(
            f"{done.reached.unknown:,} of them hold nothing that the model knows; their numbers are the prior's."
        )
    if as_json:
        print_json({"file": output, "rows": done.reached.rows, "unknown": done.reached.unknown})


@dataclass(frozen=True)
class Written:
    """How much of a command's output is written: blocks, rows, and what `Rows.size` says about them."""

    blocks: int = 0
    rows: int = 0
    unknown: int = 0
    size: int = 0

    @classmethod
    def of(cls, output: Path, command: str) -> "Written":
        """What an interrupted run of the same command has left."""
        try:
            note = json.loads(note_of(output).read_text(encoding="utf-8"))
            unfinished = note.pop("command") == command and part_of(output).is_file()
            return cls(**{name: int(value) for name, value in note.items()}) if unfinished else cls()
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return cls()

    def after(self, block: Block, size: int) -> "Written":
        unknown = self.unknown + int(block.unknown.sum())
        return Written(self.blocks + 1, self.rows + len(block.values), unknown, size)


def note_of(output: Path) -> Path:
    return output.with_name(f"{output.name}.part.json")


class Transforming:
    """Blocks on their way into a file, and how far they are."""

    def __init__(self, output: Path, command: str, reached: Written, *, resumable: bool) -> None:
        self._output, self._command, self._resumable = output, command, resumable
        self.reached = reached

    def write(
        self, blocks: Iterable[Block], digits: int, names: Sequence[str], ids: Mapping[str, str] | None, *, nothing: str
    ) -> None:
        try:
            with (
                writing(self._output, digits, begun=self.reached.size, keep=self._resumable) as rows,
                progress_bar() as bar,
            ):
                task = bar.add_task("reading", total=None)
                for block in blocks:
                    rows.write(first_columns(block, names, ids), block.names, block.values)
                    self.reached = self.reached.after(block, rows.size)
                    bar.update(task, description=f"{self.reached.rows:,} written")
                if not self.reached.rows:
                    raise InvalidData(nothing)
        except KeyboardInterrupt:
            self._leave_a_note()
            raise
        note_of(self._output).unlink(missing_ok=True)

    def _leave_a_note(self) -> None:
        if not (self._resumable and self.reached.blocks):
            part_of(self._output).unlink(missing_ok=True)
            return
        note_of(self._output).write_text(json.dumps({"command": self._command, **asdict(self.reached)}))
        messages().print(
            f"Interrupted after {self.reached.rows:,} rows, which are kept. The same command continues from there."
        )


def ids_of(model: Model, files: Any, column: str, options: Mapping[str, Any]) -> dict[str, str] | None:
    """The id of each document, by where it stands; None if it is not asked for."""
    if not column:
        return None
    if not isinstance(model, OfTexts):
        raise InvalidData("--ids are those of documents; rows of other data are numbered.")
    return model.ids(files, column, **{name: value for name, value in options.items() if name != "tokenizer"})


def names_of(posterior: Posterior) -> Sequence[str]:
    """The names of components, where they have any."""
    names = view_of(posterior.structure).names(posterior) if posterior.structure.symmetry else ()
    return names if any(names) else ()


def first_columns(block: Block, names: Sequence[str] = (), ids: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Where an observation stands, its id, its largest component and its name, and how many of its words are known."""
    columns: dict[str, Any] = {"row" if block.known is None else "document": block.places}
    if ids is not None:
        columns["id"] = [ids.get(place, "") for place in block.places]
    if block.adds_up:
        best = np.argmax(block.values, axis=1).tolist()
        unknown = block.unknown.tolist()
        columns[block.names[0].rsplit("_", 1)[0]] = [None if no else k for k, no in zip(best, unknown, strict=True)]
        if names:
            columns["name"] = ["" if no else names[k] for k, no in zip(best, unknown, strict=True)]
    if block.known is not None:
        columns["words"] = block.known.astype(np.int64).tolist()
    return columns
