"""Certificates for tests: an authority, and what it signs for agents on loopback."""

from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from decbayes.network.links import Tls


class Authority:
    """Signs certificates; its own is `NAME.pem`."""

    def __init__(self, folder: Path, name: str) -> None:
        self.folder, self.name = folder, x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.file = folder / f"{name}.pem"
        own = self._builder(self.name, self.key.public_key())
        own = own.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        self.file.write_bytes(own.sign(self.key, hashes.SHA256()).public_bytes(Encoding.PEM))

    def certify(self, name: str) -> Tls:
        """A certificate and its key for an agent on loopback."""
        key = ec.generate_private_key(ec.SECP256R1())
        certificate, private = self.folder / f"{name}.pem", self.folder / f"{name}.pem.key"
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        loopback = x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))])
        signed = self._builder(subject, key.public_key()).add_extension(loopback, critical=False)
        certificate.write_bytes(signed.sign(self.key, hashes.SHA256()).public_bytes(Encoding.PEM))
        private.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
        return Tls(self.file, certificate, private)

    def _builder(self, subject: x509.Name, public: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
        builder = x509.CertificateBuilder(issuer_name=self.name, subject_name=subject, public_key=public)
        now = datetime.now(UTC)
        builder = builder.not_valid_before(now - timedelta(days=1)).not_valid_after(now + timedelta(days=1))
        return builder.serial_number(x509.random_serial_number())
