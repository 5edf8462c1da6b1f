"""`decbayes words`: the words of one site's texts, for a vocabulary that all sites agree on."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from cyclopts.types import PositiveInt
from cyclopts.validators import Number

from decbayes.cli.outputs import check_output
from decbayes.cli.terminal import messages
from decbayes.errors import InvalidData
from decbayes.files import write_whole
from decbayes.inputs.documents import read_documents
from decbayes.inputs.tables import TEXTS, is_text


def words(
    data: Annotated[Path, Parameter(help="Texts, as `decbayes fit topics` reads them.")],
    /,
    *,
    output: Annotated[Path, Parameter(name=["--output", "-o"], help="Where to write the words, one per line.")],
    least_documents: Annotated[PositiveInt, Parameter(help="Ignore words in fewer documents.")] = 5,
    most_share: Annotated[
        float, Parameter(help="Ignore words in a larger share of the documents.", validator=Number(gt=0, lte=1))
    ] = 0.5,
) -> None:
    """Write the words of a file of texts, one per line."""
    check_output(output, data)
    if not is_text(data):
        raise InvalidData(f"{data}: only texts have words to list ({', '.join(TEXTS)}).")
    found = read_documents(data, least_documents=least_documents, most_share=most_share).vocabulary
    write_whole(output, "".join(f"{word}\n" for word in found).encode())
    messages().print(f"{output}: {len(found):,} words")
