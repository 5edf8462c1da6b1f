"""Certificates as an agent finds them at its start: told apart from each other's, expired and mistaken ones."""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from decbayes.errors import InvalidCertificate


def check_credentials(authority: Path, certificate: Path, key: Path) -> datetime:
    """Whether the three files fit together and are valid now; until when they are."""
    authorities, chain = read_certificates(authority), read_certificates(certificate)
    if not belongs(read_key(key), chain[0]):
        raise InvalidCertificate(f"{key} is not the private key of {certificate}.")
    issuers = [one for one in authorities if issued(chain[-1], one)]
    if not issuers:
        raise InvalidCertificate(f"{certificate} was not signed by {authority}: nobody in the group would accept it.")
    # A file may hold several authorities while one replaces another: those that have expired do no harm.
    issuer = max(issuers, key=lambda one: one.not_valid_after_utc)
    for one in chain:
        check_validity(one, certificate)
    check_validity(issuer, authority)
    return min(one.not_valid_after_utc for one in (*chain, issuer))


def read_certificates(path: Path) -> Sequence[x509.Certificate]:
    try:
        return x509.load_pem_x509_certificates(path.read_bytes())
    except ValueError as error:
        raise InvalidCertificate(f"{path} is not a certificate in PEM form: {error}") from None


def read_key(path: Path) -> PrivateKeyTypes:
    try:
        return load_pem_private_key(path.read_bytes(), password=None)
    except (ValueError, TypeError) as error:
        raise InvalidCertificate(f"{path} is not a private key in PEM form: {error}") from None


def belongs(key: PrivateKeyTypes, certificate: x509.Certificate) -> bool:
    return key.public_key() == certificate.public_key()


def issued(certificate: x509.Certificate, authority: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def check_validity(certificate: x509.Certificate, path: Path) -> None:
    """Certificates are the one thing about links that depends on the clock."""
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
