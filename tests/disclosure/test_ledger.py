"""Nothing leaves a ledger, and nothing in it changes, unseen."""

import resource
from contextlib import contextmanager
from dataclasses import replace

import pytest

from decbayes.disclosure import Entry, Ledger
from decbayes.disclosure.releasing import site_key
from decbayes.errors import DamagedLedger

ENTRY = Entry("2026-01-31", "a.posterior", "0" * 64, "north", "mixture", 200, "Kim")


@pytest.fixture
def ledger(tmp_path):
    ledger = Ledger(tmp_path / "site.ledger")
    for name in "abc":
        ledger.append(replace(ENTRY, file=name))
    return ledger


def test_entries_come_back_in_order(ledger):
    assert [entry.file for entry in ledger.entries()] == ["a", "b", "c"]
    first, second, third = ledger.entries()
    assert (second.before, third.before) == (first.digest, second.digest)


@pytest.mark.parametrize("line", [0, 1])
def test_a_line_that_is_taken_out_is_missed(ledger, line):
    lines = ledger.path.read_bytes().splitlines(keepends=True)
    ledger.path.write_bytes(b"".join(lines[:line] + lines[line + 1 :]))
    with pytest.raises(DamagedLedger, match=f"line {line + 1}"):
        ledger.entries()


@pytest.mark.parametrize("line", [0, 1, 2])
@pytest.mark.parametrize(("old", "new"), [(b'posterior":"0', b'posterior":"1'), (b"200", b"900"), (b"Kim", b"Lee")])
def test_a_change_of_any_line_is_noticed(ledger, line, old, new):
    lines = ledger.path.read_bytes().splitlines(keepends=True)
    assert old in lines[line]
    lines[line] = lines[line].replace(old, new)
    ledger.path.write_bytes(b"".join(lines))
    with pytest.raises(DamagedLedger, match=f"line {line + 1} was changed"):
        ledger.entries()


def test_a_line_with_a_new_hash_breaks_the_chain(ledger):
    lines = ledger.path.read_bytes().splitlines(keepends=True)
    forged = Ledger(ledger.path.with_suffix(".forged"))
    forged.append(replace(ENTRY, file="a", approver="Lee"))
    ledger.path.write_bytes(b"".join([forged.path.read_bytes(), *lines[1:]]))
    with pytest.raises(DamagedLedger, match="line 2 does not follow"):
        ledger.entries()


@pytest.mark.parametrize("damage", [lambda c: c[:-5], lambda c: b"x" + c, lambda c: c + b"\n", lambda c: c + b"{}\n"])
def test_damage_is_named_and_nothing_is_added_behind_it(ledger, damage):
    content = damage(ledger.path.read_bytes())
    ledger.path.write_bytes(content)
    with pytest.raises(DamagedLedger, match="backup"):
        ledger.append(ENTRY)
    assert ledger.path.read_bytes() == content


@contextmanager
def disk_with(room):
    """No file may have more than that many bytes, as if the disk were full."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("room", [0, 50])
def test_a_line_that_does_not_fit_on_the_disk_leaves_the_ledger_as_it_was(ledger, room):
    content = ledger.path.read_bytes()
    with disk_with(len(content) + room), pytest.raises(OSError, match=r"site\.ledger"):
        ledger.append(ENTRY)
    assert ledger.path.read_bytes() == content
    ledger.append(ENTRY)
    assert len(ledger.entries()) == 4


def test_a_ledgers_key_is_whole_or_refused(tmp_path):
    """With an empty key everybody could compute the digests of records."""
    ledger = Ledger(tmp_path / "site.ledger")
    with disk_with(10), pytest.raises(OSError, match=r"site\.ledger\.key"):
        site_key(ledger)
    assert not list(tmp_path.iterdir())
    assert len(site_key(ledger)) == 32
    (tmp_path / "site.ledger.key").write_bytes(b"")
    with pytest.raises(DamagedLedger, match="key is damaged"):
        site_key(ledger)
