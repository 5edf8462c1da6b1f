"""Which study, which site and which data a command is about; remembered in the site's private folder."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from decbayes.base.writing import toml_table, write_whole
from decbayes.cli.shared.common_options import Reading
from decbayes.cli.shared.running import WrongArgument
from decbayes.cli.shared.terminal import messages
from decbayes.errors import InvalidData, NotDisclosed
from decbayes.models.core.model import Model
from decbayes.study.agreed_list import kind_of
from decbayes.study.explaining import checklist, page
from decbayes.study.folder import CHECKLIST, PAGE, Study, site_folders
from decbayes.study.protocol import FILE, Protocol
from decbayes.study.whose_turn import turn

REMEMBERED = "site.toml"
READ_ME = (
    "Drafts, previews and the ledger of this site. They stay here: only released files in the study's folder are "
    "for others. Keep the ledger and its key: later releases are compared with earlier ones.\n"
)
Data = Annotated[
    list[Path] | None, Parameter(help="This site's data, as for `decbayes fit`; default: those of the last command.")
]


@Parameter(name="*")
@dataclass(frozen=True)
class Where:
    """The study that a command is about."""

    study: Annotated[
        Path | None, Parameter(help="The study's folder; default: the current folder, or the only study in it.")
    ] = None

    def open(self) -> Study:
        study = Study.around(self.study or Path())
        _ = study.protocol
        return study


@Parameter(name="*")
@dataclass(frozen=True)
class AtSite(Where):
    """The study and the site that a command is about."""

    site: Annotated[str, Parameter(help="Your site's name in the protocol; needed once.")] = ""

    def locate(self) -> tuple[Study, str]:
        study = self.open()
        known = [name for name in site_folders(study.private) if name in study.protocol.sites]
        if self.site or len(known) == 1:
            site = study.check_site(self.site or known[0])
            keep_protocol(study, site)
            return study, site
        several = f"{', '.join(known)} all work here" if known else f"the sites are {', '.join(study.protocol.sites)}"
        raise WrongArgument(f"Which site is this? Give --site; {several}.")


ANY_STUDY, ANY_SITE = Where(), AtSite()


def private_folder(study: Study, site: str) -> Path:
    """The folder for what stays at a site; created on first use, with a README."""
    folder = study.private / site
    if not folder.exists():
        study.private.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder.mkdir(mode=0o700)
        (folder / "README.md").write_text(READ_ME, encoding="utf-8")
        messages().print(f"{folder}: drafts and the ledger stay here. Do not share this folder.")
    return folder


def keep_protocol(study: Study, site: str) -> None:
    """Refuse a protocol that allows more than the one this site has used, since others can write to its folder."""
    kept = private_folder(study, site) / FILE
    if kept.exists() and (looser := study.protocol.looser_than(Protocol.load(kept), site)):
        raise NotDisclosed(
            f"{study.folder / FILE} has changed since {site} used it last, and now allows more: {'; '.join(looser)}. "
            f"Anyone who can write to the folder may have done that. If {site} agrees, remove {kept}."
        )
    if not kept.exists() or Protocol.load(kept) != study.protocol:
        write_whole(kept, study.protocol.text().encode())


def data_of(study: Study, site: str, given: Sequence[Path] | None) -> list[Path]:
    """The data given, or else those of the last command."""
    import tomllib

    if given:
        for path in given:
            path.stat()
        return list(given)
    memory = private_folder(study, site) / REMEMBERED
    if not memory.exists():
        raise WrongArgument("Give this site's data: `decbayes study check DATA`.")
    try:
        data = [Path(name) for name in tomllib.loads(memory.read_text(encoding="utf-8"))["site"]["data"]]
    except (ValueError, KeyError, TypeError):
        raise InvalidData(f"{memory} cannot be read. Give the data once more: `decbayes study check DATA`.") from None
    for path in data:
        if not path.exists():
            raise InvalidData(f"{path} is no longer there. Give this site's data once more after the command.")
    return data


def remember(study: Study, site: str, data: Sequence[Path]) -> None:
    """Remember the data files of a site, once they have been read."""
    memory = private_folder(study, site) / REMEMBERED
    write_whole(memory, toml_table("site", {"data": [str(path.absolute()) for path in data]}).encode())


def reading_of(study: Study) -> Reading:
    """How to read the texts of a study; tables need nothing but the agreed columns."""
    kind, settings = kind_of(study.protocol), study.protocol.settings
    names = Reading.__dataclass_fields__.keys() & kind.reading_options if kind.many_files else ()
    return Reading(**{name: settings[name] for name in names if name in settings})


def fit_input(kind: type[Model], data: Sequence[Path]) -> Any:
    """The data for a fit: one file, or several if the model reads several."""
    if kind.many_files:
        return list(data)
    if len(data) != 1:
        raise InvalidData(
            f"{kind.command} reads one file of data, not {len(data)}: {', '.join(map(str, data))}. "
            "Names of sites and people are options: --site NAME, --approve NAME."
        )
    return data[0]


def write_pages(study: Study) -> None:
    """Write the protocol in plain words, and the checklist."""
    write_whole(study.folder / PAGE, page(study).encode())
    write_whole(study.folder / CHECKLIST, checklist(study).encode())


def print_problems(study: Study) -> None:
    """Print the files that do not count."""
    for problem in study.problems:
        messages().print(f"Left alone: {problem}")


def print_turn(study: Study, me: str = "") -> None:
    """Print the next step and who has to do it, according to the folder as it is now."""
    messages().print(turn(Study(study.folder), me))
