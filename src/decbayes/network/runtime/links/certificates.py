"""Certificates for the agents' links: issued by one authority per group, and checked when an agent starts."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_private_key
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from decbayes.base.writing import write_new
from decbayes.errors import InvalidCertificate
from decbayes.network.protocol.group.keys import private_pem
from decbayes.network.protocol.limits import AGENT_DAYS, AUTHORITY_DAYS


def check_credentials(authority: Path, certificate: Path, key: Path) -> datetime:
    """Check that the three files fit together and are valid; returns the end of their validity."""
    authorities, chain = read_certificates(authority), read_certificates(certificate)
    if not belongs(read_key(key), chain[0]):
        raise InvalidCertificate(f"{key} is not the private key of {certificate}.")
    issuers = [one for one in authorities if issued(chain[-1], one)]
    if not issuers:
        raise InvalidCertificate(f"{certificate} was not signed by {authority}: nobody in the group would accept it.")
    # A file may hold several authorities while one replaces another, so use the one that is valid longest.
    issuer = max(issuers, key=lambda one: one.not_valid_after_utc)
    for one in chain:
        check_validity(one, certificate)
    check_validity(issuer, authority)
    return min(one.not_valid_after_utc for one in (*chain, issuer))


def read_certificates(path: Path) -> Sequence[x509.Certificate]:
    try:
        return x509.load_pem_x509_certificates(path.read_bytes())
    except ValueError:
        raise InvalidCertificate(f"{path} is not a certificate, as `decbayes certificate` makes them (PEM).") from None


def read_key(path: Path) -> PrivateKeyTypes:
    try:
        return load_pem_private_key(path.read_bytes(), password=None)
    except (ValueError, TypeError):
        raise InvalidCertificate(f"{path} is not a private key without a password (PEM).") from None


def belongs(key: PrivateKeyTypes, certificate: x509.Certificate) -> bool:
    return key.public_key() == certificate.public_key()


def issued(certificate: x509.Certificate, authority: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def check_validity(certificate: x509.Certificate, path: Path) -> None:
    """Refuse a certificate that has expired or is not valid yet."""
    now, begin, end = datetime.now(UTC), certificate.not_valid_before_utc, certificate.not_valid_after_utc
    if now > end:
        raise InvalidCertificate(f"{path} has expired on {end:%Y-%m-%d %H:%M} UTC; have a new one made and signed.")
    if now < begin:
        raise InvalidCertificate(
            f"{path} is not valid before {begin:%Y-%m-%d %H:%M} UTC, and here it is {now:%Y-%m-%d %H:%M}: "
            "check this machine's clock."
        )


def revoked_names(path: Path) -> frozenset[str]:
    """The names of certificates that are no longer accepted, one per line."""
    text = path.read_text(encoding="utf-8", errors="replace")
    return frozenset(line.strip() for line in text.splitlines() if line.strip())


# New certificates are valid from this long before they were made, because clocks differ.
HEAD_START = timedelta(hours=1)
LABEL = "[A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?"
HOST = re.compile(rf"(\*\.)?{LABEL}(\.{LABEL})*")
MOST_HOST_CHARACTERS, MOST_NAME = 253, 64
BOTH_SIDES = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH])

Signed = x509.Certificate | x509.CertificateSigningRequest


@dataclass(frozen=True)
class Authority:
    """Signs the certificates of a group's agents. The holder of its key decides who may connect."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    @classmethod
    def generate(cls, name: str, *, days: float = AUTHORITY_DAYS) -> "Authority":
        key, subject = ec.generate_private_key(ec.SECP256R1()), common_name(name)
        builder = unsigned(subject, key.public_key(), issuer=subject, until=end_after(days))
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        builder = builder.add_extension(usage(authority=True), critical=True)
        return cls(builder.sign(key, hashes.SHA256()), key)

    @classmethod
    def load(cls, path: Path) -> "Authority":
        """Read a certificate and the key beside it, as `save` writes them."""
        certificate, key = read_certificates(path)[0], read_key(key_file(path))
        if not (isinstance(key, ec.EllipticCurvePrivateKey) and belongs(key, certificate)):
            raise InvalidCertificate(f"{key_file(path)} is not the key of the authority {path}.")
        if not may_sign(certificate):
            raise InvalidCertificate(f"{path} is an agent's certificate, and signs nothing; name the authority's.")
        check_validity(certificate, path)
        return cls(certificate, key)

    def save(self, path: Path) -> None:
        """Write certificate and key; existing files are never overwritten."""
        save_pair(path, self.certificate, key_file(path), self.key)

    def sign(self, request: x509.CertificateSigningRequest, *, days: float = AGENT_DAYS) -> x509.Certificate:
        """A certificate for the request's name, key and hosts; other extensions of the request are ignored."""
        key = request.public_key()
        if not request.is_signature_valid or not isinstance(key, ec.EllipticCurvePublicKey):
            raise InvalidCertificate("The request is damaged, or was not made by `decbayes certificate request`.")
        until = min(end_after(days), self.certificate.not_valid_after_utc)
        builder = unsigned(request.subject, key, issuer=self.certificate.subject, until=until)
        builder = builder.add_extension(alternatives(hosts_of(request)), critical=False)
        builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        builder = builder.add_extension(usage(authority=False), critical=True)
        builder = builder.add_extension(BOTH_SIDES, critical=False)
        builder = builder.add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key()), critical=False
        )
        return builder.sign(self.key, hashes.SHA256())


def new_request(
    name: str | None, hosts: Sequence[str]
) -> tuple[ec.EllipticCurvePrivateKey, x509.CertificateSigningRequest]:
    """An agent's key and its certificate request; the default name is the first host."""
    key, reached_at = ec.generate_private_key(ec.SECP256R1()), alternatives(hosts)
    builder = x509.CertificateSigningRequestBuilder(common_name(name or hosts[0].strip("[]")[:MOST_NAME]))
    return key, builder.add_extension(reached_at, critical=False).sign(key, hashes.SHA256())


def register(authority: Path, certificate: x509.Certificate) -> bool:
    """Record a certificate's name and key beside the authority's; True if another key already has the name."""
    issued = authority.with_name(f"{authority.name}.issued")
    public = certificate.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    line = json.dumps([certificate.subject.rfc4514_string(), sha256(public).hexdigest()])
    earlier = issued.read_text(encoding="utf-8").splitlines() if issued.exists() else []
    with issued.open("a", encoding="utf-8") as file:
        file.write(line + "\n")
    name = json.dumps([certificate.subject.rfc4514_string()])[:-1]
    return any(known.startswith(f"{name},") and known != line for known in earlier)


def read_request(path: Path) -> x509.CertificateSigningRequest:
    try:
        return x509.load_pem_x509_csr(path.read_bytes())
    except ValueError:
        raise InvalidCertificate(
            f"{path} is not a certificate request, as made by `decbayes certificate request`."
        ) from None


def save_pair(path: Path, signed: Signed, key_path: Path, key: ec.EllipticCurvePrivateKey) -> None:
    """Write a certificate or a request, and its key; existing files are never overwritten."""
    refuse_existing(path, key_path)
    write_new(key_path, private_pem(key), private=True)
    write_new(path, pem(signed))


def write_certificate(path: Path, certificate: x509.Certificate) -> None:
    refuse_existing(path)
    write_new(path, pem(certificate))


def key_file(path: Path) -> Path:
    return path.with_name(f"{path.name}.key")


def request_file(path: Path) -> Path:
    return path.with_name(f"{path.name}.request")


def hosts_of(signed: Signed) -> list[str]:
    """The names and addresses under which others may reach the holder."""
    try:
        names = signed.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (x509.ExtensionNotFound, ValueError):
        return []
    return [str(name.value) for name in names if isinstance(name, x509.DNSName | x509.IPAddress)]


def alternatives(hosts: Sequence[str]) -> x509.SubjectAlternativeName:
    if not hosts:
        raise InvalidCertificate("A certificate needs a host: the name or address under which others call the agent.")
    return x509.SubjectAlternativeName([alternative(host) for host in hosts])


def alternative(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(host.strip("[]")))
    except ValueError:
        if HOST.fullmatch(host) is None or len(host) > MOST_HOST_CHARACTERS:
            raise InvalidCertificate(
                f"'{host}' is neither a host name nor an IP address; write it without a port, and other scripts in "
                "their ASCII form (xn--…)."
            ) from None
        return x509.DNSName(host)


def common_name(name: str) -> x509.Name:
    try:
        return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    except ValueError as error:
        raise InvalidCertificate(f"'{name}' cannot be a certificate's name: {error}") from None


def unsigned(
    subject: x509.Name, key: ec.EllipticCurvePublicKey, *, issuer: x509.Name, until: datetime
) -> x509.CertificateBuilder:
    """A builder with the parts that all certificates have."""
    builder = x509.CertificateBuilder(issuer_name=issuer, subject_name=subject, public_key=key)
    builder = builder.serial_number(x509.random_serial_number())
    builder = builder.not_valid_before(datetime.now(UTC) - HEAD_START).not_valid_after(until)
    return builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)


def end_after(days: float) -> datetime:
    try:
        return datetime.now(UTC) + timedelta(days=days)
    except OverflowError:
        raise InvalidCertificate(f"{days} days are too many.") from None


def usage(*, authority: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not authority,
        key_cert_sign=authority,
        crl_sign=authority,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def may_sign(certificate: x509.Certificate) -> bool:
    try:
        return certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except x509.ExtensionNotFound:
        return False


def pem(signed: Signed) -> bytes:
    return signed.public_bytes(Encoding.PEM)


def refuse_existing(*paths: Path) -> None:
    for path in paths:
        if path.exists():
            raise InvalidCertificate(f"{path} exists, and is not overwritten. Choose another name, or move it away.")
