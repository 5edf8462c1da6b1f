"""Random histories of groups that open only sums, and an eavesdropper with a colluder who tries to open more.

The agents are real, on the simulator's links: packets are lost, late, doubled and replayed, links are cut, processes
end before or after any write, members are removed and come back, and one of them signs second messages.
"""

from dataclasses import dataclass, field, replace
from itertools import combinations, product

import numpy as np
import pytest
from groups import gaussian_charter, identities

from decbayes.errors import DecbayesError
from decbayes.network import Admit, Agent, Remove, SumRules
from decbayes.network.protocol.sums import Packet, Played, packet_from
from decbayes.network.protocol.talk.messages import BATCHES, Batch, Packets, decode, encode
from decbayes.network.simulation.simulator import Simulation, Weather
from decbayes.network.simulation.topology import TOPOLOGIES
from decbayes.secure import Message, Seat, Secrets, masks
from decbayes.secure.seat import committed

SEATS, HOSTILE = 5, "agent_4"
ROUGH = Weather(loss=0.1, duplication=0.2, delay=3)


class Broken(AssertionError):
    """A promise that was not kept."""


class Crashed(Exception):
    """The process has ended, at a write."""


def summing_charter(keys, **rules):
    plain = gaussian_charter(keys)
    members = {name.replace(" ", "_"): key for name, key in plain.members.items()}
    return replace(plain, members=members, sums=SumRules(**{"rounds": 2, **rules}))


def vector(charter, data):
    """What a member of a group that estimates one mean adds to the first sum, in steps of 2⁻²⁰; later, nothing."""
    assert charter.settings["variance"] == 1.0
    numbers = [data.sum(), -0.5 * len(data), *[len(data)] * 3, *[0] * 4]
    return np.array([round(number * 2**20) for number in numbers], dtype=np.int64)


@dataclass
class Observer:
    """Everything that was ever sent, and what somebody with the colluder's secrets can make of it."""

    vectors: dict
    secrets: dict = field(default_factory=dict)
    terms: dict = field(default_factory=dict)
    sent: dict = field(default_factory=dict)
    results: dict = field(default_factory=dict)
    opened: dict = field(default_factory=dict)
    fresh: bool = False

    def see(self, packet):
        message = packet.message
        known = self.sent.setdefault((message.terms, message.kind, message.seat), {})
        self.fresh |= message.digest not in known
        known[message.digest] = message

    def of(self, terms, kind, seat):
        return list(self.sent.get((terms, kind, seat), {}).values())

    def attack(self):
        """All sets of honest members whose sum can be computed: those of whole sums only, and no two that differ."""
        if not self.fresh:
            return
        self.fresh = False
        for digest in {digest for digest, kind, _ in self.sent if kind == "masked"} & self.terms.keys():
            terms = self.terms[digest]
            honest = [seat for seat in terms.seats if seat != HOSTILE and self.of(digest, "masked", seat)]
            bare = {seat: self.unmasked(terms, seat) for seat in honest}
            for size in range(1, len(honest) + 1):
                for some in combinations(honest, size):
                    if self.opens(terms, bare, some):
                        self.note(terms, frozenset(some))

    def unmasked(self, terms, seat):
        """A member's numbers without all masks that are known, one for each key that the colluder has signed."""
        packet = self.of(terms.digest, "masked", seat)[0]
        words = np.frombuffer(packet.body, dtype="<u8")
        for opening in self.of(terms.digest, "opening", seat):
            if committed(terms, seat, opening.body) == packet.commitment:
                words = masks.unmasked(terms, seat, opening.body, words)
        keys, known = self.of(terms.digest, "key", seat), [words]
        for theirs in self.of(terms.digest, "key", HOSTILE):
            private = self.secrets.get(theirs.body)
            if private is not None and keys:
                pair = masks.pair_seed(terms, private, HOSTILE, seat, keys[0].body)
                mask = masks.stream(pair, terms.length)
                known.append(words - mask if seat < HOSTILE else words + mask)
        return known

    def opens(self, terms, bare, some):
        expected = sum(self.vectors[seat] for seat in some) * (terms.round == 1)
        return any(
            (sum(parts[1:], parts[0]).view(np.int64) == expected).all() for parts in product(*(bare[s] for s in some))
        )

    def note(self, terms, some):
        honest = frozenset(terms.seats) - {HOSTILE}
        if some != honest or len(some) < 2 or len(terms.seats) < terms.colluders + 2:
            raise Broken(f"{sorted(some)} of {sorted(terms.seats)} are open")
        for number, others in self.opened.items():
            for other in others:
                earlier, later = (other, some) if number < terms.round else (some, other)
                if other & some and (not later <= earlier if number != terms.round else later != earlier):
                    raise Broken("two sums over different members are open")
        self.opened.setdefault(terms.round, set()).add(some)


class Watched(Simulation):
    """A simulation in which everything that is sent is seen."""

    def __init__(self, *arguments, observer, **options):
        super().__init__(*arguments, **options)
        self.observer = observer

    def _transmit(self, site, effect):
        if effect.message.startswith(BATCHES):
            message = decode(effect.message, self.charter)
            if isinstance(message, Batch) and message.records:
                raise Broken("a contribution in the clear")
            for content in message.packets if isinstance(message, Packets) else ():
                self.observer.see(packet_from(content))
                self.overheard.append(effect.message)
        super()._transmit(site, effect)


class SumHistory:
    """One group, step by step, from a seed. `hostile`: the last member cheats; `votes`: members are removed."""

    def __init__(self, seed, *, make_agent=Agent, hostile=None, votes=None, topology="", **rules):
        self.rng = np.random.default_rng(seed)
        self.hostile = seed % 2 == 1 if hostile is None else hostile
        self.votes = seed % 3 > 0 if votes is None else votes
        keys = identities(SEATS)
        self.charter = summing_charter(keys, **rules)
        data = {name: np.arange(1.0, 4.0 + number)[:, None] for number, name in enumerate(self.charter.members)}
        self.data = data
        self.observer = Observer({name: vector(self.charter, rows) for name, rows in data.items()})
        self.simulation = Watched(
            self.charter, keys, rng=self.rng, weather=ROUGH, make_agent=make_agent, observer=self.observer
        )
        self.simulation.ledger.traitors |= {keys[-1].id} if self.hostile else set()
        self.topology = topology or ["clique", "line", "ring"][seed % 3]
        self.made, self.tried, self.tampered = {}, set(), set()
        for site in self.simulation.sites:
            self.arm(site)
        self.rewire()
        for site in self.simulation.sites:
            self.start(site)

    def arm(self, site):
        """Its disk may end the process, before or after a write; and says what was made durable."""
        put = site.disk.put

        def watched(items):
            crash = getattr(site, "crash", "")
            if crash == "before":
                raise Crashed
            for item in items:
                if isinstance(item, Played):
                    self.look_at_own(site, item)
            put(items)
            if crash == "after":
                raise Crashed

        site.disk.put = watched

    def look_at_own(self, site, played):
        """A member begins only sums over the seats in force; what it has made is known from now on."""
        (chain, gathered), roster = site.agent.pool.sums.about(played.after, played.terms), site.agent.pool.roster
        sent = Seat.from_bytes(gathered.terms, played.seat).sent
        made = self.made.setdefault(site.seat, set())
        # A full disk may have made it wait while somebody was removed.
        new = not site.disk.full and sent["key"].digest not in self.tried
        if new and [*sent] == ["key"] and {*chain.keys} != {roster.seats[name].key for name in roster.sitting}:
            raise Broken("a sum is begun over other seats than those in force")
        self.tried.add(sent["key"].digest)
        made.update(message.digest for message in sent.values())

    def start(self, site):
        site.crash = ""
        self.simulation.start(site)
        self.simulation.observe(site, "data", self.data[site.seat])

    def rewire(self):
        sites = len(self.simulation.sites)
        self.simulation.connect({(min(e), max(e)) for e in TOPOLOGIES[self.topology](sites, self.rng)})

    def run(self, steps):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Secrets, "drawn", self.drawn)
            for _ in range(steps):
                self.step()
                self.look()
            self.settle()
        return self

    def oust_after_opening(self):
        """Once a sum is open all processes start again, and an honest member is removed: the others go on."""
        self.simulation.weather = Weather()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Secrets, "drawn", self.drawn)
            for _ in range(20):
                if not self.simulation.sites[0].agent.pool.sums.describe()["opened"]:
                    self.together(1)
            for site in self.simulation.sites:
                self.simulation.stop(site)
            for site in [*self.simulation.sites[:-2], self.simulation.sites[-1]]:
                self.start(site)
            for site in self.simulation.running:
                self.ballot(site, Remove(self.simulation.sites[-2].seat))
            self.together(15)
        return self

    def together(self, steps):
        """Everybody who is there talks and acts."""
        for _ in range(steps):
            for site in self.simulation.running:
                self.act(site)
            self.simulation.advance()
            self.look()

    def drawn(self):
        """Secrets of all members; the observer looks up only those of the colluder's keys."""
        made = Secrets(self.rng.bytes(32), self.rng.bytes(32))
        self.observer.secrets[masks.public_half(made.private)] = made.private
        return made

    def step(self):
        kinds = ["talk"] * 12 + ["crash"] * 2 + ["cut", "replay", "full", "more"]
        kinds += ["remove", "vote", "vote", "admit", "oust"] if self.votes else []
        kinds += ["second", "forge"] if self.hostile else []
        site = self.simulation.sites[int(self.rng.integers(SEATS))]
        getattr(self, f"do_{kinds[int(self.rng.integers(len(kinds)))]}")(site)
        for number in np.flatnonzero(self.rng.random(SEATS) < 0.3):
            self.guarded(self.act, self.simulation.sites[number])
        self.guarded(lambda _: self.simulation.advance(), None)

    def guarded(self, action, site):
        """Do something in which processes may end."""
        try:
            action(site)
        except Crashed:
            for one in self.simulation.running:
                if getattr(one, "crash", ""):
                    one.crash = ""
                    self.simulation.stop(one)

    def act(self, site):
        self.simulation.tick(site)
        if site.agent is not None:
            self.simulation.perform(site, site.agent.add_up())

    def do_talk(self, site):
        self.guarded(self.act, site)

    def do_crash(self, site):
        if site.agent is None:
            self.start(site)
        else:
            site.crash = ["before", "after"][int(self.rng.integers(2))]

    def do_cut(self, site):
        links = set(self.simulation.links)
        if links and self.rng.random() < 0.6:
            links.discard(sorted(links)[int(self.rng.integers(len(links)))])
            self.guarded(lambda _: self.simulation.connect(links), site)
        else:
            self.guarded(lambda _: self.rewire(), site)

    def do_replay(self, site):
        overheard = self.simulation.overheard
        if overheard:
            self.guarded(
                lambda _: self.simulation.inject(site, overheard[int(self.rng.integers(len(overheard)))]), site
            )

    def do_full(self, site):
        site.disk.full = not site.disk.full

    def do_more(self, site):
        """New data at a site; they count in no sum that has begun."""
        if site.agent is not None and site.agent.part.shards:
            try:
                site.agent.observe(np.full((3, 1), 7.0), shard="more", rng=self.rng)
            except DecbayesError:
                return

    def ballot(self, site, question):
        if site.agent is not None:
            try:
                self.guarded(lambda _: self.simulation.perform(site, site.agent.propose(question)), site)
            except DecbayesError:
                return

    def do_remove(self, site):
        name = f"agent_{int(self.rng.integers(SEATS))}"
        if site.agent is not None and name in site.agent.pool.roster.sitting and self.rng.random() < 0.3:
            self.ballot(site, Remove(name))

    def do_oust(self, site):
        """A process ends, and most of the others go on without it."""
        if site.agent is None or site.seat not in site.agent.pool.roster.sitting:
            return
        self.simulation.stop(site)
        for other in self.simulation.running:
            if self.rng.random() < 0.8:
                self.ballot(other, Remove(site.seat))

    def do_vote(self, site):
        if site.agent is not None and site.agent.pool.decisions.pending:
            pending = sorted(site.agent.pool.decisions.pending.items())
            self.ballot(site, pending[0][1].question)

    def do_admit(self, site):
        if site.agent is not None:
            gone = [seat for seat in site.agent.pool.roster.seats.values() if not seat.present]
            if gone:
                self.ballot(site, Admit(gone[0].name, gone[0].key))

    def do_second(self, site):
        """The hostile member signs another message for a sum, and sends it to one of the others."""
        if site.agent is None or site.seat == HOSTILE or site.agent.pool.sums.why_not:
            return
        chain = site.agent.pool.sums.now
        current = chain.current
        if current is None or HOSTILE not in chain.agreement.members:
            return
        sign = self.simulation.sites[-1].identity.private.sign
        kind = ["key", "masked", "opening"][int(self.rng.integers(3))]
        if kind == "key":
            message = Seat.begun(current.terms, HOSTILE, sign).sent["key"]
        elif kind == "masked":
            about = [packet.about for packet in current.of("masked")] or [bytes(32)]
            body = self.rng.bytes(8 * current.terms.length)
            message = Message("masked", current.terms.digest, HOSTILE, body, about[0], self.rng.bytes(32)).signed(sign)
        else:
            message = Message("opening", current.terms.digest, HOSTILE, self.rng.bytes(32), self.rng.bytes(32)).signed(
                sign
            )
        self.tampered.add(current.terms.digest)
        packet = Packet(chain.after, message)
        self.observer.see(packet)
        self.guarded(lambda _: self.simulation.inject(site, encode(Packets(packets=(packet.content,)))), site)

    def do_forge(self, site):
        """A key or masked numbers in the name of an honest member, which it has not signed."""
        if site.agent is None or site.agent.pool.sums.why_not or site.agent.pool.sums.now.current is None:
            return
        chain, seat = site.agent.pool.sums.now, f"agent_{int(self.rng.integers(SEATS - 1))}"
        key = Message("key", chain.current.terms.digest, seat, self.rng.bytes(32), signature=self.rng.bytes(64))
        packet = Packet(chain.after, key)
        self.guarded(lambda _: self.simulation.inject(site, encode(Packets(packets=(packet.content,)))), site)

    # What must hold

    def look(self):
        for site in self.simulation.running:
            for chain in site.agent.pool.sums.chains.values():
                self.look_at(site, chain)
        for (terms, kind, seat), messages in self.observer.sent.items():
            if seat != HOSTILE and len(messages) > 1:
                raise Broken(f"{seat} has signed two {kind} messages for one sum")
            if seat != HOSTILE and not messages.keys() <= self.made.get(seat, set()):
                raise Broken(f"{seat} has sent what was not durable")
            if kind == "opening" and seat != HOSTILE and terms in self.observer.terms:
                seats = self.observer.terms[terms].seats
                if any(not self.observer.of(terms, "masked", other) for other in seats if other != seat):
                    raise Broken(f"{seat} has opened before all had masked")
        self.observer.attack()

    def look_at(self, site, chain):
        honest = site.seat != HOSTILE or not self.hostile
        for gathered in chain.sums:
            self.observer.terms[gathered.terms.digest] = gathered.terms
            for kind, messages in gathered.messages.items():
                for seat, message in messages.items():
                    if seat != HOSTILE and message.digest not in self.made.get(seat, set()):
                        raise Broken(f"{site.seat} holds a {kind} message that {seat} has never made")
        for number, merged in enumerate(chain.results, 1):
            if len(chain.agreement.members) < 3:
                raise Broken("a sum over fewer than three members")
            sets = tuple(tuple(sorted(gathered.terms.seats)) for gathered in chain.sums[:number])
            known = self.observer.results.setdefault(sets, merged.posterior.digest)
            if known != merged.posterior.digest:
                raise Broken("two different results of one sum")
            if not honest or self.tampered & {gathered.terms.digest for gathered in chain.sums}:
                continue
            total = sum(self.observer.vectors[seat] for seat in chain.sums[0].terms.seats) / 2**20
            found = [*merged.posterior.contribution["mean"][0], merged.share.rows]
            if not np.array_equal(found, total[:3]):
                raise Broken("a wrong sum")

    def settle(self):
        """The faults end: everybody is back and talks, and all that are honest hold the same."""
        simulation = self.simulation
        simulation.weather = Weather()
        for site in simulation.sites:
            site.disk.full, site.crash = False, ""
            if site.agent is None:
                self.start(site)
        self.rewire()
        self.together(30)
        honest = [site.agent for site in simulation.sites if site.seat != HOSTILE or not self.hostile]
        if len({agent.pool.root for agent in honest}) > 1:
            raise Broken("honest agents hold different sets")
        if len({agent.posterior().digest for agent in honest}) > 1:
            raise Broken("honest agents have different posteriors")
        caught = self.doubled() & {key for agent in honest for key in agent.pool.roster.sitting}
        if caught:
            raise Broken("somebody who has signed two messages still sits")
        if not self.hostile and not self.votes and honest[0].pool.sums.describe()["opened"] != 2:
            raise Broken(f"not all rounds are open: {honest[0].pool.sums.describe()}")

    def doubled(self):
        """Whether the hostile member has signed two messages that all honest ones could compare."""
        held = {}
        for site in self.simulation.running:
            for item in site.disk.sums.values():
                if isinstance(item, Packet) and item.message.seat == HOSTILE:
                    held.setdefault((item.message.terms, item.message.kind), set()).add(item.digest)
        return {HOSTILE} if any(len(digests) > 1 for digests in held.values()) else set()
