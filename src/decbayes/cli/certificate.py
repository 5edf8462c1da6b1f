"""`decbayes certificate`: who may link with a group's agents."""

from pathlib import Path
from typing import Annotated

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cyclopts import App, Parameter
from cyclopts.types import PositiveInt

from decbayes.network.certificates import (
    AGENT_DAYS,
    AUTHORITY_DAYS,
    Authority,
    hosts_of,
    key_file,
    new_request,
    read_request,
    refuse_existing,
    request_file,
    save_pair,
    write_certificate,
)
from decbayes.network.certified import check_validity, read_certificates

app = App(name="certificate", help="Make the certificates for links beyond one machine.")

File = Annotated[Path, Parameter(help="Where to write the certificate; its private key goes beside it, as FILE.key.")]
Signer = Annotated[Path, Parameter(name="--authority", help="The authority's certificate; its key lies beside it.")]
Hosts = Annotated[
    tuple[str, ...],
    Parameter(name="--host", help="Name or address under which others call the agent; may be repeated.", negative=""),
]
Days = Annotated[PositiveInt, Parameter(help="How long it is valid, at most as long as the authority.")]
Name = Annotated[str | None, Parameter(help="What the certificate is called; the file's name unless given.")]


@app.command
def authority(
    file: File, /, *, name: Name = None, days: Annotated[PositiveInt, Parameter(help="Validity.")] = AUTHORITY_DAYS
) -> None:
    """Make a group's authority. All agents get its certificate; its key stays with whoever admits agents.

    For example:

    ```sh
    decbayes certificate authority authority.pem
    ```
    """
    made = Authority.generate(name or file.stem, days=days)
    made.save(file)
    describe(made.certificate)


@app.command
def issue(file: File, /, *, authority: Signer, hosts: Hosts, name: Name = None, days: Days = AGENT_DAYS) -> None:
    """Make an agent's key and certificate where the authority is. `request` keeps the key on the agent's machine.

    For example:

    ```sh
    decbayes certificate issue a.pem --authority authority.pem --host 10.0.0.7
    ```
    """
    signer = Authority.load(authority)
    key, request = new_request(name or file.stem, hosts)
    certificate = signer.sign(request, days=days)
    save_pair(file, certificate, key_file(file), key)
    describe(certificate)


@app.command
def request(file: File, /, *, hosts: Hosts, name: Name = None) -> None:
    """Make an agent's key where it stays, and FILE.request for the authority to sign.

    For example:

    ```sh
    decbayes certificate request a.pem --host site-a.example.org
    ```
    """
    key, made = new_request(name or file.stem, hosts)
    refuse_existing(file)
    save_pair(request_file(file), made, key_file(file), key)
    print(f"{request_file(file)} is for the authority to sign; {key_file(file)} stays here.")


@app.command
def sign(
    request: Annotated[Path, Parameter(help="What `request` made, by its name FILE.request.")],
    /,
    *,
    authority: Signer,
    output: Annotated[Path, Parameter(name=["--output", "-o"], help="Where to write the certificate.")],
    days: Days = AGENT_DAYS,
) -> None:
    """Sign an agent's request. Check with the agent's owner that it is theirs, and that these are their hosts.

    For example:

    ```sh
    decbayes certificate sign a.pem.request --authority authority.pem -o a.pem
    ```
    """
    certificate = Authority.load(authority).sign(read_request(request), days=days)
    write_certificate(output, certificate)
    describe(certificate)


@app.command
def show(file: Annotated[Path, Parameter(help="A certificate.")], /) -> None:
    """Show a certificate; fails if it is not valid now.

    For example:

    ```sh
    decbayes certificate show a.pem
    ```
    """
    certificate = read_certificates(file)[0]
    describe(certificate)
    check_validity(certificate, file)


def describe(certificate: x509.Certificate) -> None:
    fingerprint = certificate.fingerprint(hashes.SHA256()).hex()
    hosts = hosts_of(certificate)
    print(f"name         {certificate.subject.rfc4514_string()}")
    if hosts:
        print(f"hosts        {', '.join(hosts)}")
    print(f"signed by    {certificate.issuer.rfc4514_string()}")
    print(f"valid until  {certificate.not_valid_after_utc:%Y-%m-%d %H:%M} UTC")
    print(f"fingerprint  {'-'.join(fingerprint[first : first + 4] for first in range(0, 20, 4))}")
