"""What a group's agents say about groups of members: in status, in the answer, and in the log."""

import numpy as np
import pytest
from groups import gaussian_charter, identities

from decbayes.cli.commands.network.status import print_groups
from decbayes.network import Pool, Rules, sign_record
from decbayes.network.runtime.links.ask import MergeForm, has_form
from decbayes.network.runtime.reports.description import members_description, problems, set_description

MEMBERS = identities(9)


def pool_of(means, **rules):
    charter = gaussian_charter(MEMBERS, rules=Rules(**rules))
    pool = Pool(charter)
    for number, (member, mean) in enumerate(zip(MEMBERS, means, strict=True)):
        posterior = charter.model.fit(np.full(50, mean), rng=None).posterior
        said = {"shards": frozenset({f"s{number}"}), "observations": 50}
        pool.add(sign_record(charter, member, 1, posterior=posterior, **said))
    return pool


HONEST = [0.0, 0.1, -0.1, 0.05, 0.0, 0.1, 0.0]


def test_members_that_are_wrong_together_are_named_in_the_status(capsys):
    pool = pool_of([*HONEST, 6.0, 6.1])
    merged = pool.merged()
    assert "groups" not in set_description(merged, pool), "nobody has looked yet"
    assert merged.parties is not None
    status = members_description(pool, merged)
    names = [pool.charter.names[member.id] for member in MEMBERS[7:]]
    (warning,) = status["groups"]["warnings"]
    assert ", ".join(sorted(names)) in warning or ", ".join(reversed(names)) in warning
    assert warning in problems({**status, "charter": "c", "neighbours": [{"member": "x"}]}, "c")
    assert has_form(status, MergeForm)
    print_groups(status["groups"])
    assert "of 9 members that count, the largest 3 have 33% of their evidence" in capsys.readouterr().out
    assert {member["times_median"] for member in status["members"].values()} == {1.0}


def test_honest_members_are_no_problem():
    pool = pool_of([*HONEST, 0.05, -0.05])
    assert pool.merged().parties is not None
    assert members_description(pool, pool.merged())["groups"]["warnings"] == []


@pytest.mark.parametrize("groups", [[], {"warnings": "x"}, {"share": "much"}])
def test_a_group_of_another_form_is_not_printed(groups):
    assert not has_form({"members": {}, "groups": groups}, MergeForm)
