"""Which study, which site, and which data: said once, and remembered in the site's private folder."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter
from cyclopts.types import NonNegativeInt

from decbayes.base.writing import toml_table, write_whole
from decbayes.cli.shared.common_options import Reading
from decbayes.cli.shared.running import WrongArgument
from decbayes.cli.shared.terminal import messages
from decbayes.errors import InvalidData
from decbayes.models.core.model import Model
from decbayes.study.agreed_list import kind_of
from decbayes.study.explaining import checklist, page
from decbayes.study.folder import CHECKLIST, PAGE, Study, site_folders
from decbayes.study.whose_turn import turn

REMEMBERED = "site.toml"
READ_ME = (
    "Drafts, previews and the ledger of this site. They stay here: only files in the study's own folder, which were "
    "released, are for others. Keep the ledger and its key: later releases are compared with earlier ones.\n"
)
Seed = Annotated[NonNegativeInt, Parameter(help="Random seed: the same seed gives the same result.")]
Data = Annotated[
    list[Path] | None,
    Parameter(help="This site's data, as `decbayes fit` reads them; default: those of the last command.", negative=""),
]


@Parameter(name="*")
@dataclass(frozen=True)
class Where:
    """Which study this is about."""

    study: Annotated[
        Path | None,
        Parameter(
            help="The study's folder; default: the one that you are in, or the only one here.", show_default=False
        ),
    ] = None

    def opened(self) -> Study:
        study = Study.around(self.study or Path())
        _ = study.protocol
        return study


@Parameter(name="*")
@dataclass(frozen=True)
class AtSite(Where):
    """Which study this is about, and at which site."""

    site: Annotated[str, Parameter(help="The name of your site in the protocol; needed once.", show_default=False)] = ""

    def here(self) -> tuple[Study, str]:
        """The study, and the site that this is."""
        study = self.opened()
        known = [name for name in site_folders(study.private) if name in study.protocol.sites]
        if self.site:
            return study, study.check_site(self.site)
        if len(known) == 1:
            return study, known[0]
        several = f"{', '.join(known)} all work here" if known else f"the sites are {', '.join(study.protocol.sites)}"
        raise WrongArgument(f"Which site is this? Give --site; {several}.")


ANY_STUDY, ANY_SITE = Where(), AtSite()


def private_folder(study: Study, site: str) -> Path:
    """The folder of what stays at a site; it is made on first use, and says so."""
    folder = study.private / site
    if not folder.exists():
        study.private.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder.mkdir(mode=0o700)
        (folder / "README.md").write_text(READ_ME, encoding="utf-8")
        messages().print(f"{folder}: drafts and the ledger stay here. Do not share this folder.")
    return folder


def remembered_data(study: Study, site: str, given: Sequence[Path] | None) -> list[Path]:
    """The data of a site: those that are given, or those that were read the last time."""
    import tomllib

    if given:
        for path in given:
            path.stat()
        return list(given)
    memory = private_folder(study, site) / REMEMBERED
    if not memory.exists():
        raise WrongArgument("Name this site's data: `decbayes study check DATA`.")
    try:
        data = [Path(name) for name in tomllib.loads(memory.read_text(encoding="utf-8"))["site"]["data"]]
    except (ValueError, KeyError, TypeError):
        raise InvalidData(f"{memory} cannot be read. Name the data once more: `decbayes study check DATA`.") from None
    for path in data:
        if not path.exists():
            raise InvalidData(f"{path} is not there any more. Name this site's data once more after the command.")
    return data


def remember(study: Study, site: str, data: Sequence[Path]) -> None:
    """Keep the names of a site's data, once they could be read."""
    memory = private_folder(study, site) / REMEMBERED
    write_whole(memory, toml_table("site", {"data": [str(path.absolute()) for path in data]}).encode())


def reading_of(study: Study) -> Reading:
    """How the texts of a study are read; tables need nothing but the agreed columns."""
    kind, settings = kind_of(study.protocol), study.protocol.settings
    names = Reading.__dataclass_fields__.keys() & kind.reading_options if kind.many_files else ()
    return Reading(**{name: settings[name] for name in names if name in settings})


def one_or_all(kind: type[Model], data: Sequence[Path]) -> Any:
    """The data as a fit takes them: one file, or several where the model reads several."""
    if kind.many_files:
        return list(data)
    if len(data) != 1:
        raise InvalidData(
            f"{kind.command} reads one file of data, not {len(data)}: {', '.join(map(str, data))}. "
            "Names of sites and people are options: --site NAME, --approve NAME."
        )
    return data[0]


def write_pages(study: Study) -> None:
    """The protocol in plain words, and the checklist."""
    write_whole(study.folder / PAGE, page(study).encode())
    write_whole(study.folder / CHECKLIST, checklist(study).encode())


def tell_problems(study: Study) -> None:
    """Name the files that do not count."""
    for problem in study.problems:
        messages().print(f"Left alone: {problem}")


def tell_turn(study: Study, me: str = "") -> None:
    """Say what comes next, and who has to do it, by what lies in the folder now."""
    messages().print(turn(Study(study.folder), me))
