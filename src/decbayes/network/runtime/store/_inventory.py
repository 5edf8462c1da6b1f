"""A second list of a store's entries, kept by database triggers, which shows if entries have vanished."""

import sqlite3

# The listed tables and their keys.
LISTED = {"records": "origin", "proofs": "origin", "ballots": "motion"}
TABLE = "CREATE TABLE inventory (kind, entry)"
# Triggers inherit the conflict handling of their statement, so they delete before they insert.
FORGET = "DELETE FROM inventory WHERE kind = '{kind}' AND entry = {row}.{key};"
NOTE = FORGET + " INSERT INTO inventory VALUES ('{kind}', NEW.{key});"
ACTIONS = {"INSERT": NOTE, "UPDATE": NOTE, "DELETE": FORGET}


def keep_inventory(transaction: sqlite3.Connection) -> None:
    """Create the list if there is none; triggers keep it up to date in the transaction of each change."""
    if exists(transaction):
        return
    transaction.execute(TABLE)
    for kind, key in LISTED.items():
        transaction.execute(f"INSERT INTO inventory SELECT '{kind}', {key} FROM {kind}")
        for event, action in ACTIONS.items():
            text = action.format(kind=kind, key=key, row="OLD" if event == "DELETE" else "NEW")
            transaction.execute(f"CREATE TRIGGER {kind}_{event.lower()} AFTER {event} ON {kind} BEGIN {text} END")


def exists(connection: sqlite3.Connection) -> bool:
    (count,) = connection.execute("SELECT count(*) FROM sqlite_master WHERE name = 'inventory'").fetchone()
    return bool(count)


def listed_entries(connection: sqlite3.Connection) -> set[tuple[str, bytes]]:
    """All entries that were written and not deleted."""
    rows = connection.execute("SELECT kind, entry FROM inventory").fetchall() if exists(connection) else ()
    return {(kind, entry) for kind, entry in rows if kind in LISTED and isinstance(entry, bytes)}


def vanished_entries(connection: sqlite3.Connection) -> set[tuple[str, bytes]]:
    """Listed entries that no longer exist."""
    stored = {(kind, row[0]) for kind, key in LISTED.items() for row in connection.execute(f"SELECT {key} FROM {kind}")}
    return listed_entries(connection) - stored
