"""Certificates that `decbayes certificate` makes: what they say, who may read their keys, and which do not pass."""

import ssl
from datetime import UTC, datetime, timedelta

import pytest
from certificates import Authority
from cryptography import x509

from decbayes.base.writing import write_new
from decbayes.errors import InvalidCertificate
from decbayes.network.runtime.links import certificates
from decbayes.network.runtime.links.certificates import check_credentials, hosts_of, key_file, new_request

HOSTS = ("site-a.example.org", "10.0.0.7", "::1")


def handshake(server, client, host):
    """A mutual TLS handshake of OpenSSL's, in memory."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        context(ssl.PROTOCOL_TLS_SERVER, *server).wrap_bio(to_server, to_client, server_side=True),
        context(ssl.PROTOCOL_TLS_CLIENT, *client).wrap_bio(to_client, to_server, server_hostname=host),
    ]
    for _ in range(10):
        for end in ends:
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
    return ends[0].getpeercert()["subject"], ends[1].getpeercert()["subject"]


def context(protocol, authority, certificate, key):
    made = ssl.SSLContext(protocol)
    made.verify_mode = ssl.CERT_REQUIRED
    made.load_verify_locations(authority)
    made.load_cert_chain(certificate, key)
    return made


@pytest.mark.parametrize("host", HOSTS)
def test_openssl_accepts_both_ends_under_each_name(tmp_path, host):
    authority = Authority(tmp_path, "authority")
    server, client = authority.issue("server", hosts=HOSTS), authority.issue("client", hosts=HOSTS)
    seen = handshake((authority.file, *server), (authority.file, *client), host)
    assert seen == (((("commonName", "client"),),), ((("commonName", "server"),),))


def test_openssl_refuses_another_authority_another_name_and_an_agent_that_signs(tmp_path):
    authority, other = Authority(tmp_path, "authority"), Authority(tmp_path, "other")
    server, client = authority.issue("server", hosts=HOSTS), authority.issue("client", hosts=HOSTS)
    with pytest.raises(ssl.SSLCertVerificationError, match="mismatch"):
        handshake((authority.file, *server), (authority.file, *client), "elsewhere.example.org")
    with pytest.raises(ssl.SSLCertVerificationError, match="certificate verify failed"):
        handshake((authority.file, *other.issue("foreign", hosts=HOSTS)), (authority.file, *client), HOSTS[0])
    with pytest.raises(InvalidCertificate, match="signs nothing"):
        certificates.Authority.load(client[0])


def test_an_authority_signs_name_key_and_hosts_and_nothing_else():
    authority = certificates.Authority.generate("authority")
    key, _ = new_request("site-a", HOSTS)
    greedy = x509.CertificateSigningRequestBuilder(certificates.common_name("site-a"))
    greedy = greedy.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    greedy = greedy.add_extension(certificates.alternatives(HOSTS), critical=False)
    signed = authority.sign(greedy.sign(key, certificates.hashes.SHA256()), days=9999)
    assert not signed.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    assert hosts_of(signed) == list(HOSTS)
    assert signed.not_valid_after_utc <= authority.certificate.not_valid_after_utc
    assert signed.not_valid_before_utc < datetime.now(UTC) - timedelta(minutes=30), "clocks differ"


def test_a_private_key_is_its_owners_alone_and_nothing_is_overwritten(tmp_path):
    authority = Authority(tmp_path, "authority")
    certificate, key = authority.issue("site-a")
    assert [file.stat().st_mode & 0o777 for file in (key, key_file(authority.file))] == [0o600, 0o600]
    before = certificate.read_bytes(), key.read_bytes()
    with pytest.raises(InvalidCertificate, match="exists"):
        authority.issue("site-a")
    certificate.unlink()
    with pytest.raises(InvalidCertificate, match=r"site-a\.pem\.key exists"):
        authority.issue("site-a")
    assert key.read_bytes() == before[1]
    assert not certificate.exists()


def test_a_key_that_cannot_be_written_whole_leaves_no_file(tmp_path, monkeypatch):
    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("decbayes.base.writing.os.fsync", full)
    with pytest.raises(OSError, match="No space"):
        write_new(tmp_path / "a.key", b"half", private=True)
    assert not list(tmp_path.iterdir())


def test_files_that_do_not_fit_together_or_are_not_valid_now_are_told_apart(tmp_path, monkeypatch):
    authority, other = Authority(tmp_path, "authority"), Authority(tmp_path, "other")
    certificate, key = authority.issue("site-a")
    assert check_credentials(authority.file, certificate, key) < datetime.now(UTC) + timedelta(days=1, minutes=1)
    foreign, _ = other.issue("foreign")
    expired = authority.issue("expired", days=-0.02)
    monkeypatch.setattr(certificates, "HEAD_START", timedelta(hours=-1))
    early = authority.issue("early")
    for files, said in (
        ((authority.file, certificate, key_file(foreign)), "not the private key"),
        ((other.file, certificate, key), "was not signed by"),
        ((authority.file, *expired), "has expired on"),
        ((authority.file, *early), "check this machine's clock"),
        ((key, certificate, key), "not a certificate"),
        ((authority.file, certificate, certificate), "not a private key"),
    ):
        with pytest.raises(InvalidCertificate, match=said):
            check_credentials(*files)


def test_an_authority_that_was_renewed_replaces_the_one_that_has_expired(tmp_path):
    """Both have the same key, so that certificates which the old one has signed are good for as long as the new one."""
    authority = Authority(tmp_path, "authority")
    certificate, key = authority.issue("site-a")
    maker = authority.signer
    subject, public = maker.certificate.subject, maker.key.public_key()
    past = datetime.now(UTC) - timedelta(minutes=1)
    old = certificates.unsigned(subject, public, issuer=subject, until=past)
    old = certificates.pem(old.sign(maker.key, certificates.hashes.SHA256()))
    bundle = tmp_path / "authorities.pem"
    bundle.write_bytes(old)
    with pytest.raises(InvalidCertificate, match=r"authorities\.pem has expired"):
        check_credentials(bundle, certificate, key)
    bundle.write_bytes(old + authority.file.read_bytes())
    assert check_credentials(bundle, certificate, key) > datetime.now(UTC)


def test_a_request_that_was_changed_on_its_way_is_not_signed():
    _, request = new_request("site-a", HOSTS)
    sent = request.public_bytes(certificates.Encoding.DER)
    changed = x509.load_der_x509_csr(sent.replace(b"site-a.example", b"site-b.example"))
    assert hosts_of(changed) == ["site-b.example.org", *HOSTS[1:]]
    with pytest.raises(InvalidCertificate, match="damaged"):
        certificates.Authority.generate("authority").sign(changed)


@pytest.mark.parametrize("host", ["", "a b", "host:7447", "http://host", "-a", "a..b", "x" * 64, "bücher.de"])
def test_what_is_no_host_gets_no_certificate(host):
    with pytest.raises(InvalidCertificate, match="host name"):
        new_request("site-a", (host,))
