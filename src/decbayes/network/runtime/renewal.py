"""The list of revoked certificates beside the charter, and the key's file, looked at while an agent runs.

A longer list and a new key take effect without a restart: links are opened again by them. The charter's own file stays
as it was when the group began.
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
    """A charter and the file that it came from, with the list of revoked certificates beside it."""

    def __init__(self, path: Path, charter: Charter) -> None:
        self.path, self.charter = path, charter
        self._seen = stamp(path)
        self._list = path.with_suffix(".revoked")
        self.revoked = revoked_names(self._list) if self._list.exists() else frozenset[str]()
        """The names of certificates that are accepted no more."""
        self._told = ""

    def renewed(self, log: Log) -> bool:
        """Whether there is another list now. Another charter in the file is reported, and not adopted."""
        self._look_at_charter(log)
        return self._another_list(log)

    def _another_list(self, log: Log) -> bool:
        try:
            names = revoked_names(self._list)
        except OSError as error:
            self._keep_list(error, log)
            return False
        before, self.revoked, self._told = self.revoked, names, ""
        if names != before:
            log("certificates_revoked", certificates=sorted(names), new=sorted(names - before))
        return names != before

    def _keep_list(self, error: OSError, log: Log) -> None:
        """Nobody is let in again because a disk fails, or a file is gone; said once."""
        why = f"{self._list}: {error.strerror or error}. The list stays as it was; an empty file clears it."
        missing = isinstance(error, FileNotFoundError) and not self.revoked
        if why != self._told and not missing:
            log("not_adopted", why=why)
        self._told = why

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
    """An agent's key and the file that it came from; another key may take its place once the members have signed it."""

    def __init__(self, path: Path, identity: Identity) -> None:
        self.path, self.identity = path, identity
        self._seen, self._told = stamp(path), ""

    def renewed(self, roster: Roster, log: Log) -> bool:
        """Whether the file holds the member's newer key now, by which the agent can go on."""
        now = stamp(self.path)
        if now == self._seen or now is None:
            return False
        try:
            renewed = Identity.load(self.path)
            if renewed.id != self.identity.id:
                check_key(renewed, self.identity, roster)
        except (DecbayesError, OSError) as error:
            # It is looked at again: the votes may still be on their way.
            if str(error) != self._told:
                log("not_adopted", why=str(error))
            self._told = str(error)
            return False
        self._seen, self._told = now, ""
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
    """When a file was written last, and how long it is; None if there is none just now."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size
