"""What must not get in does not: it is refused, counted by reason and logged, and the next valid record counts."""

import time
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import zenoh
from certificates import Authority
from groups import gaussian_charter, identities
from parties import Means, inquiry, until

from decbayes.errors import DecbayesError, TransportFailed
from decbayes.files import to_bytes
from decbayes.network import Record, SignedHeader, sign_record
from decbayes.network.protocol.talk.guests import Guests
from decbayes.network.protocol.talk.messages import Batch, Digest, Pull, encode, message_bytes
from decbayes.network.protocol.talk.revisions import REVISION
from decbayes.network.runtime.links.ask import Inquiry
from decbayes.network.runtime.links.endpoints import Links, settings
from decbayes.network.runtime.links.questions import MOST_TOKENS, Once, Question, Seal
from decbayes.network.runtime.links.transport import config, open_session, root_key
from decbayes.network.runtime.store import stored_pool
from decbayes.posterior import Posterior

pytestmark = [pytest.mark.xdist_group("sockets"), pytest.mark.timeout(120)]

MOST = 1 << 20


class Neighbour:
    """A session that looks like a neighbour and says whatever it likes."""

    def __init__(self, charter, endpoint):
        self.session, _ = open_session(Links(listen=(), connect=(endpoint,)), most_bytes=64 << 20)
        self.root, self.name = root_key(charter), str(self.session.info.zid())
        self.seal = Seal(charter.secret)
        self.token = self.session.liveliness().declare_token(f"{self.root}/here/{self.name}")
        here = [str(reply.ok.key_expr) for reply in self.session.liveliness().get(f"{self.root}/here/*", timeout=5)]
        (self.other,) = [key.rpartition("/")[2] for key in here if not key.endswith(self.name)]

    def say(self, message, *, name=None, sealed=True):
        key = f"{self.root}/to/{self.other}/{name or self.name}"
        told = self.seal.close(message, key) if sealed else message
        self.session.put(key, told, congestion_control=zenoh.CongestionControl.BLOCK)

    def introduce(self, charter, identity):
        """Show that it is a member, as every agent does at each tick."""
        member, proof = Guests(charter, identity, self.name).introduce(self.other)
        self.say(encode(Digest(bytes(32), bytes.fromhex(charter.fingerprint), "0", member, proof, REVISION)))

    def pretend(self, name):
        return self.session.liveliness().declare_token(f"{self.root}/here/{name}")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.session.close()


def test_a_hostile_neighbour_is_refused_and_the_next_valid_record_counts(tmp_path):
    with Means(tmp_path, 3, record_bytes=MOST) as party:
        agent = party.join("agent 0")
        charter, honest = party.charter, party.identities["agent 1"]
        fitted = charter.model.fit(np.ones((4, 3))).posterior
        valid = sign_record(charter, honest, 7, posterior=fitted, shards=frozenset({"s"}), observations=4)
        forged = Record(SignedHeader(valid.header, party.identities["agent 2"].sign(valid.digest)), valid.body, None)
        with Neighbour(charter, agent.endpoint()) as neighbour, inquiry(party, "agent 0") as ask:
            assert until(lambda: len(ask.status()["neighbours"]) == 1)
            neighbour.say(encode(Pull((honest.id,))))
            neighbour.introduce(charter, party.identities["agent 2"])
            assert until(lambda: ask.status()["neighbours"][0]["member"] == "agent 2")
            fakes = [neighbour.pretend(f"{number:032x}") for number in range(20)]
            neighbour.say(b"\xc6\x40\x00\x00\x00")  # claims a gibibyte, holds nothing
            neighbour.say(bytes(message_bytes(charter) + 1))
            neighbour.say(bytes(4 * MOST))  # so long that zenoh itself discards it
            neighbour.say(encode(Batch((forged.content,))))
            neighbour.say(encode(Batch((valid.content[:-1],))))
            neighbour.say(b"anything", name="0" * 32)
            refused = {"envelope": 2, "size": 1, "signature": 1, "stranger": 1}
            assert until(lambda: ask.status()["refused"] == refused), ask.status()
            assert ask.status()["heard"] == {}
            assert len(ask.status()["neighbours"]) == 1, f"one session is one neighbour, with {len(fakes)} more tokens"
            assert {line["reason"] for line in agent.events("refused")} == refused.keys()
            assert until(lambda: agent.events("dropped")), "the message under a name that nobody has"
            neighbour.say(encode(Batch((valid.content,))))
            assert until(lambda: ask.status()["heard"].get("agent 1") == 7)
            neighbour.say(encode(Batch((valid.content,))))
            assert until(lambda: ask.status()["refused"].get("replay") == 1)


@pytest.mark.parametrize(
    ("payload", "attachment"),
    [
        (b"nonsense", b"{}"),
        (None, b"{"),
        (None, b"[1]"),
        (None, b"{}"),
        (None, b'{"counted": [], "observations": "many", "set": 3}'),
        ("another model", b'{"counted": {}, "observations": 0, "set": ""}'),
        ("no charter", b'{"counted": {}, "observations": 0, "set": ""}'),
    ],
)
def test_whoever_is_asked_may_answer_nonsense(payload, attachment):
    charter, other = gaussian_charter(identities(1)), gaussian_charter(identities(1), dimension=2)
    genuine = to_bytes(Posterior.of_prior((other if payload == "another model" else charter).structure))
    session, (endpoint,) = open_session(Links(), most_bytes=MOST)
    key = f"{root_key(charter)}/ask/me"
    content = payload if isinstance(payload, bytes) else genuine
    seal = Seal(charter.secret if payload != "no charter" else b"another secret")
    reply = partial(answer, key=key, content=content, attachment=attachment, seal=seal, charter=charter)
    with session.declare_queryable(f"{key}/*", reply):
        ask = Inquiry(charter, Links(listen=(), connect=(endpoint,)))
        with pytest.raises(DecbayesError) as told, ask:
            ask.posterior()
    session.close()
    assert str(told.value).isprintable()
    assert "No agent" not in str(told.value), "it did answer"


def answer(query, key, content, attachment, seal, charter):
    question = Question(query, key, Seal(charter.secret), Once(MOST_TOKENS))
    question._seal = seal
    with query:
        told = question._closed(attachment, "description")
        query.reply(f"{key}/posterior", question._closed(content, "answer"), attachment=told)


def test_without_a_certificate_of_the_authority_nobody_gets_a_link(tmp_path):
    ours, other = Authority(tmp_path, "ours"), Authority(tmp_path, "other")
    with Means(tmp_path, 4) as party:
        first = party.join("agent 0", *options(ours.certify("first")))
        foreign = party.join("agent 1", *options(other.certify("foreign")), neighbours=("agent 0",))
        assert until(lambda: any("UnknownIssuer" in text for text in unreachable(foreign)))
        assert until(lambda: any("another authority" in text for text in link_refusals(first)))
        foreign.stop()
        knock(first.endpoint(), ours, *other.issue("impostor"))
        assert until(lambda: any("issuer" in text for text in link_refusals(first)))
        knock(first.endpoint(), ours, *ours.issue("late", days=-0.02))
        assert until(lambda: any("expired" in text for text in link_refusals(first)))
        assert until(
            lambda: call_plainly(party) or any("without certificates" in text for text in link_refusals(first))
        )
        knock(first.endpoint(), ours)
        assert until(lambda: any("no certificate" in text for text in link_refusals(first)))

        elsewhere = party.join("agent 3", *options(ours.certify("elsewhere", hosts=("elsewhere.example",))))
        second = party.join("agent 2", *options(ours.certify("second")), neighbours=("agent 0", "agent 3"))
        with inquiry(party, "agent 0", tls=ours.certify("third")) as ask:
            assert until(lambda: ask.status()["heard"].keys() == {"agent 0", "agent 2"})
            assert ask.status()["refused"]["link"] >= 3
            party.check_batch(ask.posterior(), {"agent 0", "agent 2"})
        assert until(lambda: any("elsewhere.example" in text for text in unreachable(second))), "called by another name"
        assert not elsewhere.events("accepted")


def test_a_revoked_certificate_is_shut_out_while_the_agents_run(tmp_path):
    ours = Authority(tmp_path, "ours")
    tls = {name: ours.certify(name) for name in ("first", "second", "third", "fourth", "fifth")}
    with Means(tmp_path, 3) as party:
        first = party.join("agent 0", *options(tls["first"]))
        party.join("agent 1", *options(tls["second"]), neighbours=("agent 0",))
        party.join("agent 2", *options(tls["third"]), neighbours=("agent 0",))
        assert until(lambda: len(first.events("accepted")) == 2)
        with eavesdropper(party, "agent 0", tls["fifth"]) as heard:
            assert until(lambda: heard), "whoever is linked is handed what others are sent"
        (tmp_path / "group.revoked").write_text("second\nfifth\n")
        assert until(lambda: [line["new"] for line in first.events("certificates_revoked")] == [["fifth", "second"]])
        assert until(lambda: len(first.events("listening")) == 2)
        with inquiry(party, "agent 0", tls=tls["fourth"]) as ask:
            assert until(lambda: [each["member"] for each in ask.status()["neighbours"]] == ["agent 2"])
            with eavesdropper(party, "agent 0", tls["fifth"]) as heard:
                assert until(lambda: ask.status()["neighbours"][0]["seconds_ago"] < 0.5)
                time.sleep(1)
                assert heard == []
            assert [each["member"] for each in ask.status()["neighbours"]] == ["agent 2"]
        with (
            pytest.raises(TransportFailed, match="No agent"),
            inquiry(party, "agent 0", tls=tls["second"]) as ask,
        ):
            ask.status(timeout=2)
        (tmp_path / "group.revoked").unlink()
        assert until(lambda: first.events("not_adopted")), "a list that is gone lets nobody in again"
        assert len(first.events("listening")) == 2
        (tmp_path / "group.revoked").write_text("")
        assert until(lambda: len(first.events("listening")) == 3)
        with inquiry(party, "agent 0", tls=tls["fourth"]) as ask:
            assert until(lambda: {each["member"] for each in ask.status()["neighbours"]} == {"agent 1", "agent 2"})


@contextmanager
def eavesdropper(party, name, tls=None):
    """Somebody who is linked with an agent and subscribes to everything; what it is handed, in the order of arrival."""
    links = Links(listen=(), connect=(party.agents[name].endpoint(),), tls=tls)
    session, _ = open_session(links, most_bytes=MOST)
    heard = []
    with session.declare_subscriber("**", lambda sample: heard.append(bytes(sample.payload))):
        yield heard
    session.close()


def test_whoever_is_linked_without_the_charter_learns_nothing(tmp_path):
    """zenoh hands messages to all who subscribe to their key: a certificate was once enough to get all records."""
    with Means(tmp_path, 2) as party:
        first = party.join("agent 0")
        with eavesdropper(party, "agent 0") as heard, Neighbour(party.charter, first.endpoint()) as stranger:
            party.join("agent 1", neighbours=("agent 0",))
            party.agreement(["agent 0", "agent 1"], {"agent 0", "agent 1"})
            stored = [record.content for record in stored_pool(tmp_path / "agent 0.store", party.charter).counted()]
            assert until(lambda: len(heard) > 20)
            assert max(map(len, heard)) > min(map(len, stored)), "it was handed records"
            assert not [1 for message in heard for content in stored if content[:40] in message or content in message]
            stranger.say(encode(Pull((party.identities["agent 1"].id,))), sealed=False)
            without = replace(party.charter, secret=bytes(31) + b"1")
            ask = Inquiry(without, Links(listen=(), connect=(first.endpoint(),)))
            for question in (ask.status, ask.posterior):
                with pytest.raises(TransportFailed, match="Only members are answered"):
                    question()
            ask.close()
        with inquiry(party, "agent 0") as ask:
            assert until(lambda: ask.status()["refused"].get("stranger") == 3)


def call_plainly(party):
    """Plain text is no TLS."""
    with pytest.raises(TransportFailed, match="No agent"), inquiry(party, "agent 0") as ask:
        ask.status(timeout=0.5)


def options(tls):
    return ("--tls-authority", str(tls.authority), "--tls-certificate", str(tls.certificate), "--tls-key", str(tls.key))


def link_refusals(agent):
    return [line["text"] for line in agent.events("refused") if line["reason"] == "link"]


def unreachable(agent):
    return [line["why"] for line in agent.events("unreachable")]


def knock(endpoint, authority, certificate=None, key=None):
    """Try to link with a certificate that an honest agent would not have, or with none."""
    values = settings(Links(listen=(), connect=(endpoint,), tls=nobody(authority)), (), most_bytes=MOST)
    shown = {} if certificate is None else {"connect_certificate": str(certificate), "connect_private_key": str(key)}
    values["transport/link/tls"] = {"root_ca_certificate": str(authority.file), "enable_mtls": bool(shown), **shown}
    zenoh.open(config(values)).close()


def nobody(authority):
    return authority.certify(f"nobody-{time.monotonic_ns()}")
