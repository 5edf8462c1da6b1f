"""Attacks on secure sums, and sums with one rule broken, each of which an attack catches."""

import shutil
from dataclasses import replace

import numpy as np
import pytest
from masked_sums import NAMES, Sum, drawn, signing, terms_of, whole
from secure_sites import ANCHOR, Sites, agreed, opened_total, share_of

from decbayes.errors import SumRefused
from decbayes.secure import Folder, Message, Seat, Share, folder, masks, opened, seat, site, terms

ONES = {name: [1] * 6 for name in NAMES}


def refused(action):
    """Whether a step is refused."""
    try:
        action()
    except SumRefused:
        return True
    return False


def masking(made, name, keys, numbers=1):
    return made.seats[name].masking(np.full(6, numbers), keys, signing(name).sign)


# ---- attacks: each fails on sums as they are


def two_keys(tmp_path):
    made = Sum(terms_of(), ONES).begin()
    other = Seat.begun(made.terms, "north", signing("north").sign).sent["key"]
    assert refused(lambda: masking(made, "west", [*made.sent("key"), other]))


def forged_key(tmp_path):
    made = Sum(terms_of(), ONES).begin()
    forged = Seat.begun(made.terms, "north", signing("east").sign).sent["key"]
    assert refused(lambda: masking(made, "west", [forged if k.seat == "north" else k for k in made.sent("key")]))


def key_of_another_round(tmp_path):
    made, old = (Sum(terms_of(round=number), ONES).begin() for number in (1, 2))
    keys = [*old.sent("key")[:1], *made.sent("key")[1:]]
    assert refused(lambda: masking(made, "west", keys))


def own_key_exchanged(tmp_path):
    """A backup was restored, or the signing key is used elsewhere: masks would not cancel."""
    made = Sum(terms_of(), ONES).begin()
    other = Seat.begun(made.terms, "west", signing("west").sign).sent["key"]
    assert refused(lambda: masking(made, "west", [other if k.seat == "west" else k for k in made.sent("key")]))


def two_vectors(tmp_path):
    made = Sum(terms_of(), ONES).begin().mask()
    packets = {made.seats["west"].sent["masked"].body}
    if not refused(lambda: packets.add(masking(made, "west", made.sent("key"), 2).sent["masked"].body)):
        assert len(packets) == 1


def early_opening(tmp_path):
    made = Sum(terms_of(), ONES).begin().mask("east", "north", "south")
    assert refused(lambda: made.open("east"))


def different_keys(tmp_path):
    made = Sum(terms_of(), ONES).begin().mask("east", "north", "south")
    other = Seat.begun(made.terms, "north", signing("north").sign).sent["key"]
    made.seats["west"] = masking(made, "west", [other if k.seat == "north" else k for k in made.sent("key")])
    assert refused(lambda: made.open("east"))


def own_packet_exchanged(tmp_path):
    made = Sum(terms_of(), ONES).begin().mask()
    own = made.seats["west"].sent["masked"]
    forged = Message("masked", own.terms, "west", bytes(48), own.about, own.commitment).signed(signing("west").sign)
    packets = [forged if packet.seat == "west" else packet for packet in made.sent("masked")]
    assert refused(lambda: made.seats["west"].opening(packets, signing("west").sign))


def opening_what_was_given_up(tmp_path):
    made = Sum(terms_of(), ONES).begin().mask()
    assert refused(lambda: made.seats["west"].giving_up().opening(made.sent("masked"), signing("west").sign))


def giving_up_what_was_opened(tmp_path):
    assert refused(whole(ONES).seats["west"].giving_up)


def sum_without_openings(tmp_path):
    """Packets alone never add up to the sum."""
    made = Sum(terms_of(), ONES).begin().mask()
    total = sum(np.frombuffer(packet.body, dtype="<u8") for packet in made.sent("masked")).view(np.int64)
    assert total.tolist() != [4] * 6


def pairs_of_packets(tmp_path):
    """Nothing is known of two members' sum while the others' packets are hidden."""
    made = Sum(terms_of(), ONES).begin().mask()
    words = {p.seat: np.frombuffer(p.body, dtype="<u8") for p in made.sent("masked")}
    last = {name: masks.last_mask(made.terms, name, s._masks(s.keys).last) for name, s in made.seats.items()}
    alone = {name: (words[name] - last[name]).view(np.int64) for name in NAMES}
    for one in NAMES:
        assert alone[one].tolist() != [1] * 6
        for other in set(NAMES) - {one}:
            assert (alone[one] + alone[other]).tolist() != [2] * 6


def masks_of_two_rounds(tmp_path):
    """The same secrets in two rounds: the difference of two packets is not that of the numbers."""
    first, second = (Sum(terms_of(round=number), ONES).begin().mask() for number in (1, 2))
    one, other = (np.frombuffer(made.sent("masked")[0].body, dtype="<u8") for made in (first, second))
    assert (one - other).tolist() != [0] * 6


def wrong_sum(tmp_path):
    assert whole({name: [place, 7, -place, 0, 1, 2] for place, name in enumerate(NAMES)}).result()[1] == 28


def last_word(tmp_path):
    made = whole(ONES)
    cheat = Message("opening", made.terms.digest, "west", 4 * drawn(1), made.sent("opening")[0].about)
    parts = [*made.sent("opening")[:-1], cheat.signed(signing("west").sign)]
    with pytest.raises(SumRefused) as error:
        opened(made.terms, made.sent("masked"), parts)
    assert "opening of west" in str(error.value)


def opened_something_else(tmp_path):
    made = whole(ONES)
    own = made.sent("opening")[-1]
    other = Message("opening", own.terms, own.seat, own.body, drawn(2)).signed(signing(own.seat).sign)
    assert refused(lambda: opened(made.terms, made.sent("masked"), [*made.sent("opening")[:-1], other]))


def too_few(tmp_path):
    assert refused(lambda: terms_of(NAMES[:2]))


def too_many_colluders(tmp_path):
    assert refused(lambda: terms_of(NAMES, colluders=3))


def numbers_that_wrap(tmp_path):
    assert refused(lambda: whole({name: [2**62] * 6 for name in NAMES}))


def a_sum_out_of_range(tmp_path):
    """A member that masks in another way is noticed."""
    made = whole(ONES)
    packet = made.sent("masked")[0]
    changed = bytes(8) + packet.body[8:]
    forged = Message("masked", packet.terms, packet.seat, changed, packet.about, packet.commitment)
    packets = [forged.signed(signing(packet.seat).sign), *made.sent("masked")[1:]]
    about = terms.digest_of({each.seat: each for each in packets})
    parts = [
        Message("opening", p.terms, p.seat, p.body, about).signed(signing(p.seat).sign) for p in made.sent("opening")
    ]
    assert refused(lambda: opened(made.terms, packets, parts))


def weak_key(tmp_path):
    made = Sum(terms_of(), ONES).begin()
    weak = Message("key", made.terms.digest, "north", bytes(32)).signed(signing("north").sign)
    assert refused(lambda: masking(made, "west", [weak if k.seat == "north" else k for k in made.sent("key")]))


def late_packet(tmp_path):
    """South is left out, and its packet for the sum of all comes late: only one of both sums opens."""
    sites = Sites(tmp_path)
    sites.turns().turns("east", "north", "west")
    away = tmp_path / "south has this"
    shutil.copytree(sites.folder.path, away)
    rest = ("east", "north", "west")
    sites.turns(*rest, times=3, without=("south",))
    assert opened_total(sites.folder) == sites.total(rest)
    larger = sites.folder.agreement.next_terms()
    assert all(sites.site(name)._stored(larger).secrets is None for name in rest)
    # South masks for all, and everything that was ever sent comes together.
    sites.visit("south", folder=Folder(away))
    for file in (away / "round_1").iterdir():
        shutil.copy(file, sites.folder.path / "round_1")
    for name in rest:
        refused(lambda name=name: sites.visit(name, folder=Folder(away)))
    joined = Folder(away).looked_at(folder.Opened(sites.folder.agreement.members), ())
    assert not joined.is_open
    assert len(joined.messages["masked"]) == 4


def left_out_after_a_result(tmp_path):
    """Once a sum is open, a later one may be over fewer members: it adds what has changed, and south stays in."""
    sites = Sites(tmp_path)
    while not sites.folder.results():
        sites.turns()
    rest = ("east", "north", "west")
    before, sites.values = sites.total(), {name: value + 1.0 for name, value in sites.values.items()}
    sites.turns(*rest, times=3, without=("south",))
    assert len(sites.folder.opened().sums[1].terms.seats) == 3
    assert opened_total(sites.folder, 2) == before + 5.0 * len(rest)
    assert sites.folder.results()[1].share.rows == 20, "nothing of that is counted twice"


def left_out_of_a_round_that_is_half_open(tmp_path):
    """Whoever has opened its part of a sum takes part in no other sum of that round."""
    sites = Sites(tmp_path)
    names = (name for _ in range(9) for name in NAMES)
    while sites.folder.next().number == 1 or not sites.folder.next().messages["opening"]:
        sites.visit(next(names))
    opened_by = sites.folder.next().messages["opening"].keys()
    gone = min(set(NAMES) - opened_by)
    for name in sorted(opened_by):
        assert refused(lambda name=name: sites.visit(name, without=(gone,)))
    assert len(sites.folder.results()) == 1


def gone_after_masking(tmp_path):
    """West masks its numbers and never comes back: the others open the sum with it, and go on without it."""
    sites = Sites(tmp_path)
    rest = ("east", "north", "south")
    while "west" not in sites.folder.next().messages["masked"]:
        sites.turns()
    sites.turns(*rest, times=3)
    assert opened_total(sites.folder) == sites.total()
    assert not refused(lambda: sites.turns(*rest, times=3, without=("west",)))
    assert [len(one.terms.seats) for one in sites.folder.opened().sums] == [4, 3]


def same_model_other_members(tmp_path):
    """Another study with fewer members, at this anchor or another: the difference would be the missing member."""
    Sites(tmp_path, rounds=1).turns(times=3)
    for number, anchor in enumerate((ANCHOR, share_of(3.0).posterior)):
        other = Sites(tmp_path, names=("east", "north", "west"), folder=f"{number}", rounds=1, anchor=anchor)
        assert refused(lambda other=other: other.turns(times=3))


def only_this_anchor(self, about):
    """Looks up the anchor in place of the model."""
    before = self._opened().get(about.anchor)
    if before is not None and before != site.members_of(about):
        raise SumRefused("no")


def remembers_the_anchor(self, about):
    opened_before = self._opened() | {about.anchor: site.members_of(about)}
    site.write_whole(self._private_folder() / site.OPENED, site.json.dumps(opened_before).encode(), private=True)


def nobody_is_left_out_unasked(tmp_path):
    sites = Sites(tmp_path).turns()
    sites.visit("east", without=("south",))
    sites.turns("north", "west", times=3)
    smaller = sites.folder.looked_at(folder.Opened(sites.folder.agreement.members), ("south",))
    assert set(smaller.messages["key"]) == {"east"}


def interrupted(tmp_path):
    """A command that stops at any write and runs again publishes one key and one packet per sum."""
    for stop in range(1, 5):
        sites = Sites(tmp_path / str(stop), rounds=1)
        seen: dict = {}
        for name in NAMES * 3:
            with failing_write(stop):
                _ = refused(lambda name=name, sites=sites: sites.visit(name))
            watch(sites.folder, seen)
            sites.visit(name)
            watch(sites.folder, seen)
        assert opened_total(sites.folder) == sites.total()


def lost_file(tmp_path):
    """A message that vanishes from the folder is sent again as it was."""
    sites = Sites(tmp_path)
    sites.visit("north")
    file = sites.folder.path / "round_1" / "north.key"
    before = file.read_bytes()
    file.unlink()
    sites.visit("north")
    assert file.read_bytes() == before


def replaced_file(tmp_path):
    """Somebody has put something else in its place: it is not written over, for it may say what has happened."""
    sites = Sites(tmp_path)
    sites.visit("north")
    file = sites.folder.path / "round_1" / "north.key"
    file.write_bytes(b"junk")
    assert refused(lambda: sites.visit("north"))
    assert file.read_bytes() == b"junk"


class failing_write:
    """The n-th file that is written is not."""

    def __init__(self, number):
        self.left, self.patch = number, pytest.MonkeyPatch()

    def __enter__(self):
        whole_write = folder.write_whole

        def write(*words, **options):
            self.left -= 1
            if self.left == 0:
                raise SumRefused("no room")
            whole_write(*words, **options)

        for module in (folder, site):
            self.patch.setattr(module, "write_whole", write)

    def __exit__(self, *error):
        self.patch.undo()


def watch(shared, seen):
    """Note every message that was ever there: of one member and sum there is one of a kind."""
    for file in shared.path.glob("round_*/*.*"):
        assert seen.setdefault(str(file), file.read_bytes()) == file.read_bytes(), file


def a_link_in_place_of_a_folder(tmp_path):
    sites = Sites(tmp_path)
    (tmp_path / "elsewhere").mkdir()
    (sites.folder.path / "round_1").symlink_to(tmp_path / "elsewhere")
    assert refused(lambda: sites.visit("north"))
    assert not any((tmp_path / "elsewhere").iterdir())


def forged_file(tmp_path):
    """A message in somebody's name, put into the folder."""
    sites = Sites(tmp_path)
    current = sites.folder.next()
    forged = Seat.begun(current.terms, "north", signing("east").sign).sent["key"]
    current.place.mkdir()
    (current.place / "north.key").write_bytes(forged.to_bytes())
    assert "north" not in sites.folder.next().messages["key"]


def another_anchor(tmp_path):
    shared = Folder.begin(tmp_path / "shared", agreed())
    from decbayes.files import save

    save(share_of(3.0).posterior, shared.path / folder.ANCHOR)
    assert refused(lambda: Folder(shared.path).agreement)


def heavy_member(tmp_path):
    """A member with more rows than agreed weighs no more."""
    sites = Sites(tmp_path, most_rows=10)
    rows = {"west": 1000}
    for _ in range(3):
        for name in NAMES:
            sites.site(name).advance(lambda *_, name=name: share_of(sites.values[name], rows.get(name, 5)))
    assert sites.folder.results()[0].share.rows == 25


ATTACKS = [
    each
    for each in [*globals().values()]
    if getattr(each, "__code__", ONES) is not ONES and each.__code__.co_varnames[:1] == ("tmp_path",)
]


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.__name__)
def test_an_attack_fails(attack, tmp_path):
    attack(tmp_path)


# ---- sums with one rule broken


def newest_counts(about, messages, kind):
    return {message.seat: message for message in messages}


def unsigned(terms, message, kind):
    if message.kind != kind or message.seat not in terms.seats or message.terms != terms.digest:
        raise SumRefused("no")


def of_any_sum(about, message, kind):
    if (
        message.kind != kind
        or message.seat not in about.seats
        or not terms.signed_by(about.seats[message.seat], message)
    ):
        raise SumRefused("no")


def masks_again(self, steps, keys, sign):
    sent = {kind: message for kind, message in self.sent.items() if kind != "masked"}
    return MASKING(replace(self, sent=sent), steps, keys, sign)


def trusts_its_key(self, steps, keys, sign):
    keys = list(keys)
    own = [key for key in keys if key.seat == self.name]
    return MASKING(replace(self, sent={**self.sent, "key": own[0]}), steps, keys, sign)


def opens_anything(self, packets, sign):
    message = Message("opening", self.terms.digest, self.name, self._masks(self.keys).parts(), bytes(32))
    return replace(self, sent={**self.sent, "opening": message.signed(sign)})


def keeps_secrets(self):
    return replace(self, given_up=True)


def gives_up_late(self):
    return replace(self, secrets=None, given_up=True)


def trusts_its_packet(self, packets, sign):
    packets = list(packets)
    own = [packet for packet in packets if packet.seat == self.name]
    return OPENING(replace(self, sent={**self.sent, "masked": own[0]}), packets, sign)


def any_keys(about, packets):
    return terms.one_of_each(about, packets, "masked")


def same_in_all_sums(about, secret, purpose):
    return DERIVED(terms_of(), secret, purpose)


def no_mask(about, own, last):
    return np.zeros(about.length, dtype=np.uint64)


def no_pair_masks(self):
    return masks.last_mask(self.terms, self.member, self.last)


def one_sign(self):
    return sum((masks.stream(seed, self.terms.length) for seed in self.pairs.values()), start=no_pair_masks(self))


def only_the_next(self):
    """Masks between neighbours in pairs only, as somebody might do who finds n² too many."""
    names = sorted(self.terms.seats)
    other = names[names.index(self.member) ^ 1]
    mask = masks.stream(self.pairs[other], self.terms.length)
    return no_pair_masks(self) + mask if self.member < other else no_pair_masks(self) - mask


def any_opening(about, name, last):
    return bytes(32)


def any_set(seats, colluders):
    return None


def two_are_enough(seats, colluders):
    if len(seats) < 2:
        raise SumRefused("no")


def colluders_ignored(seats, colluders):
    if len(seats) < 3:
        raise SumRefused("no")


def any_steps(about, steps):
    return np.ascontiguousarray(np.asarray(steps), dtype="<i8")


def weak_seed(about, private, own, other, key):
    try:
        return PAIR_SEED(about, private, own, other, key)
    except SumRefused:
        return masks.derived(about, bytes(32), b"pair")


def unchecked_sum(about, packets, openings):
    total = np.zeros(about.length, dtype=np.uint64)
    given = {packet.seat: packet for packet in packets}
    for part in openings:
        words = np.frombuffer(given[part.seat].body, dtype="<u8")
        total += masks.unmasked(about, part.seat, seat.piece_of(about, part.seat, part), words)
    return total.view(np.int64)


def unchecked_file(file, about):
    return terms.message_from(file.read_bytes())


def drawn_again(self, current, stored):
    return Seat.begun(current.terms, self.name, self.sign)


def always_new(self, about):
    return None


def published_first(self, contribute, without):
    """Secrets are stored after the key was sent."""
    current = self.current(without)
    kind, missing = current.waiting_for()
    if kind is None or self.name not in missing:
        return None
    if kind != "key":
        return STEP(self, contribute, without)
    seat_now = self._keyed(current, None)
    self.folder.publish(current, seat_now.sent[kind])
    self._store(seat_now)
    return kind


def agrees_to_anything(self, without=(), history=None):
    shared = self.folder.next()
    return CURRENT(self, without or (self.folder.agreement.members.keys() - shared.terms.seats.keys()), history)


def all_again(self, share, before):
    return share.steps(self.step)


def anchor_unchecked(cls, text, anchor):
    return agreed()


def nothing(*words, **options):
    return None


def itself(self, most):
    return self


MASKING, OPENING, DERIVED, PAIR_SEED = Seat.masking, Seat.opening, masks.derived, masks.pair_seed
STEP, CURRENT = site.Site._step, site.Site.current

BROKEN = {
    "two keys of a member: the newer one counts": (seat, "one_of_each", newest_counts, two_keys),
    "signatures are not checked": (terms, "check_message", unsigned, forged_key),
    "keys of other rounds count": (terms, "check_message", of_any_sum, key_of_another_round),
    "numbers can be masked twice": (Seat, "masking", masks_again, two_vectors),
    "a site's key is whatever lies there": (Seat, "masking", trusts_its_key, own_key_exchanged),
    "a site opens before all have masked": (Seat, "opening", opens_anything, early_opening),
    "a site's packet is whatever lies there": (Seat, "opening", trusts_its_packet, own_packet_exchanged),
    "packets for different keys are opened": (seat, "checked_packets", any_keys, different_keys),
    "secrets of what was given up are kept": (Seat, "giving_up", keeps_secrets, opening_what_was_given_up),
    "what was opened can be given up": (Seat, "giving_up", gives_up_late, giving_up_what_was_opened),
    "masks are those of every sum": (masks, "derived", same_in_all_sums, masks_of_two_rounds),
    "no last mask": (masks, "last_mask", no_mask, sum_without_openings),
    "no masks between members": (masks.Masks, "words", no_pair_masks, pairs_of_packets),
    "masks between neighbours only": (masks.Masks, "words", only_the_next, pairs_of_packets),
    "both of a pair add their mask": (masks.Masks, "words", one_sign, wrong_sum),
    "openings are not fixed beforehand": (seat, "committed", any_opening, last_word),
    "openings of other packets count": (seat, "opened", unchecked_sum, opened_something_else),
    "the size of a sum is not checked": (seat, "opened", unchecked_sum, a_sum_out_of_range),
    "any number of members": (terms, "check_seats", any_set, too_few),
    "two members": (terms, "check_seats", two_are_enough, too_few),
    "colluders are not counted": (terms, "check_seats", colluders_ignored, too_many_colluders),
    "numbers of any size": (seat, "checked_steps", any_steps, numbers_that_wrap),
    "keys without a secret": (masks, "pair_seed", weak_seed, weak_key),
    "sums over more members are not given up": (site.Site, "_give_up_all_but", nothing, late_packet),
    "opened sums are not remembered": (site.Site, "_remember_opened", nothing, same_model_other_members),
    "opened sums are not looked up": (site.Site, "_check_opened", nothing, same_model_other_members),
    "a site draws its key again": (site.Site, "_keyed", drawn_again, lost_file),
    "a site forgets its secrets": (site.Site, "_stored", always_new, lost_file),
    "messages are sent before secrets are stored": (site.Site, "_step", published_first, interrupted),
    "members are left out unasked": (site.Site, "current", agrees_to_anything, nobody_is_left_out_unasked),
    "a later round adds all again": (folder.Agreement, "added", all_again, left_out_after_a_result),
    "what was opened is given up for fewer": (Seat, "giving_up", gives_up_late, left_out_of_a_round_that_is_half_open),
    "files are not checked": (folder, "read_message", unchecked_file, forged_file),
    "any anchor": (folder.Agreement, "of", classmethod(anchor_unchecked), another_anchor),
    "no bound on a member": (Share, "bounded", itself, heavy_member),
}


def test_remembering_anchors_in_place_of_models_is_caught(tmp_path, monkeypatch):
    monkeypatch.setattr(site.Site, "_check_opened", only_this_anchor)
    monkeypatch.setattr(site.Site, "_remember_opened", remembers_the_anchor)
    with pytest.raises(AssertionError):
        same_model_other_members(tmp_path)


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_sum_is_caught(name, tmp_path, monkeypatch):
    place, attribute, broken, attack = BROKEN[name]
    monkeypatch.setattr(place, attribute, broken)
    if attribute == "opened":
        monkeypatch.setitem(globals(), "opened", broken)
    with pytest.raises((AssertionError, SumRefused)):
        attack(tmp_path)
