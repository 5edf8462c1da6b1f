"""`decbayes agent`: one member of a group, running until it is told to stop."""

import os
import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Event, Thread
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from cyclopts import Parameter
from cyclopts.types import NonNegativeInt
from scipy.sparse import csr_array

import decbayes
from decbayes.base.extras import require_extra
from decbayes.cli.commands.network._asking import ON_THIS_MACHINE, Link, load_charter
from decbayes.cli.shared.common_options import PageOption, Record, available, check_record
from decbayes.cli.shared.running import WrongArgument
from decbayes.cli.shared.sharing import NONE, PersonOption, rules_asked_for
from decbayes.cli.shared.terminal import messages
from decbayes.devices import DeviceName, use_device
from decbayes.disclosure import Rules
from decbayes.errors import InvalidCharter, TransportFailed
from decbayes.inputs.recipes import trust
from decbayes.merging.base.vocabularies import in_columns
from decbayes.models.core.evaluation import hold_back, hold_out
from decbayes.models.core.model import Model
from decbayes.models.core.persons import Persons
from decbayes.models.core.registry import model_for
from decbayes.posterior import Posterior
from decbayes.views.findings import LEAST

if TYPE_CHECKING:
    from decbayes.network import Charter, Identity, Pool, SqliteStore
    from decbayes.network.runtime.links import Links
    from decbayes.network.runtime.renewal import CharterFile, KeyFile
    from decbayes.network.runtime.reports.log import Log
    from decbayes.network.runtime.reports.metrics import Metrics
    from decbayes.network.runtime.reports.watching import Score, Watcher
    from decbayes.page import PageAddress


Known = tuple[Any, Persons | None]
"""Data, and whom they are about if that is known."""


def scorer(charter: "Charter", shards: Sequence[Any], path: Path | None, seed: int) -> "Score | None":
    """The mean log density of a file's observations, or of those that the charter has every site hold back.

    None if there are none, or so few that a score would reveal single ones.
    """
    model, share = charter.model, charter.rules.validation
    if path is None and not (share and shards):
        return None
    if path is not None:
        observations = model.read(path, report=messages().print)
    else:
        observations = model.joined([hold_back(model, shard, share=share)[1] for shard in shards])
    if model.count(observations) < LEAST:
        if path is not None:
            raise WrongArgument(f"{path} holds too few observations to tell their score; give {LEAST:.0f} or more.")
        return None
    held_out = None
    if model.in_parts:
        observations, held_out = hold_out(observations, share=0.1, rng=np.random.default_rng(seed))

    def score(posterior: Posterior) -> float:
        now = model_for(posterior.structure)
        parts = [over_words(part, charter.words, now) for part in (observations, held_out)]
        return now.score(posterior, *parts)

    return score


def over_words(counts: Any, words: tuple[str, ...], model: Model) -> Any:
    """Word counts with a column for each word that counts by now."""
    now = getattr(model, "vocabulary", ())
    return counts if counts is None or not words or words == now else in_columns(csr_array(counts), words, now)


def agent(
    charter: Annotated[Path, Parameter(help="The group's charter, the same for all members.")],
    /,
    *,
    key: Annotated[Path, Parameter(help="This agent's private key; see `decbayes keygen`.")],
    store: Annotated[Path, Parameter(help="File in which it keeps its state; created on first use.")],
    data: Annotated[
        tuple[Path, ...], Parameter(help="This site's data, as for `decbayes fit`; repeat the option for more files.")
    ] = (),
    listen: Annotated[tuple[str, ...], Parameter(help="HOST:PORT to listen at; repeat it for more.", negative="")] = (
        "127.0.0.1:0",
    ),
    connect: Annotated[
        tuple[str, ...], Parameter(help="HOST:PORT of a neighbour; repeat it for more.", negative="")
    ] = (),
    discovery: Annotated[
        Literal["none", "gossip", "multicast"],
        Parameter(help="How to find further agents to link with; then no gate keeps strangers out."),
    ] = "none",
    link: Link = ON_THIS_MACHINE,
    refine: Annotated[
        NonNegativeInt,
        Parameter(help="How many times to refit, with the other sites' contributions as the prior."),
    ] = 0,
    metrics: Annotated[
        NonNegativeInt | None,
        Parameter(help="Serve /metrics and /health at this port of 127.0.0.1; 0 is any free one."),
    ] = None,
    page: PageOption = None,
    record: Record = None,
    held: Annotated[
        Path | None, Parameter(help="Held-out data: the page shows how well the merged posterior predicts it.")
    ] = None,
    seed: Annotated[NonNegativeInt, Parameter(help="Random seed of the fits.")] = 0,
    tokenizer: Annotated[
        str, Parameter(help="MODULE:FUNCTION that splits texts into words, if the charter names one.")
    ] = "",
    rules: Annotated[
        str | None,
        Parameter(
            help="A TOML file of disclosure rules that are stricter than the charter's. Default: DECBAYES_RULES, or "
            "the charter's.",
            show_default=False,
        ),
    ] = None,
    person: PersonOption = "",
    ledger: Annotated[
        Path | None,
        Parameter(
            help="If the charter promises privacy: the ledger of what this site has spent; default: beside the store.",
            show_default=False,
        ),
    ] = None,
    device: Annotated[DeviceName, Parameter(help="Where to fit topics: cpu, cuda, or auto.")] = "cpu",
    stop_with_stdin: Annotated[bool, Parameter(help="Stop when standard input ends.", negative="")] = False,
) -> None:
    """Join a group: fit this site's data, publish the contribution, relay and merge those of all members."""
    require_extra(*(["net"] if page is None else ["net", "page"]), task="decbayes agent")
    from decbayes.network import Identity, SqliteStore
    from decbayes.network.runtime.links import Links
    from decbayes.network.runtime.owner import read_site
    from decbayes.network.runtime.renewal import CharterFile, KeyFile
    from decbayes.network.runtime.reports.log import Log
    from decbayes.network.runtime.reports.metrics import Metrics
    from decbayes.page import PageAddress

    check_streams(stop_with_stdin)
    use_device(available(device))
    trust(tokenizer)
    agreed, identity = load_charter(charter), Identity.load(key)
    stricter = own_rules(rules, agreed)
    if ledger is not None and agreed.privacy is None:
        raise WrongArgument("--ledger is for groups whose charter promises privacy; this one does not.")
    if refine and agreed.sums is not None:
        raise WrongArgument("--refine is for groups that publish contributions; here the charter says how many rounds.")
    shown_at = None if page is None else PageAddress.parse(page, plain=link.plain)
    check_record(page, record)
    if held is not None and page is None:
        raise WrongArgument("--held is for the page; give --page, too.")
    links = Links(listen, connect, discovery, link.tls, link.plain)
    with SqliteStore(store, agreed) as opened:
        opened.check_owner(identity)
        known = check_seat(identity, agreed, key, opened)
        paths = [*data, *observed_earlier(opened, data)]
    shards = [read_site(known.charter, path, person, report=messages().print) for path in paths]
    with SqliteStore(store, agreed) as opened:
        opened.own(identity)
    parts = [observed for observed, _ in shards]
    watcher = None if shown_at is None else watching(shown_at, scorer(known.charter, parts, held, seed), record)
    files = CharterFile(charter, agreed), KeyFile(key, identity)
    measured = None if metrics is None else Metrics(metrics)
    process = Process(
        *files, Log.on_stdout(agreed.names), measured, watcher, refine, seed, stricter, person, ledger, data
    )
    process.run(store, links, shards, stopping(stop_with_stdin))


@dataclass(frozen=True)
class Process:
    """What an agent keeps from one charter to the next."""

    file: "CharterFile"
    key: "KeyFile"
    log: "Log"
    metrics: "Metrics | None"
    watcher: "Watcher | None"
    refinements: int
    seed: int
    rules: Rules | None = None
    person: str = ""
    ledger: Path | None = None
    data: tuple[Path, ...] = ()

    def run(self, path: Path, links: "Links", shards: Sequence[Known], stop: Event) -> None:
        """Serve under one charter after another, until it is told to stop."""
        from decbayes.network import SqliteStore

        links = replace(links, revoked=self.file.revoked)
        if self.watcher is not None:
            self.log.listener = self.watcher.hear
        try:
            while not stop.is_set():
                with SqliteStore(path, self.file.charter) as store:
                    # The next charter's links are opened where these were.
                    links = replace(links, listen=self.serve(store, links, shards, stop), revoked=self.file.revoked)
        finally:
            if self.watcher is not None:
                self.watcher.page.close()

    def serve(self, store: "SqliteStore", links: "Links", shards: Sequence[Known], stop: Event) -> tuple[str, ...]:
        """Serve until it is told to stop or there is another charter; where it has listened."""
        from decbayes.network import Agent
        from decbayes.network.runtime.service import Service

        log, charter = self.log, self.file.charter
        # Versions leap by random steps that must differ from start to start: never from a seed.
        saved, fresh = store.load(), np.random.default_rng()
        member = Agent(
            charter, self.key.identity, rng=fresh, saved=saved, software=decbayes.__version__, rules=self.rules
        )
        if store.damaged:
            log("store_damaged", records=store.damaged, text="They are ignored; neighbours send them again.")
        service = Service(
            member,
            store,
            links,
            log,
            rng=np.random.default_rng(self.seed),
            refinements=self.refinements,
            metrics=self.metrics,
            watcher=self.watcher,
            person=self.person,
            ledger=self.ledger,
            files=self.data,
        )
        try:
            for data, persons in shards:
                service.observe(data, persons)
            service.run(stop, until=lambda: self.file.renewed(log) or self.key.renewed(member.pool.roster, log))
        finally:
            service.close()
        return service.transport.endpoints


def own_rules(text: str | None, charter: "Charter") -> Rules | None:
    """By which rules this site is stricter than its group."""
    if text == NONE and charter.disclosure is not None:
        raise InvalidCharter("The charter has disclosure rules, and a site may only be stricter than its group.")
    return rules_asked_for(text)


def watching(address: "PageAddress", score: "Score | None", record: Path | None) -> "Watcher":
    from decbayes.cli.shared.match_confidence import learned
    from decbayes.network.runtime.reports.watching import Watcher
    from decbayes.page import Page

    return Watcher(Page(address, record), score, learned)


def observed_earlier(store: "SqliteStore", named: Sequence[Path]) -> list[Path]:
    """The files that its owner added in earlier starts; one that is gone still counts."""
    from decbayes.network.runtime.store.orders import observed_files

    paths = [Path(path) for path in observed_files(store)]
    return [path for path in paths if path.exists() and path not in named]


def check_streams(with_stdin: bool) -> None:
    """The log takes standard output over; were it closed, its number could by now be that of another file."""
    if sys.stdout is None:
        raise TransportFailed("Standard output is closed, and the log goes there. Direct it to a file or /dev/null.")
    if with_stdin and sys.stdin is None:
        raise TransportFailed("Standard input is closed, so --stop-with-stdin has nothing to wait for.")


def check_seat(identity: "Identity", charter: "Charter", key: Path, store: "SqliteStore") -> "Pool":
    """Say what a key without a seat waits for: members may have decided on it, and neighbours know it.

    Returns what the store knows.
    """
    from decbayes.network.protocol.records.pool import Pool
    from decbayes.network.protocol.site.publisher import standing_of

    known = Pool(charter)
    known.restore(store.load())
    if why := standing_of(identity.id, known):
        messages().print(f"{key}: {why}. Its public key is {identity.public.hex()}.", style="yellow", highlight=False)
    return known


def stopping(with_stdin: bool) -> Event:
    """An event that SIGTERM, Ctrl-C or, if asked for, the end of standard input sets."""
    stop = Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    if with_stdin:
        Thread(target=wait_for_end, args=(stop,), daemon=True).start()
    return stop


def wait_for_end(stop: Event) -> None:
    while os.read(0, 4096):
        pass
    stop.set()
