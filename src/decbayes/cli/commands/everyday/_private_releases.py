"""Private releases: `fit --private`, `refine --private`, and their merge."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from decbayes.base.writing import check_inside
from decbayes.cli.shared.common_options import Accounts, Promise, Reading, model_input
from decbayes.cli.shared.fit_data import model_and_data
from decbayes.cli.shared.model_options import as_option
from decbayes.cli.shared.outputs import check_output
from decbayes.cli.shared.posterior_files import is_release
from decbayes.cli.shared.running import WrongArgument
from decbayes.cli.shared.sharing import ReadingReport, ledger_beside, persons_of
from decbayes.cli.shared.standard_streams import print_json, table_file
from decbayes.cli.shared.terminal import messages, plain, plural
from decbayes.disclosure import Ledger, Persons, Rules
from decbayes.disclosure.private_merging import private_merge
from decbayes.errors import NotPrivate
from decbayes.files import save
from decbayes.models.core.model import Model
from decbayes.models.core.registry import model_for
from decbayes.models.core.settings import Number
from decbayes.posterior import Posterior
from decbayes.privacy import Privacy, PrivateMerge, Release, load_release, save_release
from decbayes.remarks import lines

NOT_AGREED = (
    "Units and categories that are found in data are not private. Name columns that everybody agreed on, not computed "
    "from these data: --agreed-columns FILE, or another site's release: --like FILE."
)
# Options of a fit that have no meaning for a private release.
LOCAL = {"earlier", "restarts", "passes", "seed", "hold_back", "forgetting", "rules", "batch", "device"}


def fit_privately(
    kind: type[Model],
    data: Any,
    *,
    output: Path,
    promise: Promise,
    accounts: Accounts,
    like: Path | None = None,
    person: str = "",
    site: str = "",
    as_json: bool = False,
    **settings: Any,
) -> None:
    """Write a site's first private release: noisy statistics of its rows at the prior."""
    privacy = promise.privacy()
    unused = sorted(LOCAL & settings.keys())
    if unused:
        raise WrongArgument(f"{as_option(unused[0])} does not go with --private: nothing is fitted here.")
    if like is None and settings.get("agreed_columns") is None and not kind.said_by_options:
        raise WrongArgument(NOT_AGREED)
    if like is not None:
        load_release(like)  # the units of other posteriors may come from data
    file = table_file(data) if isinstance(data, Path) else data
    check_output(output, file, like, *(value for value in settings.values() if isinstance(value, Path)))
    reading = {name: settings[name] for name in kind.reading_options & settings.keys()}
    model, observations = model_and_data(kind, file, like, settings, ReadingReport())
    persons = persons_of(model, [file], person, rules=Rules(), **reading)
    prior = Posterior.of_prior(model.structure)
    ledger = ledger_beside([data] if isinstance(data, Path) else data, accounts.ledger, output)
    release_round(model, observations, prior, privacy, output, ledger, accounts.data_set, site, persons, as_json)


def release_round(
    model: Model,
    observations: Any,
    anchor: Posterior | PrivateMerge,
    privacy: Privacy,
    output: Path,
    ledger: Ledger,
    data_set: str,
    site: str,
    persons: Persons,
    as_json: bool,
) -> None:
    """Write one site's private release of one round, and record it in the ledger."""
    release = model.release(anchor, observations, privacy, ledger=ledger, site=site, data_set=data_set, persons=persons)
    save_release(release, output)
    rounds = model.mechanism().rounds
    account = next(account for account in ledger.accounts() if account.data_set == data_set)
    messages().print(
        plain(
            f"{output}: release {release.round + 1} of {rounds}, {privacy}. Data set '{account.data_set}' has spent "
            f"ε = {account.spent:.3g} of {account.budget.epsilon:g}; recorded in {ledger.path}"
        )
    )
    if as_json:
        print_json({"file": output, "round": release.round, "rounds": rounds, "spent": account.spent})


def refine_privately(
    data: list[Path],
    site: str,
    site_release: Path | None,
    others: list[Path],
    folder: Path | None,
    output: Path | None,
    accounts: Accounts,
    person: str,
    reading: Reading,
    as_json: bool,
) -> None:
    """Write one site's next private release, at the merge of all earlier rounds."""
    paths = others if folder is None else releases_in(folder)
    paths = [*paths, *([] if site_release is None else [site_release])]
    if not paths:
        raise WrongArgument("Give --folder and --site; or --own, and all releases of all sites so far as --others.")
    site = site if site_release is None else load_release(site_release).site
    step = next_round(read_releases(paths), site)
    if isinstance(step, list):
        messages().print(plain(f"Waiting for {', '.join(step)}: every site takes part in every round."))
        return
    model, anchor, privacy = step
    number = anchor.round if isinstance(anchor, PrivateMerge) else 0
    if folder is None and output is None:
        raise WrongArgument("Give --output.")
    output = output or Path(folder or ".") / f"{site}.{number}.release"
    check_output(output, *data, *paths)
    observations = model.read(model_input(model, data), report=ReadingReport(), **reading.options(type(model)))
    persons = persons_of(model, data, person, **reading.options(type(model)))
    ledger = ledger_beside(data, accounts.ledger, output)
    release_round(model, observations, anchor, privacy, output, ledger, accounts.data_set, site, persons, as_json)


def next_round(releases: Sequence[Release], site: str) -> tuple[Model, Posterior | PrivateMerge, Privacy] | list[str]:
    """The model, anchor and promise of a site's next round; or the sites to wait for."""
    first = releases[0]
    rounds = [release.round for release in releases if release.site == site]
    if not rounds:
        names = ", ".join(sorted({release.site or "(no name)" for release in releases}))
        raise WrongArgument(f"There is no release of site '{site}'; there are those of {names}. Name it with --site.")
    finished = max(rounds)
    everybody = {release.site for release in releases if release.round == 0}
    missing = everybody - {release.site for release in releases if release.round == finished}
    if missing:
        return sorted(missing)
    merged = private_merge(first.structure, [release for release in releases if release.round <= finished])
    return model_for(first.structure), merged, first.privacy


def read_releases(paths: Sequence[Path]) -> list[Release]:
    """Load releases, each once."""
    read = [load_release(path) for path in paths]
    return list({one.ids: one for one in read}.values())


def releases_in(folder: Path) -> list[Path]:
    paths = sorted(path for path in folder.glob("*.release") if is_release(check_inside(path, folder)))
    if not paths:
        raise NotPrivate(f"There is no release in {folder}: `decbayes fit … --private` makes the first of each site.")
    return paths


def merge_releases(paths: Sequence[Path], output: Path, components: Number | None, as_json: bool) -> None:
    """Merge the private releases of all rounds and sites, and write the posterior."""
    others = [path for path in paths if not is_release(path)]
    if others:
        raise WrongArgument(f"{others[0]} is not a private release, but others are: merge one kind at a time.")
    releases = read_releases(paths)
    merged = private_merge(releases[0].structure, complete_rounds(releases), components=components)
    save(merged.posterior, output, note={"privacy": merged.privacy.plain()})
    sites = len({release.site for release in releases if release.round == 0}) or 1
    messages().print(plain(f"{output}: {plural(sites, 'site')}, {merged.round} of {merged.rounds} releases each"))
    for line in lines(merged.posterior.remarks):
        messages().print(plain(line))
    if as_json:
        print_json({"file": output, "round": merged.round, "price": merged.price, "misfit": merged.misfit})


def complete_rounds(releases: Sequence[Release]) -> list[Release]:
    """The releases of all rounds that every site has finished."""
    everybody = {release.site for release in releases if release.round == 0}
    newest = max(release.round for release in releases)
    while newest and {release.site for release in releases if release.round == newest} != everybody:
        newest -= 1
    incomplete = any(release.round > newest for release in releases)
    if incomplete:
        messages().print(f"Release {newest + 2} of some sites is missing: this is the merge of those before it.")
    return [release for release in releases if release.round <= newest]
