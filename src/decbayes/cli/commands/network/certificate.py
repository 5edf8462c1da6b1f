"""`decbayes certificate`: decide who may link with a group's agents."""

from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter
from cyclopts.types import PositiveInt

from decbayes.base.extras import require_extra
from decbayes.cli.shared.outputs import output_option
from decbayes.cli.shared.running import with_example
from decbayes.cli.shared.standard_streams import json_option, print_fields, print_json
from decbayes.cli.shared.terminal import messages, plain
from decbayes.network.protocol.limits import AGENT_DAYS, AUTHORITY_DAYS

if TYPE_CHECKING:
    from cryptography import x509

app = App(name="certificate", help="Create the certificates for links beyond one machine.")

File = Annotated[Path, Parameter(help="Where to write the certificate; its private key goes beside it, as FILE.key.")]
Signer = Annotated[Path, Parameter(name="--authority", help="The authority's certificate; its key is beside it.")]
Hosts = Annotated[
    tuple[str, ...], Parameter(name="--host", help="Name or address at which others reach the agent; may be repeated.")
]
Days = Annotated[PositiveInt, Parameter(help="Days until it expires; at most those of the authority.")]
Json = Annotated[bool, json_option("certificate", "name", "hosts", "signed_by", "valid_until", "fingerprint")]
Name = Annotated[
    str | None,
    Parameter(help="Name in the certificate, by which it can be revoked; different for each site. Default: --host."),
]


@app.command
@with_example("decbayes certificate authority authority.pem")
def authority(
    file: File,
    /,
    *,
    name: Annotated[str | None, Parameter(help="Name of the authority; default: the file's name.")] = None,
    days: Annotated[PositiveInt, Parameter(help="Days until it expires.")] = AUTHORITY_DAYS,
    as_json: Json = False,
) -> None:
    """Create a group's authority. All agents get its certificate; its key stays with the person who admits agents."""
    created = certificates().Authority.generate(name or file.stem, days=days)
    created.save(file)
    print_certificate(created.certificate, as_json)


@app.command
@with_example("decbayes certificate issue a.pem --authority authority.pem --host 10.0.0.7")
def issue(
    file: File, /, *, authority: Signer, hosts: Hosts, name: Name = None, days: Days = AGENT_DAYS, as_json: Json = False
) -> None:
    """Create an agent's key and certificate on the authority's machine; with `request`, it stays with the agent."""
    make = certificates()
    signer = make.Authority.load(authority)
    key, request = make.new_request(name, hosts)
    certificate = signer.sign(request, days=days)
    make.save_pair(file, certificate, make.key_file(file), key)
    register(authority, certificate)
    print_certificate(certificate, as_json)


@app.command
@with_example("decbayes certificate request a.pem --host site-a.example.org")
def request(
    file: File,
    /,
    *,
    hosts: Hosts,
    name: Name = None,
    as_json: Annotated[bool, json_option("request", "request", "key")] = False,
) -> None:
    """Create an agent's key on its own machine, and FILE.request for the authority to sign."""
    make = certificates()
    key, request = make.new_request(name, hosts)
    make.refuse_existing(file)
    make.save_pair(make.request_file(file), request, make.key_file(file), key)
    if as_json:
        print_json({"request": make.request_file(file), "key": make.key_file(file)})
    else:
        print(f"{make.request_file(file)} is for the authority to sign; {make.key_file(file)} stays here.")


@app.command
@with_example("decbayes certificate sign a.pem.request --authority authority.pem -o a.pem")
def sign(
    request: Annotated[Path, Parameter(help="The file that `request` wrote, FILE.request.")],
    /,
    *,
    authority: Signer,
    output: Annotated[Path, output_option("Where to write the certificate.")],
    days: Days = AGENT_DAYS,
    as_json: Json = False,
) -> None:
    """Sign an agent's request. First check with the agent's owner that the request and the hosts are theirs."""
    make = certificates()
    certificate = make.Authority.load(authority).sign(make.read_request(request), days=days)
    make.write_certificate(output, certificate)
    register(authority, certificate)
    print_certificate(certificate, as_json)


@app.command
@with_example("decbayes certificate show a.pem")
def show(file: Annotated[Path, Parameter(help="A certificate.")], /, *, as_json: Json = False) -> None:
    """Show a certificate; fails if it is not valid now."""
    make = certificates()
    certificate = make.read_certificates(file)[0]
    print_certificate(certificate, as_json)
    make.check_validity(certificate, file)


def register(authority: Path, certificate: "x509.Certificate") -> None:
    """Record a name, and warn if another key already has it."""
    if certificates().register(authority, certificate):
        name = plain(certificate.subject.rfc4514_string().removeprefix("CN="))
        messages().print(
            f"This authority has already signed another key with the name {name}. Revoking {name} revokes both; "
            "--name gives a certificate its own name."
        )


def certificates() -> ModuleType:
    """The module for certificates, loaded on use because it needs an extra."""
    require_extra("net", task="decbayes certificate")
    from decbayes.network.runtime.links import certificates

    return certificates


def print_certificate(certificate: "x509.Certificate", as_json: bool) -> None:
    from cryptography.hazmat.primitives import hashes

    fingerprint = certificate.fingerprint(hashes.SHA256()).hex()
    fields = {
        "name": certificate.subject.rfc4514_string(),
        "hosts": certificates().hosts_of(certificate),
        "signed_by": certificate.issuer.rfc4514_string(),
        "valid_until": f"{certificate.not_valid_after_utc:%Y-%m-%d %H:%M} UTC",
        "fingerprint": "-".join(fingerprint[first : first + 4] for first in range(0, 20, 4)),
    }
    print_fields(fields, as_json=as_json)
