"""Secure sums: exact, closed to all but everybody together, and only over the set of members that was agreed on."""

from collections import Counter
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from masked_sums import NAMES, Sum, drawn, public, signing, terms_of, whole
from scipy.stats import chisquare, norm

import decbayes as db
from decbayes.errors import SumRefused
from decbayes.secure import Message, Seat, Secrets, Share, Terms, contribution, message_from, opened
from decbayes.secure import masks as masks_module
from decbayes.secure.seat import piece_of

LARGEST = 2**53 // 4


@given(st.lists(st.lists(st.integers(-LARGEST, LARGEST), min_size=4, max_size=4), min_size=1, max_size=9))
def test_a_sum_is_exact(rows):
    numbers = {name: [row[place] for row in rows] for place, name in enumerate(NAMES)}
    assert whole(numbers).result().tolist() == [sum(row) for row in rows]


def test_the_largest_numbers_of_all_members_add_up_exactly():
    for sign in (1, -1):
        numbers = {name: [sign * LARGEST] * 2 for name in NAMES}
        assert whole(numbers).result().tolist() == [sign * 4 * LARGEST] * 2
    with pytest.raises(SumRefused, match=r"beyond ±.*Agree on a larger step"):
        whole({name: [LARGEST + 1] for name in NAMES})


@pytest.mark.parametrize("value", [0, 1, -1, LARGEST])
def test_all_packets_but_one_look_like_chance(value):
    """Bytes of the packets of any all-but-one members, and of their sum, are uniform whatever was masked."""
    length = 4000
    made = whole({name: [value] * length for name in NAMES}, secret=value)
    words = {packet.seat: np.frombuffer(packet.body, dtype="<u8") for packet in made.sent("masked")}
    last = {
        part.seat: masks_module.last_mask(made.terms, part.seat, piece_of(made.terms, part.seat, part))
        for part in made.sent("opening")
    }
    for members in combinations(NAMES, 3):
        packets = sum(words[name] for name in members)
        for seen in (packets, packets - sum(last[name] for name in members)):
            counts = np.bincount(seen.view(np.uint8), minlength=256)
            assert chisquare(counts).pvalue > 1e-5


def test_streams_of_different_pairs_rounds_and_sets_have_nothing_in_common():
    seeds = Counter()
    sums = [terms_of(), terms_of(round=2), terms_of(anchor="1" * 64), terms_of(length=7), terms_of(group="other")]
    sums += [terms_of(NAMES[:3]), terms_of(step=2.0**-10), terms_of(colluders=2)]
    for terms in sums:
        private = {name: drawn("private", name) for name in terms.seats}
        for one, other in combinations(terms.seats, 2):
            seed = masks_module.pair_seed(terms, private[one], one, other, masks_module.public_half(private[other]))
            back = masks_module.pair_seed(terms, private[other], other, one, masks_module.public_half(private[one]))
            assert seed == back
            seeds[seed] += 1
        publics = {name: masks_module.public_half(key) for name, key in private.items()}
        for name, key in private.items():
            parts = masks_module.Masks.of(terms, name, key, publics).parts()
            seeds.update(parts[place : place + 32] for place in range(0, len(parts), 32))
    assert max(seeds.values()) == 1


def observed(numbers, monkeypatch, shifts=None):
    """All that is ever sent, if streams were chance; `shifts` moves the stream of one pair of members."""
    names, random, memory = {}, np.random.default_rng(5), {}
    known = masks_module.pair_seed

    def pair_seed(terms, private, own, other, key):
        seed = known(terms, private, own, other, key)
        names[seed] = tuple(sorted((own, other)))
        return seed

    def stream(seed, length):
        if seed not in memory:
            memory[seed] = random.integers(0, 2**64, size=length, dtype=np.uint64)
            if shifts is not None and names.get(seed) == shifts[0]:
                memory[seed] = memory[seed] + np.array(shifts[1], dtype=np.int64).view(np.uint64)
        return memory[seed]

    monkeypatch.setattr(masks_module, "pair_seed", pair_seed)
    monkeypatch.setattr(masks_module, "stream", stream)
    made = whole(numbers)
    monkeypatch.undo()
    return [message.digest for kind in ("key", "masked", "opening") for message in made.sent(kind)]


@pytest.mark.parametrize("honest", list(combinations(NAMES, 2)))
def test_all_but_two_who_join_forces_learn_only_the_sum_of_the_two(honest, monkeypatch):
    """Numbers of the two that differ, with the same sum: for each there are masks unknown to all others under which
    every single message ever sent is the same. So nothing that was sent can tell them apart."""
    one, other = honest
    before = {name: [3, -5, 2**40, 0] for name in NAMES}
    moved = np.array([7, 10**12, -(2**40), 1])
    after = {**before, one: (before[one] + moved).tolist(), other: (before[other] - moved).tolist()}
    shift = (honest, -moved)
    assert observed(before, monkeypatch) == observed(after, monkeypatch, shift)
    # Another sum of the two is seen, and so are numbers whose masks are not moved with them.
    assert observed(before, monkeypatch) != observed(after, monkeypatch)
    assert observed(before, monkeypatch) != observed({**after, one: before[one]}, monkeypatch, shift)


def test_a_late_packet_of_a_sum_that_was_given_up_stays_closed():
    """Without the last masks of those who gave up, the packets of all do not add up to the sum."""
    numbers = {name: [place] * 50 for place, name in enumerate(NAMES)}
    made = Sum(terms_of(length=50), numbers).begin().mask("east", "north", "south")
    given_up = {name: made.seats[name].giving_up() for name in ("east", "north", "south")}
    assert all(seat.secrets is None for seat in given_up.values())
    made.mask("west")
    total = sum(np.frombuffer(packet.body, dtype="<u8") for packet in made.sent("masked"))
    assert abs(total.view(np.int64).astype(float)).min() > 2**40
    for seat in given_up.values():
        with pytest.raises(SumRefused, match="has given up this sum: it stays closed"):
            seat.opening(made.sent("masked"), signing(seat.name).sign)


def test_one_part_of_the_opening_may_be_missing_where_the_terms_allow_it():
    numbers = {name: [place, -7] for place, name in enumerate(NAMES)}
    for absent, present in ((1, NAMES), (1, NAMES[1:]), (1, NAMES[:-1]), (0, NAMES[1:]), (1, NAMES[2:])):
        made = Sum(terms_of(length=2, absent=absent), numbers).begin().mask().open(*present)
        if len(NAMES) - len(present) <= absent:
            assert made.result().tolist() == [6, -28]
        else:
            with pytest.raises(SumRefused, match="is missing: a sum opens only over all"):
                made.result()
    with pytest.raises(SumRefused, match="absent must be 0 or 1"):
        terms_of(absent=2)


def test_one_part_that_fits_nothing_counts_as_missing():
    made = Sum(terms_of(length=2, absent=1), {name: [1, 2] for name in NAMES}).begin().mask().open()
    parts = made.sent("opening")
    elsewhere = [
        Message("opening", part.terms, part.seat, part.body, bytes(32)).signed(signing(part.seat).sign)
        for part in parts
    ]
    assert opened(made.terms, made.sent("masked"), [elsewhere[0], *parts[1:]]).tolist() == [4, 8]
    with pytest.raises(SumRefused, match="has opened other masked numbers than these"):
        opened(made.terms, made.sent("masked"), [*elsewhere[:2], *parts[2:]])


def test_pieces_that_do_not_belong_together_open_nothing():
    made = Sum(terms_of(absent=1), {name: [1] * 6 for name in NAMES}).begin().mask().open(*NAMES[1:])
    part = made.sent("opening")[0]
    false = Message("opening", part.terms, part.seat, drawn(1) + part.body[32:], part.about).signed(
        signing("north").sign
    )
    with pytest.raises(SumRefused, match="The opening of east is missing, and the others' pieces"):
        opened(made.terms, made.sent("masked"), [false, *made.sent("opening")[1:]])


def test_of_two_sums_of_a_round_too_few_can_open_both():
    """All sets of members that may follow, however honest members divide up: colluders open both, others one."""
    anchor = db.Posterior.of_prior(db.models.GaussianMean(variance=1.0, dimension=1).structure)
    for count in range(3, 8):
        members = {f"m{number}": bytes([number]) * 32 for number in range(count)}
        for colluders in range(1, count - 1):
            agreed = db.secure.Agreement("means", members, anchor, colluders=colluders)
            sets = [
                agreed.next_terms([], without=[*without])
                for size in range(count - max(3, colluders + 2) + 1)
                for without in combinations(members, size)
            ]
            for one, other in combinations(sets, 2):
                common = len(one.seats.keys() & other.seats.keys())
                if common > colluders:
                    needed = len(one.seats) - one.absent + len(other.seats) - other.absent
                    assert needed > len(one.seats.keys() | other.seats.keys()) + colluders
            assert sets[0].absent == 1, "while nobody has left"


def test_a_sum_needs_three_members_and_more_than_can_join_forces():
    with pytest.raises(SumRefused, match="at least 3 members, not 2"):
        terms_of(NAMES[:2])
    with pytest.raises(SumRefused, match="2 of 3 members could together learn the numbers of the last one"):
        terms_of(NAMES[:3], colluders=2)
    assert len(terms_of(NAMES, colluders=2).seats) == 4
    with pytest.raises(SumRefused, match="public key of its own"):
        Terms("test", 1, dict.fromkeys(NAMES, public("east")), "0" * 64, 3)


@pytest.mark.parametrize("step", [0.3, 0.0, -0.5, 1e300, float("nan"), "2"])
def test_a_grid_has_steps_of_a_power_of_two(step):
    with pytest.raises(SumRefused, match="step must be a power of two"):
        terms_of(step=step)


def test_masked_numbers_of_another_sum_are_refused():
    numbers = {name: [1] * 6 for name in NAMES}
    made = Sum(terms_of(), numbers).begin()
    for changed in ({"round": 2}, {"anchor": "f" * 64}, {"group": "another"}, {"step": 2.0**-10}):
        foreign = Sum(terms_of(**changed), numbers).begin().sent("key")[:1]
        with pytest.raises(SumRefused, match="belongs to another sum"):
            made.seats["west"].masking(np.ones(6, int), [*foreign, *made.sent("key")[1:]], signing("west").sign)


def test_a_seat_masks_other_numbers_never_and_the_same_ones_again():
    made = Sum(terms_of(), {name: [1] * 6 for name in NAMES}).begin().mask()
    seat = made.seats["west"]
    assert seat.masking(np.ones(6, int), made.sent("key"), signing("west").sign) is seat
    with pytest.raises(SumRefused, match="has masked other numbers for this sum"):
        seat.masking(np.zeros(6, int), made.sent("key"), signing("west").sign)


def test_two_keys_of_one_member_are_refused_and_name_it():
    made = Sum(terms_of(), {name: [1] * 6 for name in NAMES}).begin()
    other = Seat.begun(made.terms, "north", signing("north").sign, Secrets(drawn(1))).sent["key"]
    with pytest.raises(SumRefused, match="north has signed two different key messages"):
        made.seats["west"].masking(np.ones(6, int), [*made.sent("key"), other], signing("west").sign)
    # Different members see different ones: nobody opens.
    made.mask("east", "south", "north")
    keys = [other if key.seat == "north" else key for key in made.sent("key")]
    made.seats["west"] = made.seats["west"].masking(np.ones(6, int), keys, signing("west").sign)
    with pytest.raises(SumRefused, match="masked their numbers for different keys"):
        made.open()


def test_an_opening_is_fixed_before_anybody_has_opened():
    """Whoever opens last cannot choose what the sum will be."""
    made = whole({name: [1] * 6 for name in NAMES})
    cheat = Message("opening", made.terms.digest, "west", 4 * drawn("another"), made.sent("opening")[0].about)
    parts = [*made.sent("opening")[:-1], cheat.signed(signing("west").sign)]
    with pytest.raises(SumRefused, match="opening of west does not belong to its masked numbers"):
        opened(made.terms, made.sent("masked"), parts)


def test_what_is_missing_is_named():
    made = Sum(terms_of(), {name: [1] * 6 for name in NAMES}).begin()
    with pytest.raises(SumRefused, match="key message of south, west is missing"):
        made.seats["east"].masking(np.ones(6, int), made.sent("key")[:2], signing("east").sign)
    made.mask("east", "north")
    with pytest.raises(SumRefused, match="masked message of south, west is missing"):
        made.open("east")


def test_a_key_without_a_secret_is_refused():
    """X25519 with a point of small order gives zeros, which anybody knows."""
    made = Sum(terms_of(), {name: [1] * 6 for name in NAMES}).begin()
    weak = Message("key", made.terms.digest, "north", bytes(32)).signed(signing("north").sign)
    keys = [weak if key.seat == "north" else key for key in made.sent("key")]
    with pytest.raises(SumRefused, match="The key of north is not valid"):
        made.seats["west"].masking(np.ones(6, int), keys, signing("west").sign)


@given(st.binary(max_size=200), st.integers(0, 10_000), st.integers(1, 255))
def test_no_bytes_are_taken_for_a_message_of_a_member(junk, place, change):
    made = Sum(terms_of(), {name: [1] * 6 for name in NAMES}).begin().mask()
    content = bytearray(made.sent("masked")[0].to_bytes())
    content[place % len(content)] ^= change
    for received in (junk, bytes(content), bytes(content[: place % len(content)])):
        with pytest.raises(SumRefused):
            opened(made.terms, [message_from(received), *made.sent("masked")[1:]], [])


def test_a_seat_is_stored_and_read_again():
    made = Sum(terms_of(), {name: [1] * 6 for name in NAMES}).begin().mask()
    for seat in (*made.seats.values(), made.seats["east"].giving_up()):
        assert Seat.from_bytes(made.terms, seat.to_bytes()) == seat
    with pytest.raises(SumRefused, match="cannot be read"):
        Seat.from_bytes(made.terms, b"no seat")
    shown = repr(made.seats["east"])
    assert repr(drawn("private", "east", 0)) not in shown


def held_back_sum(wrong_units):
    """The second result of three members that hold rows back; one of them may measure something else."""
    rng, model = np.random.default_rng(4), db.models.GaussianMean(variance=1.0, dimension=1)
    anchor = db.Posterior.of_prior(model.structure)
    agreed = db.secure.Agreement("means", {name: public(name) for name in NAMES[:3]}, anchor, rules=None)
    rows = {name: (rng.normal(size=(60, 1)), rng.normal(size=(40, 1))) for name in agreed.members}
    if wrong_units:
        rows[NAMES[0]] = tuple(9.0 + part for part in rows[NAMES[0]])
    first = {name: model.fit(fitted).posterior for name, (fitted, _) in rows.items()}
    shares = [Share(posterior, 60, 60, 60) for posterior in first.values()]
    result = agreed.result(sum(agreed.added(share, None) for share in shares), [], agreed.next_terms())
    merged, later = result.posterior, []
    for (name, (fitted, kept)), share in zip(rows.items(), shares, strict=True):
        own = contribution(fitted, merged, first[name], rng=0, rules=None, held_back=kept)[0]
        later.append(agreed.added(own, share.steps(agreed.step)))
    return rows, first, merged, agreed.result(sum(later), [result], agreed.next_terms([result]))


def test_a_sum_with_wrong_units_in_it_predicts_held_back_rows_worse_than_members_alone():
    for wrong in (False, True):
        _, _, _, result = held_back_sum(wrong)
        assert ("worse than alone" in {remark.kind for remark in result.posterior.remarks}) == wrong


def test_scores_under_sums_are_those_of_all_members_together():
    rows, first, merged, result = held_back_sum(wrong_units=False)

    def densities(posterior, values):
        mean, variance = posterior.mean("mean").item(), posterior.deviation("mean").item() ** 2 + 1.0
        return norm.logpdf(values.ravel(), mean, np.sqrt(variance))

    together = np.concatenate([densities(merged, kept) for _, kept in rows.values()])
    alone = np.concatenate([densities(first[name], kept) for name, (_, kept) in rows.items()])
    found = result.share.held_back
    assert found.units == 120
    assert found.score == pytest.approx(together.mean(), abs=1e-5)
    assert found.gain == pytest.approx((together - alone).mean(), abs=1e-5)
    assert found.error == pytest.approx(np.sqrt(((together - alone) ** 2).sum()) / 120, abs=1e-5)
