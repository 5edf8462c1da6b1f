"""What a store has acknowledged it still holds: after a restart, a kill, a full disk, and beside a reader."""

import json
import sqlite3
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from groups import digest, gaussian_charter, identities

from decbayes.errors import StoreFailed
from decbayes.network import Agent, Identity, Proof, Report, SqliteStore, persist_first, sign_record
from decbayes.network.runtime.store import sqlite as store_module
from decbayes.network.runtime.store.orders import unanswered
from decbayes.network.runtime.store.sqlite import FORMAT, address

MEMBERS = identities(2)
CHARTER = gaussian_charter(MEMBERS)


def record(version, *, member=0, data=(1.0, 2.0), charter=CHARTER):
    posterior = charter.model.fit(np.asarray(data), rng=None).posterior if len(data) else None
    shards = frozenset({f"{len(data)} points"} if len(data) else ())
    return sign_record(charter, MEMBERS[member], version, posterior=posterior, shards=shards, observations=len(data))


@pytest.fixture
def path(tmp_path) -> Path:
    return tmp_path / "agent.store"


def test_a_restart_finds_the_newest_version_of_each_member_and_nothing_else(path):
    with SqliteStore(path, CHARTER) as store:
        for item in (record(1), record(2, data=(4.0,)), record(7, member=1), record(8, member=1, data=())):
            store.put([item])
    with SqliteStore(path, CHARTER) as store:
        saved = store.load()
    newest = {item.origin: item for item in saved}
    assert newest == {MEMBERS[0].id: record(2, data=(4.0,)), MEMBERS[1].id: record(8, member=1, data=())}
    assert len(saved) == 2


def test_a_store_belongs_to_one_site_and_stays_its_own_when_the_key_is_replaced(path):
    """With another site's store, an agent would publish that site's files as its own."""
    with SqliteStore(path, CHARTER) as store:
        store.check_owner(MEMBERS[1])  # who only looks does not own it
        store.own(MEMBERS[0])
    with SqliteStore(path, CHARTER) as store:
        store.check_owner(MEMBERS[0])
        store.check_owner(Identity.generate(after=MEMBERS[0]))
        with pytest.raises(StoreFailed, match="begun with another key"):
            store.check_owner(MEMBERS[1])
        store.own(MEMBERS[0])


@pytest.mark.skipif(sys.platform == "win32", reason="a file in use cannot be removed there")
@pytest.mark.parametrize("replaced", [False, True])
def test_a_store_that_was_removed_or_replaced_while_in_use_fails(path, replaced):
    """SQLite would go on writing into a file without a name, and orders would go into another one."""
    with SqliteStore(path, CHARTER) as store:
        store.put([record(1)])
        assert unanswered(store) == []
        moved = path.rename(path.with_name("moved.store"))
        if replaced:
            path.write_bytes(moved.read_bytes())
        for call in (lambda: store.put([record(2)]), lambda: unanswered(store)):
            with pytest.raises(StoreFailed, match="removed or replaced while it was in use"):
                call()
        moved.replace(path)
        store.put([record(2)])
        assert [item.version for item in store.load()] == [2]


def test_the_disk_is_written_through_before_put_returns(path):
    with SqliteStore(path, CHARTER) as store:
        settings = [
            store.connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("journal_mode", "synchronous")
        ]
    assert settings == ["wal", 2]


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such rights")
def test_nobody_else_on_the_machine_reads_it(path):
    with SqliteStore(path, CHARTER) as store:
        store.put([record(1)])
        found = {file.name: file.stat().st_mode & 0o077 for file in path.parent.glob("agent.store*")}
    assert found.keys() >= {"agent.store", "agent.store-wal"}
    assert not any(mode for name, mode in found.items() if not name.endswith(".lock"))


def test_proofs_are_kept(path):
    first, second = record(3), record(3, data=(9.0,))
    with SqliteStore(path, CHARTER) as store:
        store.put([first])
        store.put([Proof(first.signed, second.signed)])
        proof, *_ = store.load()
    assert {proof.first.digest, proof.second.digest} == {first.digest, second.digest}


def test_an_agent_continues_where_it_was(path, rng):
    """Versions rise over restarts; evidence that was durable and unsent is still there."""
    versions = []
    for shard in ("a", "b", "c"):
        with SqliteStore(path, CHARTER) as store:
            agent = Agent(CHARTER, MEMBERS[0], rng=rng, saved=store.load())
            persist_first(agent, agent.on_bytes("peer", digest(agent.pool.root, agent.charter)), store)
            persist_first(agent, agent.observe([1.0, 2.0], shard=shard, rng=rng), store)
            persist_first(agent, agent.observe([1.0, 2.0], shard="a", rng=rng), store)
            versions.append(agent.version)
    assert versions == sorted(set(versions))
    assert agent.evidence.shards == {"a", "b", "c"}
    assert agent.merged().observations == 6


def test_a_damaged_row_is_left_out_and_counted(path):
    with SqliteStore(path, CHARTER) as store:
        store.put([record(1)])
        store.put([record(7, member=1)])
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE records SET body = zeroblob(100) WHERE version = 7")
    connection.close()
    with SqliteStore(path, CHARTER) as store:
        assert store.load() == [record(1)]
        assert store.damaged == 1


@pytest.mark.parametrize("column", ["body", "header", "signature", "version", "epoch"])
def test_a_damaged_record_that_is_put_again_is_durable_again(path, column):
    """Neighbours send it anew; what was acknowledged then must not be the damaged row."""
    with SqliteStore(path, CHARTER) as store:
        store.put([record(7)])
        store.connection.execute(f"UPDATE records SET {column} = zeroblob(length({column}))")
        store.put([record(7)])
    with SqliteStore(path, CHARTER) as store:
        assert store.load() == [record(7)]


def test_a_proof_does_not_take_a_body_away(path):
    first, second = record(7), record(7, data=(9.0,))
    with SqliteStore(path, CHARTER) as store:
        store.put([first])
        store.put([Proof(first.signed, second.signed)])
        bodies = store.connection.execute("SELECT count(body) FROM records").fetchone()
        proof = Proof(*sorted((first.signed, second.signed), key=lambda signed: signed.digest))
        assert store.load() == [proof, first]
    assert bodies == (1,)


def test_a_store_of_another_group_or_something_else_is_refused(path, tmp_path):
    SqliteStore(path, CHARTER).close()
    with pytest.raises(StoreFailed, match="another charter"):
        SqliteStore(path, gaussian_charter(MEMBERS, dimension=2))
    text = tmp_path / "notes.txt"
    text.write_text("this is not a store, and it is long enough to be told apart from an empty file" * 20)
    with pytest.raises(StoreFailed, match="not a database"):
        SqliteStore(text, CHARTER)


@pytest.mark.parametrize("read_only", [True, False])
@pytest.mark.parametrize("damage", ["cut", "flip", "head"])
def test_a_damaged_store_is_refused_and_left_as_it_is(path, damage, read_only):
    with SqliteStore(path, CHARTER) as store:
        store.put([record(1)])
    content = bytearray(path.read_bytes())
    if damage == "cut":
        del content[3000:]
    elif damage == "flip":
        content[4096:] = bytes(byte ^ 0x55 for byte in content[4096:])
    else:
        content[:16] = b"not a store here"
    path.write_bytes(content)
    with pytest.raises(StoreFailed, match="move it away"), SqliteStore(path, CHARTER, read_only=read_only) as store:
        store.load()
    assert path.read_bytes() == content


def test_a_text_that_cannot_be_decoded_and_a_folder_are_refused_without_quoting_what_is_there(path):
    with SqliteStore(path, CHARTER) as store:
        store.connection.execute("UPDATE agreement SET charter = CAST(x'41ff42' AS TEXT)")
    with pytest.raises(StoreFailed, match="a text in it cannot be read"):
        SqliteStore(path, CHARTER)
    path.with_name("folder").mkdir()
    with pytest.raises(StoreFailed, match="Check that it is a file"):
        SqliteStore(path.with_name("folder"), CHARTER, read_only=True)


@pytest.mark.parametrize("read_only", [True, False])
@pytest.mark.parametrize(("later", "said"), [(1, "newer decbayes.* Update"), (-1, "older decbayes.* move it away")])
def test_a_store_of_another_decbayes_is_refused_and_left_as_it_is(path, later, said, read_only):
    with SqliteStore(path, CHARTER) as store:
        store.put([record(1)])
        store.connection.execute(f"PRAGMA user_version = {FORMAT + later}")
    content = path.read_bytes()
    with pytest.raises(StoreFailed, match=said):
        SqliteStore(path, CHARTER, read_only=read_only)
    assert path.read_bytes() == content


def test_a_store_that_may_not_be_written_is_found_out_at_the_start(path, monkeypatch):
    """SQLite opens such a file for reading and says nothing before the first change."""
    SqliteStore(path, CHARTER).close()
    monkeypatch.setattr(store_module, "address", lambda path, read_only: f"{path.as_uri()}?mode=ro")
    with pytest.raises(StoreFailed, match="who may write"):
        SqliteStore(path, CHARTER)


def test_a_reader_needs_no_right_to_write_beside_the_store(path, monkeypatch):
    with SqliteStore(path, CHARTER) as store:
        store.put([record(1)])
        monkeypatch.setattr(store_module.os, "access", lambda *_: False)
        assert "immutable" not in address(path, read_only=True), "somebody writes"
    assert "immutable" in address(path, read_only=True)
    with SqliteStore(path, CHARTER, read_only=True) as reader:
        assert reader.load() == [record(1)]
    assert {file.name for file in path.parent.iterdir()} == {"agent.store", "agent.store.lock"}


def test_two_agents_cannot_share_a_store_but_a_reader_can_look(path):
    with SqliteStore(path, CHARTER) as store:
        store.put([record(1)])
        with pytest.raises(StoreFailed, match="in use"):
            SqliteStore(path, CHARTER)
        with SqliteStore(path, CHARTER, read_only=True) as reader:
            assert reader.load() == [record(1)]
            store.put([record(2, data=(3.0,))])
            assert record(2, data=(3.0,)) in reader.load()
            with pytest.raises(StoreFailed):
                reader.put([record(3)])
    SqliteStore(path, CHARTER).close()


@pytest.mark.parametrize("kills", [15, pytest.param(100, marks=pytest.mark.slow)])
def test_kills_in_the_middle_of_writes_lose_no_acknowledged_version(tmp_path, kills):
    script = Path(__file__).parents[1] / "killing.py"
    done = subprocess.run(
        [sys.executable, str(script), str(tmp_path), str(kills), "7"],
        capture_output=True,
        text=True,
        timeout=200,
        check=True,
    )
    outcome = json.loads(done.stdout)
    print(outcome)
    assert (outcome["kills"], outcome["lost"], outcome["damaged"]) == (kills, 0, 0)


@contextmanager
def small_disk(folder: Path):
    """A file system of 4 MiB, where the machine lets us mount one."""
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(folder)]
    try:
        mounted = subprocess.run(mount, capture_output=True, timeout=10, check=False).returncode == 0
    except FileNotFoundError:
        mounted = False
    if not mounted:
        pytest.skip("mounting a small tmpfs needs root")
    try:
        yield
    finally:
        subprocess.run(["umount", str(folder)], timeout=10, check=True)


def publish_until_full(agent: Agent, store: SqliteStore, rng) -> list[Report]:
    """Observe data until the disk is full; the reports of the failure."""
    persist_first(agent, agent.on_bytes("peer", digest(agent.pool.root, agent.charter)), store)
    for number in range(400):
        points = rng.normal(size=(1, agent.charter.model.dimension))
        left = persist_first(agent, agent.observe(points, shard=f"shard {number}", rng=rng), store)
        if agent.trouble:
            return [effect for effect in left if isinstance(effect, Report)]
    raise AssertionError("the disk never filled up")


def check_full_disk(store: SqliteStore, charter, rng, free) -> None:
    """The agent says so, publishes nothing, serves on, and goes on by itself once there is room."""
    agent = Agent(charter, MEMBERS[0], rng=rng)
    reports = publish_until_full(agent, store, rng)
    assert [report.event for report in reports] == ["store_failed"]
    assert "full" in agent.trouble
    stuck = agent.version
    assert agent.waiting
    assert not [left for left in persist_first(agent, agent.on_tick(), store) if isinstance(left, Report)], "said once"
    assert agent.trouble
    assert agent.version == stuck
    assert agent.on_bytes("peer", digest(b"\0" * 32, agent.charter)), "it still answers"
    assert agent.merged().observations == len(agent.evidence.shards) - 1
    free()
    persist_first(agent, agent.on_tick(), store)
    assert agent.trouble is None
    assert not agent.waiting
    assert agent.version > stuck
    restarted = Agent(charter, MEMBERS[0], rng=rng, saved=store.load())
    assert restarted.evidence.shards == agent.evidence.shards


def test_a_full_file_system_stops_publishing_until_there_is_room(tmp_path, rng):
    charter = gaussian_charter(MEMBERS, dimension=10_000)
    with small_disk(tmp_path / "small"):
        ballast = tmp_path / "small" / "ballast"
        ballast.write_bytes(b"\0" * (2 << 20))
        with SqliteStore(tmp_path / "small" / "agent.store", charter) as store:
            check_full_disk(store, charter, rng, ballast.unlink)


def test_a_full_database_stops_publishing_until_there_is_room(path, rng):
    charter = gaussian_charter(MEMBERS, dimension=10_000)
    with SqliteStore(path, charter) as store:
        store.connection.execute("PRAGMA max_page_count = 25")

        def free():
            store.connection.execute("PRAGMA max_page_count = 100000")

        check_full_disk(store, charter, rng, free)


def test_a_folder_that_does_not_exist_is_an_error_that_names_it(tmp_path):
    with pytest.raises((StoreFailed, OSError), match="nowhere"):
        SqliteStore(tmp_path / "nowhere" / "agent.store", CHARTER)
    assert not list(tmp_path.iterdir())
