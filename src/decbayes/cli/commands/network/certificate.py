"""`decbayes certificate`: who may link with a group's agents."""

from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter
from cyclopts.types import PositiveInt

from decbayes.extras import require_extra
from decbayes.network.protocol.limits import AGENT_DAYS, AUTHORITY_DAYS

if TYPE_CHECKING:
    from cryptography import x509

app = App(name="certificate", help="Create the certificates for links beyond one machine.")

File = Annotated[Path, Parameter(help="Where to write the certificate; its private key goes beside it, as FILE.key.")]
Signer = Annotated[Path, Parameter(name="--authority", help="The authority's certificate; its key lies beside it.")]
Hosts = Annotated[
    tuple[str, ...],
    Parameter(name="--host", help="Name or address at which others reach the agent; may be repeated.", negative=""),
]
Days = Annotated[PositiveInt, Parameter(help="Days until it expires; at most those of the authority.")]
Name = Annotated[str | None, Parameter(help="Name in the certificate; default: the file's name.")]


@app.command
def authority(
    file: File,
    /,
    *,
    name: Name = None,
    days: Annotated[PositiveInt, Parameter(help="Days until it expires.")] = AUTHORITY_DAYS,
) -> None:
    """Make a group's authority. All agents get its certificate; its key stays with whoever admits agents.

    For example:

    ```sh
    decbayes certificate authority authority.pem
    ```
    """
    made = certificates().Authority.generate(name or file.stem, days=days)
    made.save(file)
    print_certificate(made.certificate)


@app.command
def issue(file: File, /, *, authority: Signer, hosts: Hosts, name: Name = None, days: Days = AGENT_DAYS) -> None:
    """Make an agent's key and certificate where the authority is. `request` keeps the key on the agent's machine.

    For example:

    ```sh
    decbayes certificate issue a.pem --authority authority.pem --host 10.0.0.7
    ```
    """
    make = certificates()
    signer = make.Authority.load(authority)
    key, request = make.new_request(name or file.stem, hosts)
    certificate = signer.sign(request, days=days)
    make.save_pair(file, certificate, make.key_file(file), key)
    print_certificate(certificate)


@app.command
def request(file: File, /, *, hosts: Hosts, name: Name = None) -> None:
    """Make an agent's key where it stays, and FILE.request for the authority to sign.

    For example:

    ```sh
    decbayes certificate request a.pem --host site-a.example.org
    ```
    """
    make = certificates()
    key, made = make.new_request(name or file.stem, hosts)
    make.refuse_existing(file)
    make.save_pair(make.request_file(file), made, make.key_file(file), key)
    print(f"{make.request_file(file)} is for the authority to sign; {make.key_file(file)} stays here.")


@app.command
def sign(
    request: Annotated[Path, Parameter(help="The file that `request` wrote, FILE.request.")],
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
    make = certificates()
    certificate = make.Authority.load(authority).sign(make.read_request(request), days=days)
    make.write_certificate(output, certificate)
    print_certificate(certificate)


@app.command
def show(file: Annotated[Path, Parameter(help="A certificate.")], /) -> None:
    """Show a certificate; fails if it is not valid now.

    For example:

    ```sh
    decbayes certificate show a.pem
    ```
    """
    make = certificates()
    certificate = make.read_certificates(file)[0]
    print_certificate(certificate)
    make.check_validity(certificate, file)


def certificates() -> ModuleType:
    """What makes and reads certificates; loaded when it is used, because it needs a library of its own."""
    require_extra("net", task="decbayes certificate")
    from decbayes.network.runtime.links import certificates

    return certificates


def print_certificate(certificate: "x509.Certificate") -> None:
    from cryptography.hazmat.primitives import hashes

    fingerprint = certificate.fingerprint(hashes.SHA256()).hex()
    hosts = certificates().hosts_of(certificate)
    print(f"name         {certificate.subject.rfc4514_string()}")
    if hosts:
        print(f"hosts        {', '.join(hosts)}")
    print(f"signed by    {certificate.issuer.rfc4514_string()}")
    print(f"valid until  {certificate.not_valid_after_utc:%Y-%m-%d %H:%M} UTC")
    print(f"fingerprint  {'-'.join(fingerprint[first : first + 4] for first in range(0, 20, 4))}")
