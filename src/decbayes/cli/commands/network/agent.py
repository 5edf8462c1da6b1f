"""`decbayes agent`: run one member of a group until it is stopped."""

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
from decbayes.cli.commands.network._link import ON_THIS_MACHINE, Link, load_charter
from decbayes.cli.shared.common_options import PageOption, Record, available_device, check_record
from decbayes.cli.shared.running import WrongArgument
from decbayes.cli.shared.sharing import NONE, PersonOption, rules_given
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


SiteData = tuple[Any, Persons | None]
"""Data, and the persons they are about if known."""


def scorer(charter: "Charter", shards: Sequence[Any], path: Path | None, seed: int) -> "Score | None":
    """A function for the mean log density of a file's observations, or of those that the charter holds back.

    None if there are none, or so few that a score would reveal single observations.
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
            raise WrongArgument(f"{path} has too few observations for a score; give {LEAST:.0f} or more.")
        return None
    held_out = None
    if model.in_parts:
        observations, held_out = hold_out(observations, share=0.1, rng=np.random.default_rng(seed))

    def score(posterior: Posterior) -> float:
        current = model_for(posterior.structure)
        parts = [over_words(part, charter.words, current) for part in (observations, held_out)]
        return current.score(posterior, *parts)

    return score


def over_words(counts: Any, words: tuple[str, ...], model: Model) -> Any:
    """Word counts with a column for each word that counts now."""
    current = getattr(model, "vocabulary", ())
    return counts if counts is None or not words or words == current else in_columns(csr_array(counts), words, current)


@Parameter(name="*")
@dataclass(frozen=True)
class Neighbours:
    """Where to listen, and which agents to link with."""

    listen: Annotated[tuple[str, ...], Parameter(help="HOST:PORT to listen at; repeat it for more.")] = ("127.0.0.1:0",)
    connect: Annotated[tuple[str, ...], Parameter(help="HOST:PORT of a neighbour; repeat it for more.")] = ()
    discovery: Annotated[
        Literal["none", "gossip", "multicast"],
        Parameter(help="How to find further agents; then no gate keeps strangers out."),
    ] = "none"


@Parameter(name="*")
@dataclass(frozen=True)
class Reports:
    """Metrics, and a live page."""

    metrics: Annotated[
        NonNegativeInt | None,
        Parameter(help="Serve /metrics and /health on this port of 127.0.0.1; 0 for any free port."),
    ] = None
    page: PageOption = None
    record: Record = None
    held: Annotated[
        Path | None, Parameter(help="Held-out data: the page shows how well the merged posterior predicts it.")
    ] = None

    def address(self, *, plain: bool) -> "PageAddress | None":
        """The page's address, if there is one; refuses options that need a page."""
        from decbayes.page import PageAddress

        address = None if self.page is None else PageAddress.parse(self.page, plain=plain)
        check_record(self.page, self.record)
        if self.held is not None and self.page is None:
            raise WrongArgument("--held is for the page; give --page, too.")
        return address


@Parameter(name="*")
@dataclass(frozen=True)
class SiteOptions:
    """How to fit this site's data, and what may leave."""

    refine: Annotated[
        NonNegativeInt, Parameter(help="How many times to refit, with the other sites' contributions as the prior.")
    ] = 0
    seed: Annotated[NonNegativeInt, Parameter(help="Random seed of the fits.")] = 0
    rules: Annotated[
        str | None,
        Parameter(
            help="A TOML file of disclosure rules that are stricter than the charter's. Default: DECBAYES_RULES, or "
            "the charter's."
        ),
    ] = None
    person: PersonOption = ""
    ledger: Annotated[
        Path | None,
        Parameter(help="If the charter promises privacy: the ledger of this site's budget; default: beside the store."),
    ] = None

    def stricter_rules(self, charter: "Charter") -> Rules | None:
        """This site's rules; refuses options that the charter does not allow."""
        if self.rules == NONE and charter.disclosure is not None:
            raise InvalidCharter("The charter has disclosure rules, and a site may only be stricter than its group.")
        stricter = rules_given(self.rules)
        if self.ledger is not None and charter.privacy is None:
            raise WrongArgument("--ledger is for groups whose charter promises privacy; this one does not.")
        if self.refine and charter.sums is not None:
            raise WrongArgument(
                "--refine is for groups that publish contributions; here the charter sets the number of rounds."
            )
        return stricter


ALONE, NO_REPORTS, AS_AGREED = Neighbours(), Reports(), SiteOptions()


def agent(
    charter: Annotated[Path, Parameter(help="The group's charter, the same for all members.")],
    /,
    *,
    key: Annotated[Path, Parameter(help="This agent's private key; see `decbayes keygen`.")],
    store: Annotated[Path, Parameter(help="File for the agent's state; created on first use.")],
    data: Annotated[
        tuple[Path, ...], Parameter(help="This site's data, as for `decbayes fit`; repeat the option for more files.")
    ] = (),
    neighbours: Neighbours = ALONE,
    link: Link = ON_THIS_MACHINE,
    reports: Reports = NO_REPORTS,
    site: SiteOptions = AS_AGREED,
    tokenizer: Annotated[
        str, Parameter(help="MODULE:FUNCTION that splits texts into words, if the charter names one.")
    ] = "",
    device: Annotated[DeviceName, Parameter(help="Where to fit topics: cpu, cuda, or auto.")] = "cpu",
    stop_with_stdin: Annotated[bool, Parameter(help="Stop when standard input ends.")] = False,
) -> None:
    """Join a group: fit this site's data, publish the contribution, relay and merge those of all members."""
    require_extra(*(["net"] if reports.page is None else ["net", "page"]), task="decbayes agent")
    from decbayes.network import Identity, SqliteStore
    from decbayes.network.runtime.links import Links
    from decbayes.network.runtime.owner import read_site
    from decbayes.network.runtime.renewal import CharterFile, KeyFile
    from decbayes.network.runtime.reports.log import Log
    from decbayes.network.runtime.reports.metrics import Metrics

    check_streams(stop_with_stdin)
    use_device(available_device(device))
    trust(tokenizer)
    agreed, identity = load_charter(charter), Identity.load(key)
    stricter = site.stricter_rules(agreed)
    address = reports.address(plain=link.plain)
    links = Links(neighbours.listen, neighbours.connect, neighbours.discovery, link.tls, link.plain)
    with SqliteStore(store, agreed) as opened:
        opened.check_owner(identity)
        known = check_seat(identity, agreed, key, opened)
        paths = [*data, *observed_earlier(opened, data)]
    shards = [read_site(known.charter, path, site.person, report=messages().print) for path in paths]
    with SqliteStore(store, agreed) as opened:
        opened.own(identity)
    watcher = None
    if address is not None:
        score = scorer(known.charter, [observed for observed, _ in shards], reports.held, site.seed)
        watcher = make_watcher(address, score, reports.record)
    files = CharterFile(charter, agreed), KeyFile(key, identity)
    metrics = None if reports.metrics is None else Metrics(reports.metrics)
    process = Process(*files, Log.on_stdout(agreed.names), metrics, watcher, site, stricter, data)
    process.run(store, links, shards, stop_event(stop_with_stdin))


@dataclass(frozen=True)
class Process:
    """What stays the same in an agent's process when the charter changes."""

    file: "CharterFile"
    key: "KeyFile"
    log: "Log"
    metrics: "Metrics | None"
    watcher: "Watcher | None"
    site: SiteOptions
    rules: Rules | None
    data: tuple[Path, ...]

    def run(self, path: Path, links: "Links", shards: Sequence[SiteData], stop: Event) -> None:
        """Serve under one charter after another, until stopped."""
        from decbayes.network import SqliteStore

        links = replace(links, revoked=self.file.revoked)
        if self.watcher is not None:
            self.log.listener = self.watcher.hear
        try:
            while not stop.is_set():
                with SqliteStore(path, self.file.charter) as store:
                    # Under the next charter, it listens at the same addresses.
                    links = replace(links, listen=self.serve(store, links, shards, stop), revoked=self.file.revoked)
        finally:
            if self.watcher is not None:
                self.watcher.page.close()

    def serve(self, store: "SqliteStore", links: "Links", shards: Sequence[SiteData], stop: Event) -> tuple[str, ...]:
        """Serve until stopped or until there is another charter; returns the addresses it listened at."""
        from decbayes.network import Agent
        from decbayes.network.runtime.service import Service

        log, charter = self.log, self.file.charter
        # Versions leap by random steps that must differ between starts, so this generator has no seed.
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
            rng=np.random.default_rng(self.site.seed),
            refinements=self.site.refine,
            metrics=self.metrics,
            watcher=self.watcher,
            person=self.site.person,
            ledger=self.site.ledger,
            files=self.data,
        )
        try:
            for data, persons in shards:
                service.observe(data, persons)
            service.run(stop, until=lambda: self.file.renewed(log) or self.key.renewed(member.pool.roster, log))
        finally:
            service.close()
        return service.transport.endpoints


def make_watcher(address: "PageAddress", score: "Score | None", record: Path | None) -> "Watcher":
    from decbayes.cli.shared.match_confidence import margin_reliability
    from decbayes.network.runtime.reports.watching import Watcher
    from decbayes.page import Page

    return Watcher(Page(address, record), score, margin_reliability)


def observed_earlier(store: "SqliteStore", named: Sequence[Path]) -> list[Path]:
    """Files that the owner added earlier and that still exist; the others still count."""
    from decbayes.network.runtime.store.orders import observed_files

    paths = [Path(path) for path in observed_files(store)]
    return [path for path in paths if path.exists() and path not in named]


def check_streams(with_stdin: bool) -> None:
    """Refuse closed streams: the log takes over standard output, whose number another file could have by now."""
    if sys.stdout is None:
        raise TransportFailed("Standard output is closed, and the log goes there. Direct it to a file or /dev/null.")
    if with_stdin and sys.stdin is None:
        raise TransportFailed("Standard input is closed, so --stop-with-stdin has nothing to wait for.")


def check_seat(identity: "Identity", charter: "Charter", key: Path, store: "SqliteStore") -> "Pool":
    """Print what a key without a seat waits for: members may have voted on it, and neighbours would know.

    Returns the stored pool.
    """
    from decbayes.network.protocol.records.pool import Pool
    from decbayes.network.protocol.site.publisher import standing_of

    pool = Pool(charter)
    pool.restore(store.load())
    if reason := standing_of(identity.id, pool):
        messages().print(
            f"{key}: {reason}. Its public key is {identity.public.hex()}.", style="yellow", highlight=False
        )
    return pool


def stop_event(with_stdin: bool) -> Event:
    """An event that is set by SIGTERM, Ctrl-C or, on request, the end of standard input."""
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
