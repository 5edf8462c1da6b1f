"""Random histories of secure sums: every member has a copy of the folder of its own, and files travel when they like.

Commands are interrupted at any write, copies are cut off from each other, files come late, again, or damaged, members
are left out, and one of them signs second keys and second packets. An observer sees everything that was ever sent.
"""

import shutil
from contextlib import suppress
from itertools import pairwise, product

import numpy as np
import pytest
from masked_sums import NAMES, drawn, signing
from secure_sites import Sites, share_of

from decbayes.errors import SumRefused
from decbayes.secure import Folder, Message, Seat, Secrets, Site, folder, message_from, opened, site
from decbayes.secure.folder import KINDS

HOSTILE = "west"


class Broken(AssertionError):
    """A promise that was not kept."""


class History:
    """Steps drawn from a seed, each followed by a look at all promises."""

    def __init__(self, path, seed, *, hostile=True, names=NAMES):
        self.rng, self.hostile, self.names = np.random.default_rng(seed), hostile, names
        self.start = Sites(path / "start", names, rounds=2)
        self.copies, self.values = {}, self.start.values
        self.private = {name: path / f"{name} only" for name in names}
        for name in names:
            shutil.copytree(self.start.folder.path, path / name)
            self.copies[name] = Folder(path / name)
        self.seen: dict = {}
        self.cut: set = set()
        # Nobody is left out in half of the histories.
        self.missing = names[self.rng.integers(len(names))] if self.rng.random() < 0.5 else ""

    @property
    def honest(self):
        return [name for name in self.names if not (self.hostile and name == HOSTILE)]

    def run(self, steps):
        for _ in range(steps):
            self.step()
            self.look()
        return self

    def settle(self):
        """All copies come together, and everybody acts until nothing happens."""
        self.cut = set()
        for copy in self.copies.values():
            for file in copy.path.glob("round_*/*.*"):
                if file.read_bytes() == b"junk":
                    file.unlink()
        for _ in range(8):
            for one, other in product(self.names, self.names):
                self.carry(one, other)
            for name in self.names:
                begun = any(self.copies[name].path.glob("*-without-*"))
                self.visit(name, without=(self.missing,) if begun and name != self.missing else ())
            self.look()
        return self

    def check_end(self):
        """Where nobody is hostile or left out, both rounds are open in the end.

        If some leave a member out while others already open the sum with it, neither sum ever opens: that is safe.
        """
        for name, copy in self.copies.items():
            if not self.hostile and not self.missing and len(copy.results()) != 2:
                raise Broken(f"{name} sees {len(copy.results())} results")

    def step(self):
        kinds = ["visit"] * 20 + ["carry"] * 40 + ["interrupted"] * 6 + ["cut"] * 2 + ["without", "again", "damage"]
        kinds += ["without"] * 6 if self.missing else []
        kinds += ["second_key", "second_packet"] if self.hostile else []
        kind = kinds[self.rng.integers(len(kinds))]
        one, other = (self.names[k] for k in self.rng.permutation(len(self.names))[:2])
        getattr(self, f"do_{kind}")(one, other)

    def do_visit(self, one, other):
        self.visit(one)

    def do_carry(self, one, other):
        if frozenset((one, other)) not in self.cut:
            self.carry(one, other)

    def do_cut(self, one, other):
        self.cut ^= {frozenset((one, other))}

    def do_without(self, one, other):
        if self.missing not in ("", one):
            self.visit(one, without=(self.missing,))

    def do_interrupted(self, one, other):
        left = int(self.rng.integers(1, 6))
        write = folder.write_whole

        def fails(*words, **options):
            nonlocal left
            left -= 1
            if left == 0:
                raise SumRefused("interrupted")
            write(*words, **options)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(folder, "write_whole", fails)
            patch.setattr(site, "write_whole", fails)
            self.visit(one)

    def do_again(self, one, other):
        """Any message that was ever sent turns up in any place."""
        if self.seen:
            places = sorted(self.seen)
            place, target = (places[self.rng.integers(len(places))] for _ in range(2))
            file = self.copies[one].path / target[0] / place[1]
            if file.parent.is_dir() and not file.exists():
                file.write_bytes(sorted(self.seen[place])[0])

    def do_damage(self, one, other):
        files = sorted(self.copies[one].path.glob("round_*/*.*"))
        if files:
            file = files[self.rng.integers(len(files))]
            file.write_bytes(b"junk") if self.rng.random() < 0.5 else file.unlink()

    def do_second_key(self, one, other):
        current = self.copies[one].next()
        if HOSTILE not in current.terms.seats:
            return
        seat = Seat.begun(current.terms, HOSTILE, signing(HOSTILE).sign, Secrets(drawn(1, one)))
        self.put(one, current, seat.sent["key"])

    def do_second_packet(self, one, other):
        current = self.copies[one].next()
        about = [packet.about for packet in current.of("masked")] or [bytes(32)]
        body = self.rng.bytes(8 * current.terms.length)
        packet = Message("masked", current.terms.digest, HOSTILE, body, about[0], drawn(3))
        self.put(one, current, packet.signed(signing(HOSTILE).sign))

    def put(self, one, current, message):
        if HOSTILE in current.terms.seats:
            current.place.mkdir(exist_ok=True)
            (current.place / f"{HOSTILE}.{message.kind}").write_bytes(message.to_bytes())

    def visit(self, name, without=()):
        member = Site(self.copies[name], name, signing(name).sign, self.private[name])
        with suppress(SumRefused):
            member.advance(lambda *_: share_of(self.values[name]), without)

    def carry(self, one, other):
        for file in self.copies[one].path.glob("round_*/*.*"):
            target = self.copies[other].path / file.parent.name / file.name
            target.parent.mkdir(exist_ok=True)
            if not target.exists() or target.read_bytes() == b"junk":
                target.write_bytes(file.read_bytes())

    def look(self):
        """All promises, given everything that was ever sent."""
        for copy in self.copies.values():
            for file in copy.path.glob("round_*/*.*"):
                self.seen.setdefault((file.parent.name, file.name), set()).add(file.read_bytes())
        sent = self.sent()
        for (name, kind, _), messages in sent.items():
            if name in self.honest and len({message.digest for message in messages}) > 1:
                raise Broken(f"{name} has sent two {kind} messages for one sum")
        self.look_at_openings(sent)
        for copy in self.copies.values():
            self.look_at_results(copy)

    def sent(self):
        """By member, kind and sum: what the member has signed."""
        found: dict = {}
        for content in {content for contents in self.seen.values() for content in contents}:
            try:
                message = message_from(content)
            except SumRefused:
                continue
            if message.seat in self.names:
                found.setdefault((message.seat, message.kind, message.terms), []).append(message)
        return found

    def look_at_openings(self, sent):
        known = self.possible_sums()
        for name in self.honest:
            mine = [terms for (seat, kind, terms) in sent if (seat, kind) == (name, "opening") and terms in known]
            if len({known[terms].round for terms in mine}) < len(mine):
                raise Broken(f"{name} has opened two sums of a round over different members")
            for terms in mine:
                if any((other, "masked", terms) not in sent for other in known[terms].seats):
                    raise Broken(f"{name} has opened before all had masked")
        self.look_at_sums(sent, known)

    def possible_sums(self):
        """The terms of all sums that could have begun, given the results that anybody sees."""
        agreed, sets = self.start.folder.agreement, [(), *((name,) for name in self.names)]
        histories = [[], *(self.results_of(copy)[1] for copy in self.copies.values())]
        every = (agreed.next_terms(history[:1], left_out) for history in histories for left_out in sets)
        return {terms.digest: terms for terms in every}

    def look_at_sums(self, sent, known):
        """What somebody with all messages could add up: at most one sum of each round, and later ones over no more."""
        totals = set()
        for digest, terms in known.items():
            if not all((name, kind, digest) in sent for name in terms.seats for kind in KINDS):
                continue
            packets = [sent[name, "masked", digest] for name in terms.seats]
            openings = [sent[name, "opening", digest][0] for name in terms.seats]
            for chosen in product(*packets):
                with suppress(SumRefused):
                    opened(terms, chosen, openings)
                    totals.add((terms.round, frozenset(terms.seats)))
        ordered = sorted(totals, key=lambda total: (total[0], -len(total[1])))
        for (earlier, more), (later, fewer) in pairwise(ordered):
            if earlier == later or not fewer <= more:
                raise Broken("two sums over different members can be opened")

    def results_of(self, copy):
        try:
            history = copy.opened()
        except SumRefused:
            return [], []
        return history.sums, history.results

    def look_at_results(self, copy):
        sums, results = self.results_of(copy)
        for merged in results:
            members = sums[0].terms.seats
            if merged.share.rows != 5 * len(members):
                raise Broken("a sum is wrong")
            expected = sum(5 * self.values[name] for name in members)
            if abs(merged.posterior.contribution["mean"][0, 0] - expected) > 1e-5:
                raise Broken("a sum is wrong")
