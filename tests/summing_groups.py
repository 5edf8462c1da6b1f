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
from decbayes.network import Admit, Agent, Remove, Show, SumRules
from decbayes.network.protocol.sums import Packet, SumPart, packet_from
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
    agreed: dict = field(default_factory=dict)
    """Of each sum, who may be shown."""
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
        shown = {other: key.body for other in terms.seats for key in self.of(terms.digest, "shown", other)}
        for other, private in shown.items():
            if other != seat and seat not in shown:
                pair = masks.pair_seed(terms, private, other, seat, self.of(terms.digest, "key", seat)[0].body)
                words = words - masks.stream(pair, terms.length) * np.uint64(1 if seat < other else 2**64 - 1)
        if seat in shown:
            publics = {other: self.of(terms.digest, "key", other)[0].body for other in terms.seats}
            return [words - masks.Masks.of(terms, seat, shown[seat], publics).words()]
        keys, pairs = self.of(terms.digest, "key", seat), []
        for theirs in self.of(terms.digest, "key", HOSTILE):
            private = self.secrets.get(theirs.body)
            if private is not None and keys:
                pairs.append(masks.pair_seed(terms, private, HOSTILE, seat, keys[0].body))
        for last in self.last_seeds(terms, seat, pairs):
            if committed(terms, seat, last) == packet.commitment:
                words = masks.unmasked(terms, seat, last, words)
                break
        known = [words]
        for pair in pairs:
            mask = masks.stream(pair, terms.length)
            known.append(words - mask if seat < HOSTILE else words + mask)
        return known

    def last_seeds(self, terms, seat, pairs):
        """What may open a member's last mask: what it has given away itself, or all others their pieces of it."""
        place = slice(32 * sorted(terms.seats).index(seat), 32 * sorted(terms.seats).index(seat) + 32)
        yield from (part.body[place] for part in self.of(terms.digest, "opening", seat))
        pieces = {
            other: [part.body[place] for part in self.of(terms.digest, "opening", other)]
            for other in terms.seats
            if other != seat
        }
        if HOSTILE in pieces:
            pieces[HOSTILE] += [masks.derived(terms, pair, b"piece\0" + seat.encode()) for pair in pairs]
        for some in product(*pieces.values()):
            words = np.bitwise_xor.reduce([np.frombuffer(piece, dtype=np.uint8) for piece in some])
            yield words.tobytes()

    def opens(self, terms, bare, some):
        expected = sum(self.vectors[seat] for seat in some) * (terms.round == 1)
        return any(
            (sum(parts[1:], parts[0]).view(np.int64) == expected).all() for parts in product(*(bare[s] for s in some))
        )

    def note(self, terms, some):
        honest = frozenset(terms.seats) - {HOSTILE}
        rest = honest - self.agreed.get(terms.digest, frozenset())
        if rest != honest and some != honest and some & rest in (frozenset(), rest):
            return
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

    def __init__(self, seed, *, make_agent=Agent, hostile=None, votes=None, topology="", audited=1, **rules):
        self.rng = np.random.default_rng(seed)
        self.hostile = seed % 2 == 1 if hostile is None else hostile
        self.votes = seed % 3 > 0 if votes is None else votes
        self.audited = audited
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
                if isinstance(item, SumPart):
                    self.look_at_own(site, item)
            put(items)
            if crash == "after":
                raise Crashed

        site.disk.put = watched

    def look_at_own(self, site, played):
        """A member begins only sums over the seats in force; what it has made is known from now on."""
        (chain, gathered), roster = site.agent.pool.sums.about(played.after, played.terms), site.agent.pool.roster
        sent = Seat.from_bytes(gathered.terms, played.seat).sent
        if "shown" in sent:
            self.look_at_shown(site, gathered)
        made = self.made.setdefault(site.seat, set())
        # A full disk may have made it wait while somebody was removed.
        new = not site.disk.full and sent["key"].digest not in self.tried
        if new and [*sent] == ["key"] and {*chain.keys} != {roster.seats[name].key for name in roster.sitting}:
            raise Broken("a sum is begun over other seats than those in force")
        self.tried.add(sent["key"].digest)
        made.update(message.digest for message in sent.values())

    def look_at_shown(self, site, gathered):
        """Members show only what is open, if all who are shown have voted for it and enough are left."""
        terms, seats = gathered.terms, None
        for ballot in site.agent.pool.decisions.settled.values():
            shown = {*ballot.question.seats} if isinstance(ballot.question, Show) else set()
            if site.seat in shown and shown <= ballot.votes.keys():
                seats = frozenset(shown)
        if seats is None:
            raise Broken(f"{site.seat} shows what not all who are shown have voted for")
        if len(terms.seats) - len(gathered.messages["opening"]) > terms.absent:
            raise Broken("a sum is shown that is not open")
        left = terms.seats.keys() - seats
        if left and len(left) < max(3, terms.colluders + 2):
            raise Broken(f"{sorted(left)} are shown by what is left")
        if self.observer.agreed.setdefault(terms.digest, seats) != seats:
            raise Broken("two sets of members are shown of one sum")

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

    def audit_after_opening(self, *audits, voters=range(SEATS)):
        """Once a sum is open, some members decide that some show what they have added."""
        self.simulation.weather = Weather()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Secrets, "drawn", self.drawn)
            while not self.simulation.sites[0].agent.pool.sums.describe()["opened"]:
                self.together(1)
            sums = self.simulation.sites[0].agent.pool.sums.opened
            for seats in audits:
                terms = sums.sums[min(self.audited, len(sums.sums)) - 1].terms
                for number in voters:
                    self.ballot(self.simulation.sites[number], Show(terms.digest, terms.round, seats))
                self.together(6)
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
        made = Secrets(self.rng.bytes(32))
        self.observer.secrets[masks.public_half(made.private)] = made.private
        return made

    def step(self):
        kinds = ["talk"] * 12 + ["crash"] * 2 + ["cut", "replay", "full", "more"]
        kinds += ["remove", "vote", "vote", "admit", "oust", "audit", "vanish"] if self.votes else []
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

    def do_audit(self, site):
        """Most members want to see what some, or all, have added."""
        chain = site.agent.pool.sums.opened if site.agent is not None else None
        if chain is not None:
            some = self.rng.permutation(sorted(chain.sums[-1].terms.seats))[: int(self.rng.choice([1, 2, 5]))]
            terms = chain.sums[len(chain.results) - 1].terms
            question = Show(terms.digest, terms.round, tuple(sorted(map(str, some))))
            for other in self.simulation.running:
                if self.rng.random() < 0.9:
                    self.ballot(other, question)

    def do_vanish(self, site):
        """A process ends that has masked its numbers, and not opened its part."""
        current = None if site.agent is None or site.agent.pool.sums.why_not else site.agent.pool.sums.now.current
        if current is not None and site.seat in current.messages["masked"].keys() - current.messages["opening"].keys():
            self.simulation.stop(site)

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
            body = self.rng.bytes(32 * len(current.terms.seats))
            message = Message("opening", current.terms.digest, HOSTILE, body, self.rng.bytes(32)).signed(sign)
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
            for kind, messages in {**gathered.messages, **gathered.showing}.items():
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
            for item in site.disk.load():
                if isinstance(item, Packet) and item.message.seat == HOSTILE:
                    held.setdefault((item.message.terms, item.message.kind), set()).add(item.digest)
        return {HOSTILE} if any(len(digests) > 1 for digests in held.values()) else set()
