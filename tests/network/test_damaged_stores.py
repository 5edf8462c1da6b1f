"""A damaged store says so: what cannot be read, what is gone without a trace, and what another version has written."""

import sqlite3
from contextlib import closing

import numpy as np
import pytest
from groups import gaussian_charter, identities
from keeping import KEPT, RECORDS

from decbayes.cli import main
from decbayes.errors import DecbayesError
from decbayes.network import Agent, Charter, SqliteStore, sign_record
from decbayes.network.protocol.talk.revisions import REVISION
from decbayes.network.runtime.reports.description import decisions_of
from decbayes.network.runtime.store import stored
from decbayes.network.runtime.store.sqlite import FORMAT

MEMBERS = identities(3)
CHARTER = gaussian_charter(MEMBERS)
NAMES = sorted(CHARTER.members)


@pytest.fixture
def path(tmp_path):
    """A store with one record of each member, and its charter beside it."""
    CHARTER.save(tmp_path / "group.toml")
    file = tmp_path / "agent.store"
    with SqliteStore(file, CHARTER) as store:
        for number, member in enumerate(MEMBERS):
            posterior = CHARTER.model.fit(np.full(30, float(number)), rng=None).posterior
            said = {"shards": frozenset({f"s{number}"}), "observations": 30}
            store.put([sign_record(CHARTER, member, 1, posterior=posterior, **said)])
    return file


def tamper(path, *statements):
    """Change the file behind the back of its triggers, as a failing disk would."""
    with closing(sqlite3.connect(path)) as connection, connection:
        for (trigger,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            connection.execute(f"DROP TRIGGER {trigger}")
        for statement, *values in statements:
            connection.execute(statement, values)


def posterior_command(path, capsys):
    with pytest.raises(SystemExit) as end:
        main(["posterior", str(path.with_name("group.toml")), "--store", str(path)])
    return end.value.code, capsys.readouterr().out


def test_a_whole_store_is_no_cause_for_concern(path, capsys):
    status, said = posterior_command(path, capsys)
    assert (status, "damaged" in said) == (0, False)


@pytest.mark.parametrize(
    "statement",
    ["DELETE FROM records WHERE origin = ?", "UPDATE records SET body = x'00' WHERE origin = ?"],
    ids=["vanished", "overwritten"],
)
def test_a_member_that_is_not_counted_because_of_damage_is_named(statement, path, capsys):
    """Of 200 damaged copies 39 gave fewer members without a word, and two had lost a record without a trace."""
    tamper(path, (statement, MEMBERS[1].id))
    status, said = posterior_command(path, capsys)
    name = CHARTER.names[MEMBERS[1].id]
    assert status == 3
    assert f"1 entry of {name} cannot be read" in said
    answer = stored(path, CHARTER)
    assert answer.description["damaged"] == {"entries": 1, "members": [name]}
    assert answer.description["observations"] == 60
    with SqliteStore(path, CHARTER) as store:
        store.load()
        assert store.damaged == 1, "the agent's log says so, too"


def test_what_neighbours_send_again_heals_the_store(path):
    tamper(path, ("DELETE FROM records WHERE origin = ?", MEMBERS[1].id))
    posterior = CHARTER.model.fit(np.full(30, 1.0), rng=None).posterior
    again = sign_record(CHARTER, MEMBERS[1], 1, posterior=posterior, shards=frozenset({"s1"}), observations=30)
    with SqliteStore(path, CHARTER) as store:
        store.put([again])
        store.load()
        assert store.damaged == 0
    assert "damaged" not in stored(path, CHARTER).description


def test_a_store_without_a_list_gets_one(path):
    tamper(path, ("DROP TABLE inventory",))
    assert "damaged" not in stored(path, CHARTER).description
    with SqliteStore(path, CHARTER):
        pass
    tamper(path, ("DELETE FROM records WHERE origin = ?", MEMBERS[0].id))
    assert stored(path, CHARTER).description["damaged"]["entries"] == 1


@pytest.mark.parametrize("kept", sorted(KEPT.iterdir()), ids=lambda folder: folder.name)
def test_stores_of_each_version_are_read_or_refused_plainly(kept, tmp_path):
    """Never half of them. `python tests/network/keeping.py` keeps a store of a new format."""
    outcome = opened(restored(kept, tmp_path), kept / "group.toml")
    plainly = ("older decbayes", "protocol 2; this decbayes speaks")
    assert outcome == (RECORDS, False) or any(text in str(outcome) for text in plainly)


@pytest.mark.parametrize("kept", sorted(KEPT.glob("*revision*")), ids=lambda folder: folder.name)
def test_decisions_in_stores_of_each_revision_are_read_by_the_present_rules(kept, tmp_path, rng):
    """If this fails because a rule has changed: raise REVISION, say what has changed, and keep another store."""
    charter = Charter.load(kept / "group.toml")
    with SqliteStore(restored(kept, tmp_path), charter) as store:
        decisions = decisions_of(Agent(charter, identities(1)[0], rng=rng, saved=store.load()).pool)
    about = {item["text"].split(" (")[0]: (item.get("state"), len(item["votes"])) for item in decisions["settled"]}
    assert {(state, votes) for state, votes in about.values()} == {("in force", 3), ("overruled", 3)}
    assert [text for text, (state, _) in about.items() if state == "overruled"] == ["remove agent 4"]
    assert [(item["text"], item["votes"]) for item in decisions["pending"]] == [("remove agent 2", ["agent 1"])]
    assert decisions["seats"] == 6
    assert (KEPT / f"format-{FORMAT}-revision-{REVISION}").is_dir(), "run tests/network/keeping.py"


def restored(kept, folder):
    """A kept store as a file again."""
    with closing(sqlite3.connect(folder / "agent.store")) as connection:
        connection.executescript((kept / "store.sql").read_text())
    return folder / "agent.store"


def opened(path, charter):
    """How many members count and whether anything is damaged, or why it cannot be read."""
    try:
        description = stored(path, Charter.load(charter)).description
    except DecbayesError as error:
        return str(error)
    return len(description["counted"]), "damaged" in description
