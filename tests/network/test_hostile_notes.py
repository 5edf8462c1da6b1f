"""Whatever a member says of a merge: it can keep the merge from being calibrated, and do nothing worse."""

import json
from dataclasses import replace

import numpy as np
import pytest
from groups import identities
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from decbayes.calibration import Information
from decbayes.calibration.intervals import by_response
from decbayes.calibration.linear_response import LinearResponse
from decbayes.errors import NotCalibrated
from decbayes.network import Charter, Limits, Rules, sign_record, verify
from decbayes.network.protocol.records.notes import Note, note_of
from decbayes.network.protocol.records.pool import Pool
from decbayes.network.protocol.records.verification import open_record
from decbayes.network.runtime.links.ask import MergeForm, has_form
from decbayes.network.runtime.reports.description import answered, belief_description

MEMBERS = identities(3)
MODEL = {"components": 2, "dimension": 1, "variance": 0.25, "prior_variance": 4.0}
CHARTER = Charter(
    group="clusters",
    model_name="GaussianMixture",
    settings=MODEL,
    members={f"site {number}": member.public for number, member in enumerate(MEMBERS)},
    limits=Limits(members=4),
    rules=Rules(intervals=True, validation=0.1),
)
SHARDS = [np.random.default_rng(n).normal([[-0.7], [0.7]] * 40, 0.5) for n in range(3)]
POSTERIORS = [CHARTER.model.fit(shard, rng=np.random.default_rng(n)).posterior for n, shard in enumerate(SHARDS)]


def signed(number, note=None, version=1):
    """A member's record with that note, as the others have it once they have checked it."""
    record = sign_record(
        CHARTER,
        MEMBERS[number],
        version,
        posterior=POSTERIORS[number],
        shards=frozenset({"s"}),
        observations=80,
        note=note,
    )
    return verify(open_record(record.content, CHARTER), CHARTER)


def pool_of(*records):
    pool = Pool(CHARTER)
    for record in records:
        pool.add(record)
    return pool


MERGED = pool_of(*map(signed, range(3))).merged()
SIZE = sum(prior.size for prior in CHARTER.structure.prior.values())
HONEST = [note_of(CHARTER, MERGED, MEMBERS[n].id, SHARDS[n], SHARDS[n][:9]) for n in range(3)]


class Written(Note):
    """A note with any parts, about the merge of all three."""

    def __init__(self, **parts):
        object.__setattr__(self, "parts", {f"note/{name}": part for name, part in parts.items() if part.size})

    def arrays(self):
        return {"note/at": np.frombuffer(bytes.fromhex(MERGED.posterior.digest), "<i4"), **self.parts}


def numbers(size, most):
    """Of any magnitude that the charter lets through, both ends and the smallest among them."""
    edges = st.sampled_from([0.0, most, -most, 5e-324, 1e-16, 1.0])
    return arrays(np.float64, size, elements=st.floats(-most, most) | edges)


@st.composite
def notes(draw):
    """Mostly of the right sizes, with numbers of any magnitude."""
    size = draw(st.sampled_from([SIZE, SIZE, SIZE, 0, 1, SIZE + 1]))
    return Written(
        step=draw(numbers(size, 1e15)),
        slope=draw(numbers(size * (size + 1) // 2, 1e30)) + 0.0,
        overlaps=draw(arrays(np.float64, draw(st.integers(0, 2)), elements=st.floats(0.0, 1.0))),
        grid=draw(numbers((2, draw(st.sampled_from([0, 3])) if size else 0), 1e30)),
        scores=np.r_[9.0, 9.0, draw(numbers(19, 1e30))][: draw(st.sampled_from([0, 21]))],
    )


def taken(pool):
    """What a member's agent does with a merge: believe it, describe it, answer with it."""
    told = belief_description(pool.believed(), pool)
    assert has_form(json.loads(json.dumps(told)), MergeForm)
    answered(pool)
    return pool.believed()


@settings(max_examples=30, deadline=None)
@given(notes(), st.integers(1, 3))
def test_no_note_within_the_limits_keeps_anybody_from_having_the_merge(note, liars):
    belief = taken(pool_of(*(signed(number, note if number < liars else HONEST[number]) for number in range(3))))
    assert belief.posterior.digest == MERGED.posterior.digest or belief.why == ""


def test_a_note_of_another_size_is_as_none():
    odd = Written(step=np.ones(SIZE + 1), slope=np.ones((SIZE + 1) * (SIZE + 2) // 2))
    for order in ((0, 1, 2), (2, 0, 1)):
        records = {0: signed(0, HONEST[0]), 1: signed(1, HONEST[1]), 2: signed(2, odd)}
        belief = taken(pool_of(*(records[number] for number in order)))
        assert belief.posterior.calibration is None
        assert belief.why.startswith("1 of 3 members")
        assert belief.why.endswith("another number of parameters")
    everybody = pool_of(*(signed(number, odd) for number in range(3)))
    assert taken(everybody).why.startswith("3 of 3 members")


@pytest.mark.parametrize("slope", [1e30, -1e30])
def test_slopes_without_measure_calibrate_nothing_or_stop_nothing(slope):
    huge = Written(step=np.full(SIZE, 1e15), slope=np.full(SIZE * (SIZE + 1) // 2, slope))
    taken(pool_of(signed(0, HONEST[0]), signed(1, HONEST[1]), signed(2, huge)))


def test_information_of_another_size_or_without_measure_is_refused_in_words():
    posterior = MERGED.posterior
    whole = HONEST[0].information
    with pytest.raises(NotCalibrated, match=f"about {SIZE + 1} parameters, the posterior has {SIZE}"):
        LinearResponse(posterior, replace(whole, matrix=np.eye(SIZE + 1), contribution=np.zeros(SIZE + 1)))
    for part in ({"matrix": np.full((SIZE, SIZE), np.inf)}, {"contribution": np.full(SIZE, np.nan)}):
        with pytest.raises(NotCalibrated, match="too large"):
            by_response(posterior, [replace(whole, **part)])


def test_a_site_whose_matrix_holds_a_negative_zero_is_heard():
    matrix = HONEST[0].information.matrix.copy()
    matrix[0, 1] = matrix[1, 0] = -0.0
    note = replace(HONEST[0], information=replace(HONEST[0].information, matrix=matrix))
    assert signed(0, note).note.information.matrix[0, 1] == 0.0


def test_what_others_read_is_what_its_author_believes():
    """A matrix by sums is symmetric but for rounding; one half of it is sent."""
    from decbayes.network import Agent

    matrix = HONEST[0].information.matrix.copy()
    matrix[1, 0] *= 1.0 + 1e-9
    uneven = Information(MERGED.posterior.digest, 1, HONEST[0].information.contribution, matrix)
    agent = Agent(CHARTER, MEMBERS[0], rng=np.random.default_rng(0))
    learned = agent.learn(SHARDS[0], shard="s", rng=np.random.default_rng(0))
    agent.publish(learned)
    agent._publisher.attach(replace(HONEST[0], information=uneven))
    (persist,) = [effect for effect in agent._on_synced() if hasattr(effect, "item")]
    agent.on_persisted(persist.item)
    read = verify(open_record(persist.item.content, CHARTER), CHARTER)
    own = agent.pool.records[agent.id].note.information
    assert (own.matrix == read.note.information.matrix).all()
