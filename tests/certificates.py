"""Certificates for tests: an authority, and what it signs for agents on loopback."""

from pathlib import Path

from decbayes.network.runtime.links import Tls, certificates
from decbayes.network.runtime.links.certificates import key_file, new_request, save_pair


class Authority:
    """Signs certificates; its own is `NAME.pem`."""

    def __init__(self, folder: Path, name: str) -> None:
        self.folder, self.file = folder, folder / f"{name}.pem"
        self.signer = certificates.Authority.generate(name)
        self.signer.save(self.file)

    def certify(self, name: str, *, hosts: tuple[str, ...] = ("127.0.0.1",), days: float = 1) -> Tls:
        """A certificate and its key for an agent on loopback."""
        return Tls(self.file, *self.issue(name, hosts=hosts, days=days))

    def issue(self, name: str, *, hosts: tuple[str, ...] = ("127.0.0.1",), days: float = 1) -> tuple[Path, Path]:
        """Their files, unchecked: expired ones too."""
        file = self.folder / f"{name}.pem"
        key, request = new_request(name, hosts)
        save_pair(file, self.signer.sign(request, days=days), key_file(file), key)
        return file, key_file(file)
