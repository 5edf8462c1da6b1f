"""What people read of a group's decisions and counts: in the terminal, in the log's sentences, and in answers."""

from groups import gaussian_charter, identities

from decbayes.cli.commands.network.posterior import print_summary
from decbayes.cli.commands.network.status import SHOWN, member_table, print_accounts, print_decisions, print_groups
from decbayes.network.runtime.reports.log import sentence
from decbayes.network.runtime.reports.metrics import metrics_text


def motion(number, **more):
    return {"motion": f"m{number}", "text": f"remove {number}", "votes": ["a", "b"], **more}


def printed(capsys):
    return capsys.readouterr().out.splitlines()


def test_decisions_say_which_are_in_force_which_have_no_effect_and_which_wait(capsys):
    settled = [motion(1, state="in force"), motion(2, state="overruled")]
    print_decisions({"settled": settled, "pending": [motion(3, needed=4)]})
    assert printed(capsys) == [
        "decided    m1 remove 1; votes: a, b",
        "overruled  m2 remove 2; votes: a, b",
        "pending    m3 remove 3; 2 of 4 votes: a, b",
    ]


def test_of_many_decisions_the_newest_are_printed(capsys):
    print_decisions({"settled": [motion(number, state="in force") for number in range(SHOWN + 3)]})
    first, *rest = printed(capsys)
    assert "3 earlier motions" in first
    assert len(rest) == SHOWN
    assert rest[-1].startswith(f"decided    m{SHOWN + 2} ")


def test_groups_are_counted_among_members_that_count_and_unknown_changes_are_left_out(capsys):
    print_groups({"largest": 1, "share": 0.25, "members": 5})
    print_groups({"largest": 2, "share": 0.5, "members": 6, "change": 3.21})
    print_groups({"largest": 0, "share": 0.0, "members": 2})
    one, two = printed(capsys)
    assert one.endswith("of 5 members that count, the largest one has 25% of their evidence")
    assert two.endswith("the largest 2 have 50% of their evidence; without a third of them, the merge changes by up to "
                        "3.2 deviations")  # fmt: skip


def test_counts_do_not_say_that_data_which_two_members_hold_count_once(capsys):
    print_accounts({"observations": 65, "in_prior": 20, "in_records": 45})
    assert printed(capsys) == [
        "counts     65 observations: 20 in the prior, 45 in records; each data set of a member once"
    ]


def test_members_in_the_prior_show_their_observations(capsys):
    members = {"a": {"state": "in the prior", "in_prior": 300}, "b": {"in_prior": 9, "observations": 4, "shards": 1}}
    cells = [[*column.cells] for column in member_table(members).columns]
    assert cells[2] == ["300", "9 + 4"]
    assert [member_table(part).columns[4].header for part in (members, {"b": {"observations": 4}})] == [
        "share since epoch",
        "share",
    ]
    summary = {"observations": 309, "counted": [], "missing": [], "flags": {}, "same_data": [], "set": "0" * 16}
    print_summary(summary | {"not_counted": {"a": "in the prior", "c": "removed"}}, {}, gaussian_charter(identities(1)))
    lines = printed(capsys)
    assert "counted       none since this epoch began" in lines
    assert "in the prior  a" in lines
    assert "not counted   c (removed)" in lines


def test_a_sentence_names_voters_as_people_would():
    said = sentence({"event": "voted", "motion": "m1", "text": "remove d", "votes": ["a", "b"]})
    assert said == "a, b voted: remove d (m1)"


def test_metrics_count_decisions_without_effect():
    settled = [motion(1, state="in force"), motion(2, state="overruled")]
    text = metrics_text({"decisions": {"settled": settled, "pending": [], "seats": 3}})
    assert 'decbayes_motions{state="settled"} 2' in text
    assert 'decbayes_motions{state="overruled"} 1' in text
