"""`decbayes sketch`: write a keyed sketch of a site's documents, or count the documents that several sites share."""

import json
import secrets
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from decbayes.base.writing import write_whole
from decbayes.cli.shared.common_options import AS_THEY_ARE, Reading
from decbayes.cli.shared.outputs import check_output, output_option
from decbayes.cli.shared.running import WrongArgument
from decbayes.cli.shared.sharing import RulesOption, rules_in_force
from decbayes.cli.shared.standard_streams import json_option, print_json, write_text
from decbayes.cli.shared.terminal import messages, plain, print_written
from decbayes.cli.shared.terminal import output as results
from decbayes.errors import InvalidData
from decbayes.inputs.texts import LeftOut
from decbayes.models.topics.sources import text_source
from decbayes.updates.sketches import Sketch, overlap

SUFFIX = ".sketch"


def sketch(
    files: Annotated[list[Path], Parameter(help="This site's texts; or sketches (.sketch) to compare.")],
    /,
    *,
    key: Annotated[
        Path | None,
        Parameter(help="The group's secret key, the same at all sites; created if the file does not exist."),
    ] = None,
    output: Annotated[Path | None, output_option("Where to write the sketch.")] = None,
    rules: RulesOption = None,
    as_json: Annotated[bool, json_option("pair", "sites", "shared")] = False,
    reading: Reading = AS_THEY_ARE,
) -> None:
    """Write a sketch of a site's documents; or print how many documents sites share, which count more than once."""
    check_output(output, *files)
    if all(path.suffix == SUFFIX for path in files):
        compare(files, as_json)
        return
    if key is None or output is None:
        raise WrongArgument("A sketch of texts needs --key, the group's secret, and -o.")
    in_force = rules_in_force(rules)
    source = text_source(files, reading.columns, reading.format, reading.encoding, reading.whole, reading.strict)
    texts = (text for _, text in source.read(LeftOut()))
    secret = key.read_bytes() if key.exists() else secrets.token_bytes(32)
    result = Sketch.of(texts, secret, least=0 if in_force is None else in_force.least_observations)
    if not key.exists():
        write_whole(key, secret, private=True)
        messages().print(f"{key}: a new key. Give it to all sites of the group, but to nobody who merges.")
    write_text(output, json.dumps(result.plain()) + "\n")
    print_written(output, f"{result.documents:,} documents, {len(result.hashes):,} keyed hashes")


def compare(files: list[Path], as_json: bool) -> None:
    """Print how many documents count more than once."""
    names = [path.name.removesuffix(SUFFIX) for path in files]
    overlaps = overlap([load_sketch(path) for path in files])
    if as_json:
        print_json(
            *({"sites": [names[one], names[two]], "shared": round(n)} for (one, two), n in overlaps.shared.items())
        )
        return
    for remark in overlaps.remarks(names):
        results().print(plain(str(remark)))
    if not overlaps.remarks(names):
        results().print(
            f"{overlaps.documents:,} documents, {overlaps.different:,.0f} different ones: hardly any count twice."
        )


def load_sketch(path: Path) -> Sketch:
    try:
        return Sketch.of_plain(json.loads(path.read_text(encoding="utf-8")))
    except (ValueError, RecursionError):
        raise InvalidData(f"{path} is not a file written by `decbayes sketch`.") from None
    except InvalidData as error:
        raise InvalidData(f"{path}: {error}") from None
