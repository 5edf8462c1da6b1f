"""`decbayes transform`: write the topics, classes or states of each observation."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from cyclopts import Parameter
from cyclopts.types import PositiveInt

from decbayes.cli.shared.common_options import AS_THEY_ARE, Device, Reading, model_input, work_on
from decbayes.cli.shared.outputs import check_output, check_rows, output_option, part_of, row_writer
from decbayes.cli.shared.standard_streams import STANDARD_OUTPUT, json_option, print_json
from decbayes.cli.shared.terminal import messages, print_written, progress_bar
from decbayes.cli.shared.unfinished import command_key
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


def transform(
    sources: Annotated[
        list[Path], Parameter(name="DATA MODEL", help="The data, as for `decbayes fit`, then a posterior file.")
    ],
    /,
    *,
    output: Annotated[Path, output_option("Where to write: .csv, .csv.gz or .parquet; - prints CSV.")],
    digits: Annotated[
        PositiveInt,
        Parameter(help="Decimal places of shares in .csv files; other numbers have four more significant digits."),
    ] = 4,
    ids: Annotated[
        str,
        Parameter(help="A column of the table, or a key of JSON lines, with ids of documents to copy into the output."),
    ] = "",
    device: Device = None,
    as_json: Annotated[bool, json_option("file", "file", "rows", "unknown")] = False,
    reading: Reading = AS_THEY_ARE,
) -> None:
    """Write one row per observation: its position, its largest component, and the shares of all."""
    *data, path = sources
    if not data:
        raise InvalidData("Give the data, then the posterior file.")
    check_output(output, *sources, text=True, as_json=as_json)
    check_rows(output)
    work_on(device)
    posterior = load(path)
    model = model_for(posterior.structure)
    options = reading.options(type(model))
    files = model_input(model, data)
    document_ids = ids_of(model, files, ids, options)
    written = Written.of(
        output,
        command := command_key(type(model), data, {**options, "of": posterior.digest, "digits": digits, "ids": ids}),
    )
    if written.blocks:
        messages().print(f"Continuing after {written.rows:,} rows, where {output} was interrupted.")
    writer = BlockWriter(output, command, written, resumable=not {STANDARD_INPUT, STANDARD_OUTPUT} & {output, *data})
    blocks = blocks_of(posterior, files, skip=written.blocks, report=messages().print, **options)
    nothing = f"{', '.join(map(str, data))} holds no observations."
    writer.write(blocks, digits, names_of(posterior), document_ids, nothing=nothing)
    print_written(output, f"{writer.progress.rows:,} rows, one per observation; keep them on this site")
    if writer.progress.unknown:
        messages().print(
            f"{writer.progress.unknown:,} of them have nothing that the model knows; their numbers are the prior's."
        )
    if as_json:
        print_json({"file": output, "rows": writer.progress.rows, "unknown": writer.progress.unknown})


@dataclass(frozen=True)
class Written:
    """How much of the output is written: blocks, rows, and the writer's `size`."""

    blocks: int = 0
    rows: int = 0
    unknown: int = 0
    size: int = 0

    @classmethod
    def of(cls, output: Path, command: str) -> "Written":
        """What an interrupted run of the same command left."""
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


class BlockWriter:
    """Writes blocks to a file, and remembers how far it got."""

    def __init__(self, output: Path, command: str, progress: Written, *, resumable: bool) -> None:
        self._output, self._command, self._resumable = output, command, resumable
        self.progress = progress

    def write(
        self, blocks: Iterable[Block], digits: int, names: Sequence[str], ids: Mapping[str, str] | None, *, nothing: str
    ) -> None:
        try:
            with (
                row_writer(self._output, digits, begun=self.progress.size, keep=self._resumable) as rows,
                progress_bar() as bar,
            ):
                task = bar.add_task("reading", total=None)
                for block in blocks:
                    rows.write(first_columns(block, names, ids), block.names, block.values)
                    self.progress = self.progress.after(block, rows.size)
                    bar.update(task, description=f"{self.progress.rows:,} written")
                if not self.progress.rows:
                    raise InvalidData(nothing)
        except KeyboardInterrupt:
            self._save_progress()
            raise
        note_of(self._output).unlink(missing_ok=True)

    def _save_progress(self) -> None:
        if not (self._resumable and self.progress.blocks):
            part_of(self._output).unlink(missing_ok=True)
            return
        note_of(self._output).write_text(json.dumps({"command": self._command, **asdict(self.progress)}))
        messages().print(
            f"Interrupted after {self.progress.rows:,} rows, which are kept. The same command continues from there."
        )


def ids_of(model: Model, files: Any, column: str, options: Mapping[str, Any]) -> dict[str, str] | None:
    """The id of each document, by its position; None if not asked for."""
    if not column:
        return None
    if not isinstance(model, OfTexts):
        raise InvalidData("--ids are those of documents; rows of other data are numbered.")
    return model.ids(files, column, **{name: value for name, value in options.items() if name != "tokenizer"})


def names_of(posterior: Posterior) -> Sequence[str]:
    """The names of components, if they have any."""
    names = view_of(posterior.structure).names(posterior) if posterior.structure.symmetry else ()
    return names if any(names) else ()


def first_columns(block: Block, names: Sequence[str] = (), ids: Mapping[str, str] | None = None) -> dict[str, Any]:
    """An observation's position, id, largest component and its name, and how many of its words are known."""
    columns: dict[str, Any] = {"row" if block.known is None else "document": block.places}
    if ids is not None:
        columns["id"] = [ids.get(place, "") for place in block.places]
    if block.adds_up:
        best = np.argmax(block.values, axis=1).tolist()
        unknown = block.unknown.tolist()
        columns[block.names[0].rsplit("_", 1)[0]] = [None if skip else k for k, skip in zip(best, unknown, strict=True)]
        if names:
            columns["name"] = ["" if skip else names[k] for k, skip in zip(best, unknown, strict=True)]
    if block.known is not None:
        columns["words"] = block.known.astype(np.int64).tolist()
    return columns
