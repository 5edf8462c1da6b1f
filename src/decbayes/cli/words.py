"""`decbayes words`: the words of one site's texts, for a vocabulary that all sites agree on."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from decbayes.cli.documents import LeastDocuments, MostShare, read_documents
from decbayes.cli.inputs import TEXTS, is_text
from decbayes.cli.outputs import check_output
from decbayes.cli.terminal import messages
from decbayes.errors import InvalidData
from decbayes.files import write_whole


def words(
    data: Annotated[Path, Parameter(help="Texts, as `decbayes fit topics` reads them.")],
    /,
    *,
    output: Annotated[Path, Parameter(name=["--output", "-o"], help="Where to write the words, one a line.")],
    least_documents: LeastDocuments = 5,
    most_share: MostShare = 0.5,
) -> None:
    """Write down the words that texts are made of, one a line."""
    check_output(output, data)
    if not is_text(data):
        raise InvalidData(f"{data}: words are taken from texts, {', '.join(TEXTS)}.")
    found = read_documents(data, least_documents=least_documents, most_share=most_share).vocabulary
    write_whole(output, "".join(f"{word}\n" for word in found).encode())
    messages().print(f"{output}: {len(found):,} words")
