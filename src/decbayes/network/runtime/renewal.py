"""The charter's file and the list of revoked certificates beside it, looked at while an agent runs.

A new charter or epoch, a longer list, and a new key take effect without a restart: links are opened again by them.
"""

from pathlib import Path

from decbayes.errors import DecbayesError, InvalidCharter, InvalidKey
from decbayes.network.protocol.group.charter import Charter
from decbayes.network.protocol.group.keys import AgentId, Identity, short
from decbayes.network.protocol.group.roster import Roster
from decbayes.network.runtime.links.certificates import revoked_names
from decbayes.network.runtime.reports.log import Log


class CharterFile:
    """A charter and the file that it came from. Members, limits, rules and epoch may change; group and model stay."""

    def __init__(self, path: Path, charter: Charter, own: AgentId) -> None:
        self.path, self.charter = path, charter
        self._own, self._seen = own, stamp(path)
        self._list = path.with_suffix(".revoked")
        self.revoked = revoked_names(self._list) if self._list.exists() else frozenset[str]()
        """The names of certificates that are accepted no more."""
        self._told = ""

    def renewed(self, log: Log) -> bool:
        """Whether there is another charter now, by which the agent can go on, or another list."""
        return any([self._another_list(log), self._another_charter(log)])

    def _another_list(self, log: Log) -> bool:
        try:
            names = revoked_names(self._list)
        except OSError as error:
            self._keep_list(error, log)
            return False
        before, self.revoked, self._told = self.revoked, names, ""
        if names != before:
            log("revoked", certificates=sorted(names), new=sorted(names - before))
        return names != before

    def _keep_list(self, error: OSError, log: Log) -> None:
        """Nobody is let in again because a disk fails, or a file is gone; said once."""
        why = f"{self._list}: {error.strerror or error}. The list stays as it was; an empty file clears it."
        missing = isinstance(error, FileNotFoundError) and not self.revoked
        if why != self._told and not missing:
            log("not_adopted", why=why)
        self._told = why

    def _another_charter(self, log: Log) -> bool:
        now = stamp(self.path)
        if now == self._seen:
            return False
        self._seen = now
        try:
            renewed = Charter.load(self.path)
            check_renewal(self.charter, renewed, self._own)
        except (DecbayesError, OSError) as error:
            log("not_adopted", why=str(error))
            return False
        if renewed.fingerprint == self.charter.fingerprint:
            return False
        log("adopted", charter=renewed.short_fingerprint, instead_of=self.charter.short_fingerprint)
        self.charter = renewed
        return True


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
    if after.id not in roster.keys or roster.seat(after.id) != roster.seat(before.id):
        raise InvalidKey("Not enough members have signed the new key yet (`decbayes tell rekey`); the old one is used.")


def check_renewal(before: Charter, after: Charter, member: AgentId) -> None:
    if after.id != before.id or after.model.structure.fingerprint != before.model.structure.fingerprint:
        raise InvalidCharter("It is of another group or model, and the agent goes on with the old one.")
    if member in before.keys and member not in after.keys:
        raise InvalidCharter("This agent is not a member in it, and goes on with the old one.")


def stamp(path: Path) -> tuple[int, int] | None:
    """When a file was written last, and how long it is; None if there is none just now."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size
