"""The charter's file and the list of revoked certificates beside it, looked at while an agent runs.

A new charter or epoch, and a longer list, take effect without a restart: links are opened again by them.
"""

from pathlib import Path

from decbayes.errors import DecbayesError, InvalidCharter
from decbayes.network.protocol.charter import Charter
from decbayes.network.protocol.keys import AgentId
from decbayes.network.runtime.credentials import revoked_names
from decbayes.network.runtime.log import Log


class CharterFile:
    """A charter and the file that it came from. Members, limits, rules and epoch may change; group and model stay."""

    def __init__(self, path: Path, charter: Charter, own: AgentId) -> None:
        self.path, self.charter = path, charter
        self._own, self._seen = own, stamp(path)
        self._list = path.with_suffix(".revoked")
        self.revoked = revoked_names(self._list)
        """The names of certificates that are accepted no more."""

    def renewed(self, log: Log) -> bool:
        """Whether there is another charter now, by which the agent can go on, or another list."""
        return any([self._another_list(log), self._another_charter(log)])

    def _another_list(self, log: Log) -> bool:
        try:
            names = revoked_names(self._list)
        except OSError as error:
            # Nobody is let in again because a disk fails.
            log("not_adopted", why=f"{self._list}: {error.strerror or error}")
            return False
        before, self.revoked = self.revoked, names
        if names != before:
            log("revoked", certificates=sorted(names), new=sorted(names - before))
        return names != before

    def _another_charter(self, log: Log) -> bool:
        now = stamp(self.path)
        if now == self._seen:
            return False
        self._seen = now
        try:
            found = Charter.load(self.path)
            check_renewal(self.charter, found, self._own)
        except (DecbayesError, OSError) as error:
            log("not_adopted", why=str(error))
            return False
        if found.fingerprint == self.charter.fingerprint:
            return False
        log("adopted", charter=found.short_fingerprint, instead_of=self.charter.short_fingerprint)
        self.charter = found
        return True


def check_renewal(before: Charter, after: Charter, own: AgentId) -> None:
    if after.id != before.id or after.model.structure.fingerprint != before.model.structure.fingerprint:
        raise InvalidCharter("It is of another group or model, and the agent goes on with the old one.")
    if own in before.keys and own not in after.keys:
        raise InvalidCharter("This agent is not a member in it, and goes on with the old one.")


def stamp(path: Path) -> tuple[int, int] | None:
    """When a file was written last, and how long it is; None if there is none just now."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size
