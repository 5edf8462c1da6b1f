"""Watches the list of revoked certificates and the key file while an agent runs.

A changed list or a new key takes effect without a restart: links are opened again. The charter's file itself never
changes.
"""

from pathlib import Path

from decbayes.errors import DecbayesError, InvalidKey
from decbayes.network.protocol.group.charter import Charter
from decbayes.network.protocol.group.keys import Identity, short
from decbayes.network.protocol.group.roster import Roster
from decbayes.network.runtime.links.certificates import revoked_names
from decbayes.network.runtime.reports.log import Log

AS_FOUNDED = (
    "A group's charter stays as it was founded: members change it by `decbayes charter propose`, and agents follow "
    "what they have decided."
)


class CharterFile:
    """A charter, its file, and the list of revoked certificates beside it."""

    def __init__(self, path: Path, charter: Charter) -> None:
        self.path, self.charter = path, charter
        self._seen = stamp(path)
        self._list = path.with_suffix(".revoked")
        self.revoked = revoked_names(self._list) if self._list.exists() else frozenset[str]()
        """The names of revoked certificates."""
        self._reported = ""

    def renewed(self, log: Log) -> bool:
        """Whether the list has changed. A changed charter file is reported, but not adopted."""
        self._look_at_charter(log)
        return self._another_list(log)

    def _another_list(self, log: Log) -> bool:
        try:
            names = revoked_names(self._list)
        except OSError as error:
            self._keep_list(error, log)
            return False
        before, self.revoked, self._reported = self.revoked, names, ""
        if names != before:
            log("certificates_revoked", certificates=sorted(names), new=sorted(names - before))
        return names != before

    def _keep_list(self, error: OSError, log: Log) -> None:
        """Keep the list if the disk fails or the file is gone, so that nobody is let in again; logged once."""
        why = f"{self._list}: {error.strerror or error}. The list stays as it was; an empty file clears it."
        missing = isinstance(error, FileNotFoundError) and not self.revoked
        if why != self._reported and not missing:
            log("not_adopted", why=why)
        self._reported = why

    def _look_at_charter(self, log: Log) -> None:
        now = stamp(self.path)
        if now in (self._seen, None):
            return
        self._seen = now
        try:
            same = Charter.load(self.path).fingerprint == self.charter.fingerprint
        except (DecbayesError, OSError) as error:
            log("not_adopted", why=str(error))
            return
        if not same:
            log("not_adopted", why=f"{self.path} has changed. {AS_FOUNDED}")


class KeyFile:
    """An agent's key and its file; another key may replace it once the members have voted for it."""

    def __init__(self, path: Path, identity: Identity) -> None:
        self.path, self.identity = path, identity
        self._seen, self._reported = stamp(path), ""

    def renewed(self, roster: Roster, log: Log) -> bool:
        """Whether the file now holds a newer key of the member, with which the agent continues."""
        now = stamp(self.path)
        if now == self._seen or now is None:
            return False
        try:
            renewed = Identity.load(self.path)
            if renewed.id != self.identity.id:
                check_key(renewed, self.identity, roster)
        except (DecbayesError, OSError) as error:
            # It is tried again, because the votes may still arrive.
            if str(error) != self._reported:
                log("not_adopted", why=str(error))
            self._reported = str(error)
            return False
        self._seen, self._reported = now, ""
        before, self.identity = self.identity, renewed
        if before.id != renewed.id:
            log("adopted", key=short(renewed.id), instead_of=short(before.id))
        return before.id != renewed.id


def check_key(after: Identity, before: Identity, roster: Roster) -> None:
    if after.secret != before.secret:
        raise InvalidKey("The new key was not made by `decbayes keygen NEW --after OLD`; the agent keeps the old one.")
    if roster.names.get(after.id) is None or roster.names.get(after.id) != roster.names.get(before.id):
        raise InvalidKey(
            "The members have not decided on the new key yet (`decbayes charter propose rotate`); the old one is used."
        )


def stamp(path: Path) -> tuple[int, int] | None:
    """A file's modification time and size; None if it does not exist."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size
