"""Groups that decide with one rule broken, each of which the simulator's checkers must expose."""

from dataclasses import replace
from functools import partial

from broken_agents import MUTANTS, mutant

from decbayes.errors import Refused
from decbayes.merging import product
from decbayes.network.protocol import agent as agent_module
from decbayes.network.protocol.agent import Agent
from decbayes.network.protocol.group import ballots as ballots_module
from decbayes.network.protocol.group import charter as charter_module
from decbayes.network.protocol.group import decisions as decisions_module
from decbayes.network.protocol.group import roster as roster_module
from decbayes.network.protocol.group import standing as standing_module
from decbayes.network.protocol.group.decisions import Decisions
from decbayes.network.protocol.group.keys import agent_id
from decbayes.network.protocol.group.motions import Admit, Amend, Ballot, Open, Remove, Rotate, Vote
from decbayes.network.protocol.group.roster import Roster
from decbayes.network.protocol.records import accounts as accounts_module
from decbayes.network.protocol.records import verification
from decbayes.network.protocol.records.pool import Pool
from decbayes.network.protocol.site import member as member_module
from decbayes.network.protocol.site.member import Member
from decbayes.network.protocol.talk import messages
from decbayes.network.protocol.talk.gossip import Gossip
from decbayes.network.simulation.simulated_sites import Disk
from decbayes.updates import Epoch

# Histories in which something is decided.
DECIDING = range(900)
# The unbroken originals.
AFTER, COUNTS, NEWEST, ENOUGH, CHANGED = (
    Roster.after,
    Roster.counts,
    Roster.newest,
    Decisions.enough,
    Decisions._changed,
)
EPOCH_OF, FORGETTING, PUT, RESTORE = decisions_module.epoch_of, accounts_module.after_forgetting, Disk.put, Pool.restore
LISTING, SIGN, VOTE, RENEW = messages.listing, member_module.sign_vote, Member._vote, Member._renew
FALLEN, TAKEN_BY, ORDER = decisions_module.fallen, standing_module.taken_by, standing_module.Order.__init__
OPEN_SIGNED, INIT, PART = verification.open_signed, Member.__init__, accounts_module.PriorPart

before = {*MUTANTS}
decides = partial(mutant, seeds=DECIDING)


@decides
def votes_are_counted_against_the_present_number_of_seats(patch):
    patch.setattr(Decisions, "enough", lambda self, ballot: len(ballot.votes) >= self.roster.needed)


@decides
def one_vote_settles(patch):
    patch.setattr(Decisions, "enough", lambda self, ballot: True)


@decides
def half_of_the_seats_settle(patch):
    patch.setattr(Roster, "needed", property(lambda self: max(1, int(self.rules.agreement * len(self.sitting)))))


def settled_by_one(patch, kind):
    def enough(self, ballot):
        return isinstance(ballot.question, kind) or ENOUGH(self, ballot)

    patch.setattr(Decisions, "enough", enough)


@decides
def anybody_adds_members(patch):
    settled_by_one(patch, Admit)


@decides
def anybody_removes_members(patch):
    settled_by_one(patch, Remove)


@decides
def anybody_replaces_keys(patch):
    settled_by_one(patch, Rotate)


@decides
def anybody_changes_the_rules(patch):
    settled_by_one(patch, Amend)


@decides
def anybody_opens_an_epoch(patch):
    settled_by_one(patch, Open)


@decides
def who_is_removed_goes_on_counting(patch):
    def counts(self, origin, known):
        seat = self.names.get(origin)
        return seat is not None and NEWEST(self, seat, known) == origin

    patch.setattr(Roster, "counts", counts)


@decides
def the_prior_keeps_the_data_of_removed_members(patch):
    def epoch_of(question, parts, sitting, structure):
        return EPOCH_OF(question, parts, parts.keys(), structure)

    patch.setattr(decisions_module, "epoch_of", epoch_of)
    patch.setattr(Decisions, "parts", all_parts)
    patch.setattr(charter_module, "check", lambda charter: None)


def all_parts(self):
    opened = self.settled.get(self.roster.opened)
    structure = self.founding.model.structure
    return {} if opened is None else decisions_module.read_parts(opened.question, opened.body, structure)


@decides
def the_prior_keeps_the_numbers_of_removed_members(patch):
    def epoch_of(question, parts, sitting, structure):
        whole = EPOCH_OF(question, parts, parts.keys(), structure)
        return Epoch(whole.prior, {seat: shards for seat, shards in whole.counted.items() if seat in sitting})

    patch.setattr(decisions_module, "epoch_of", epoch_of)
    patch.setattr(Decisions, "parts", all_parts)


def before_that(patch, kind, change):
    """A resolution of one kind also changes something else."""

    def after(self, question, digest, voted_on):
        following = AFTER(self, question, digest, voted_on)
        return change(self, following) if following is not None and isinstance(question, kind) else following

    patch.setattr(Roster, "after", after)


@decides
def a_new_epoch_lets_removed_members_in_again(patch):
    def let_in(roster, following):
        return replace(following, seats={name: replace(seat, present=True) for name, seat in following.seats.items()})

    before_that(patch, Open, let_in)


@decides
def a_new_epoch_brings_old_keys_back(patch):
    def old_keys(roster, following):
        return replace(following, seats={n: replace(seat, keys=seat.keys[:1]) for n, seat in following.seats.items()})

    before_that(patch, Open, old_keys)


@decides
def adding_a_member_brings_old_keys_back(patch):
    def old_keys(roster, following):
        return replace(following, seats={n: replace(seat, keys=seat.keys[:1]) for n, seat in following.seats.items()})

    before_that(patch, Admit, old_keys)


@decides
def a_new_rule_begins_a_new_epoch(patch):
    before_that(patch, Amend, lambda roster, following: replace(following, opened=bytes(32), parts=()))


@decides
def a_replaced_key_keeps_its_vote(patch):
    def sitting(self):
        keys = {name: agent_id(seat.keys[0]) for name, seat in self.seats.items() if seat.present}
        return {name: key for name, key in keys.items() if key not in self.void}

    patch.setattr(Roster, "sitting", property(sitting))


@decides
def a_new_key_counts_beside_the_old_one(patch):
    patch.setattr(Roster, "counts", lambda self, origin, known: self.names.get(origin) in self.sitting)


@decides
def excluded_members_go_on_voting(patch):
    def sitting(self):
        return {name: agent_id(seat.key) for name, seat in self.seats.items() if seat.present}

    patch.setattr(Roster, "sitting", property(sitting))


def unsettled_by(patch, still):
    """Settled resolutions are counted again whenever something changes."""

    def changed(self):
        CHANGED(self)
        kept = {digest: ballot for digest, ballot in self.settled.items() if still(self, ballot)}
        if len(kept) < len(self.settled):
            while True:
                sound = {d: b for d, b in kept.items() if {*b.motion.after} <= {*kept, *void_marks(self)}}
                if len(sound) == len(kept):
                    break
                kept = sound
            self.settled, self._rosters = kept, {}
            CHANGED(self)

    patch.setattr(Decisions, "_changed", changed)


def void_marks(decisions):
    return {roster_module.Void(key).digest for key in decisions.proofs}


@decides
def more_members_unsettle_what_was_decided(patch):
    unsettled_by(patch, lambda self, ballot: len(ballot.votes) >= self.roster.needed)


@decides
def an_exclusion_unsettles_what_the_excluded_have_voted_for(patch):
    def still(self, ballot):
        honest = [vote for vote in ballot.votes.values() if vote.origin not in self.proofs]
        return len(honest) >= self.roster_at(ballot.motion.after).needed

    unsettled_by(patch, still)


@decides
def resolutions_are_applied_in_the_order_of_their_digests(patch):
    patch.setattr(roster_module, "in_order", sorted)


@decides
def resolutions_are_applied_as_they_arrive(patch):
    patch.setattr(roster_module, "in_order", list)


@decides
def of_two_new_keys_the_last_one_stays(patch):
    def after(self, question, digest, voted_on):
        if isinstance(question, Rotate) and question.seat in self.seats and self.seats[question.seat].present:
            return AFTER(self, question, digest, self)
        return AFTER(self, question, digest, voted_on)

    patch.setattr(Roster, "after", after)


@decides
def votes_are_not_checked(patch):
    patch.setattr(ballots_module, "check_votes", lambda ballot, roster: None)


@decides
def signatures_of_votes_are_not_checked(patch):
    patch.setattr(Vote, "signed_by", lambda *arguments: True)


@decides
def any_key_that_a_seat_ever_had_may_vote(patch):
    def check_votes(ballot, roster):
        for vote in ballot.votes.values():
            if roster.names.get(vote.origin) != vote.seat:
                raise Refused("membership", "nobody")
            if not vote.signed_by(roster.keys[vote.origin]):
                raise Refused("signature", "nobody")

    patch.setattr(ballots_module, "check_votes", check_votes)


@decides
def decisions_are_not_written(patch):
    patch.setattr(Disk, "put", lambda self, items: PUT(self, [item for item in items if not isinstance(item, Ballot)]))


@decides
def a_restart_forgets_what_was_decided(patch):
    def restore(self, saved, check=None):
        RESTORE(self, [item for item in saved if not isinstance(item, Ballot)], check)

    patch.setattr(Pool, "restore", restore)


@decides
def a_vote_is_sent_before_it_is_durable(patch):
    def vote(self, ballot):
        effects = VOTE(self, ballot)
        for effect in effects:
            self.pool.vote(effect.item)
        return effects

    patch.setattr(Member, "_vote", vote)


@decides
def decisions_do_not_spread(patch):
    def listing(entries, excluded, decisions=(), *, complete):
        return LISTING(entries, excluded, complete=complete)

    patch.setattr(messages, "listing", listing)


@decides
def of_a_known_motion_no_more_votes_are_heard(patch):
    patch.setattr(Decisions, "wants", lambda self, entry: entry[0] not in {*self.settled, *self.pending})


@decides
def votes_of_two_sides_are_not_joined(patch):
    patch.setattr(Ballot, "joined", lambda self, other: self)


@decides
def records_of_earlier_epochs_are_merged(patch):
    patch.setattr(verification, "check_epoch", lambda signed, charter: None)


@decides
def what_is_in_the_prior_is_observed_again(patch):
    patch.setattr(Member, "counts", lambda self, shard: shard in self.evidence.shards)


@decides
def what_is_in_the_prior_counts_again(patch):
    patch.setattr(charter_module.Charter, "counted", property(lambda self: {}))


@decides
def data_are_not_observed_again_in_a_new_epoch(patch):
    def renew(self):
        return [effect for effect in RENEW(self) if effect.event != "adopted"]

    patch.setattr(Member, "_renew", renew)


@decides
def nobody_goes_over_to_what_was_decided(patch):
    patch.setattr(Agent, "_adopt_charter", lambda self: [])


@decides
def a_prior_counts_earlier_epochs_twice(patch):
    def doubled(charter, earlier, added, forgetting):
        parts = FORGETTING(charter, earlier, added, forgetting)
        return {seat: product([part, earlier[seat]]) if seat in earlier else part for seat, part in parts.items()}

    patch.setattr(accounts_module, "after_forgetting", doubled)


@decides
def a_prior_states_the_last_epoch_only(patch):
    def part(seat, shards, observations, units):
        return PART(seat, shards, min(observations, 4), units)

    patch.setattr(accounts_module, "PriorPart", part)


@decides
def what_was_refused_is_not_reconsidered_under_a_new_charter(patch):
    patch.setattr(Gossip, "reconsider", lambda self: None)


@decides
def votes_have_no_numbers(patch):
    patch.setattr(member_module, "sign_vote", lambda motion, seat, identity, number: SIGN(motion, seat, identity, 1))


@decides
def votes_are_numbered_anew_at_each_start(patch):
    def begin(self, *arguments, **keywords):
        INIT(self, *arguments, **keywords)
        self._number = 0

    patch.setattr(Member, "__init__", begin)


@decides
def a_stolen_key_completes_what_was_put_before_its_rotation(patch):
    patch.setattr(decisions_module, "fallen", lambda ordered, voted_on: frozenset())


def falling(patch, change):
    """What falls is changed, always closed under what comes after it."""

    def fallen(ordered, voted_on):
        return change(ordered, voted_on, FALLEN(ordered, voted_on))

    patch.setattr(decisions_module, "fallen", fallen)


@decides
def removals_strike_no_votes(patch):
    def taken_by(ballot, voted_on):
        return None if isinstance(ballot.question, Remove) else TAKEN_BY(ballot, voted_on)

    patch.setattr(standing_module, "taken_by", taken_by)


@decides
def rotations_strike_no_votes(patch):
    def taken_by(ballot, voted_on):
        return None if isinstance(ballot.question, Rotate) else TAKEN_BY(ballot, voted_on)

    patch.setattr(standing_module, "taken_by", taken_by)


@decides
def whatever_a_struck_key_has_voted_for_falls(patch):
    """Even with enough votes of others."""

    def change(ordered, voted_on, fell):
        order = standing_module.Order(ordered)
        takes = {n: TAKEN_BY(ballot, voted_on(ballot.motion)) for n, ballot in enumerate(ordered)}
        more = {*fell}
        for n, ballot in enumerate(ordered):
            keys = {vote.origin for vote in ballot.votes.values()}
            if not order.after[n] and any(takes[t] in keys for t in order.beside(n, (1 << len(ordered)) - 1)):
                more.add(ballot.digest)
        return frozenset(more)

    falling(patch, change)


@decides
def what_others_have_gone_on_from_falls_as_well(patch):
    def after_nothing(self, ordered):
        ORDER(self, ordered)
        self.after = [0] * len(ordered)

    patch.setattr(standing_module.Order, "__init__", after_nothing)


@decides
def late_votes_for_what_is_settled_are_not_heard(patch):
    patch.setattr(Decisions, "_join_votes", lambda self, known, ballot: False)


@decides
def proofs_of_two_votes_are_not_understood(patch):
    def open_signed(content, signature, charter, roster):
        signed = OPEN_SIGNED(content, signature, charter, roster)
        if isinstance(signed, Vote):
            raise Refused("envelope", "not a record")
        return signed

    patch.setattr(agent_module, "open_signed", open_signed)


DECISION_MUTANTS = [name for name in MUTANTS if name not in before]
