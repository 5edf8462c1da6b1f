"""A charter says one thing to everybody who holds it, and refuses to be misread."""

import tomllib
from dataclasses import replace

import pytest
from groups import gaussian_charter, identities, later_charter
from hypothesis import given
from hypothesis import strategies as st

from decbayes import Posterior, disclosure
from decbayes.errors import DecbayesError, InvalidCharter, InvalidKey
from decbayes.network import Charter, Identity, Limits, Rules, agent_id

MEMBERS = identities(3)
MIXTURE = {"components": 3, "dimension": 2, "variance": 0.5, "prior_mean": [0.0, 1.0], "weight_prior": 1.5}


def mixture_charter(**changes) -> Charter:
    content = {
        "group": "clinics",
        "id": "abc",
        "model_name": "GaussianMixture",
        "settings": MIXTURE,
        "members": {"north": MEMBERS[0].public, "süd": MEMBERS[1].public},
        "limits": Limits(members=10),
        "secret": b"s" * 32,
    }
    return Charter(**content | changes)


def test_a_charter_comes_back_from_its_file(tmp_path):
    numbers = [mixture_charter(rules=Rules(components=number)) for number in (5, "auto")]
    strict = mixture_charter(disclosure=disclosure.Rules(least_cell=10, approval=True))
    for charter in (gaussian_charter(MEMBERS), mixture_charter(), *numbers, strict):
        charter.save(tmp_path / "charter.toml")
        back = Charter.load(tmp_path / "charter.toml")
        assert back == charter
        assert (back.fingerprint, back.structure) == (charter.fingerprint, charter.structure)


@pytest.fixture(scope="module")
def plain():
    return gaussian_charter(MEMBERS)


@given(name=st.text(max_size=30))
def test_any_name_is_written_so_that_it_is_read_back_or_refused(plain, name):
    try:
        charter = Charter(name, plain.model_name, plain.settings, {name: MEMBERS[0].public}, plain.id)
    except InvalidCharter:
        assert not name or not name.isprintable()
        return
    assert tomllib.loads(charter.to_toml())["group"]["name"] == name
    assert list(tomllib.loads(charter.to_toml())["members"]) == [name]


@pytest.mark.parametrize(
    "changes",
    [
        {"group": "others"},
        {"id": "abd"},
        {"settings": MIXTURE | {"variance": 0.6}},
        {"settings": MIXTURE | {"components": 4}},
        {"members": {"north": MEMBERS[0].public}},
        {"members": {"north": MEMBERS[0].public, "süd": MEMBERS[2].public}},
        {"limits": Limits(members=11)},
        {"rules": Rules(share=0.5)},
        {"rules": Rules(components=2)},
        {"secret": b"t" * 32},
        {"disclosure": disclosure.Rules()},
    ],
)
def test_every_difference_changes_the_fingerprint(changes):
    assert mixture_charter(**changes).fingerprint != mixture_charter().fingerprint


def test_disclosure_rules_are_agreed_on_and_fingerprints_stay_from_version_to_version():
    usual, stricter = (mixture_charter(disclosure=disclosure.Rules(least_cell=cell)) for cell in (5, 6))
    assert usual.fingerprint != stricter.fingerprint
    assert gaussian_charter(MEMBERS[:2]).fingerprint.startswith("b2aaaf8994f5af8f"), "protocol 3"


def test_how_many_observations_are_needed_is_said_once(tmp_path):
    assert mixture_charter(rules=Rules(least_observations=7)).least_observations == 7
    charter = mixture_charter(disclosure=disclosure.Rules(least_observations=30))
    assert charter.least_observations == 30
    assert charter.to_toml().count("least_observations") == 1
    with pytest.raises(InvalidCharter, match="is one of them"):
        mixture_charter(rules=Rules(least_observations=7), disclosure=disclosure.Rules())
    path = tmp_path / "charter.toml"
    for wrong in ("least_cell = 0", "least = 5", "approval = 1"):
        path.write_text(mixture_charter().to_toml() + f"[disclosure]\n{wrong}\n", encoding="utf-8")
        with pytest.raises(InvalidCharter, match="disclosure"):
            Charter.load(path)


def test_the_fingerprint_does_not_depend_on_the_order_of_writing():
    turned = mixture_charter(
        settings=dict(reversed(MIXTURE.items())), members={"süd": MEMBERS[1].public, "north": MEMBERS[0].public}
    )
    assert turned.fingerprint == mixture_charter().fingerprint
    assert len(turned.short_fingerprint) == 24
    assert turned.short_fingerprint.replace("-", "") == turned.fingerprint[:20]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("protocol = 3", "protocol = 1"),
        ("agreement = 0.5", "agreement = 0.4"),
        ("agreement = 0.5", "agreement = 1.0"),
        ("share = 1.0", "share = 0.0"),
        (f'secret = "{"73" * 32}"', 'secret = "73"'),
        ("variance = 0.5", "variance = 0.7"),
        ("components = 3", "components = 0"),
        ("components = 3", 'components = "three"'),
        ("components = 3", "parts = 3"),
        ('name = "GaussianMixture"', 'name = "os"'),
        ('name = "GaussianMixture"', 'name = "load"'),
        ("members = 10", "members = 0"),
        ("members = 10", "members = 1"),
        ("members = 10", "member = 10"),
        (MEMBERS[0].public.hex(), MEMBERS[1].public.hex()),
        (MEMBERS[0].public.hex(), "00"),
        (MEMBERS[0].public.hex(), "z" * 64),
        ("[group]", "[group]\nmore = 1"),
        ("[group]", "[more]\n[group]"),
        ("[group]", "[group"),
        ('id = "abc"', 'id = ""'),
        ('id = "abc"', "id = 3"),
    ],
)
def test_a_changed_or_malformed_charter_is_refused(before, after, tmp_path):
    path = tmp_path / "charter.toml"
    text = mixture_charter().to_toml()
    assert before in text
    path.write_text(text.replace(before, after, 1), encoding="utf-8")
    with pytest.raises(DecbayesError):
        Charter.load(path)


def test_a_group_agrees_on_a_number_of_components():
    with pytest.raises(InvalidCharter, match="the charter must say it, not 'auto'"):
        _ = mixture_charter(settings=MIXTURE | {"components": "auto"}).model


def test_another_number_of_slots_needs_components_that_can_be_more_or_fewer():
    with pytest.raises(InvalidCharter, match="GaussianMean has no components"):
        replace(gaussian_charter(MEMBERS), rules=Rules(components="auto"))
    with pytest.raises(InvalidCharter, match="robust"):
        mixture_charter(rules=Rules(components=2, robust=True))
    charter = mixture_charter(rules=Rules(components=2))
    with pytest.raises(InvalidCharter, match="distinguishes the model's components"):
        later_charter(charter, Posterior.of_prior(charter.structure))


def test_settings_that_toml_cannot_hold_are_refused():
    with pytest.raises(InvalidCharter, match="'covariance'"):
        mixture_charter(settings=MIXTURE | {"covariance": None}).to_toml()


def topics_charter(words) -> Charter:
    return Charter(
        group="texts",
        model_name="LatentDirichletAllocation",
        settings={"topics": 3, "topic_prior": 0.1},
        members={"north": MEMBERS[0].public},
        vocabulary=tuple(words),
    )


def test_a_vocabulary_travels_in_a_file_and_is_part_of_the_agreement(tmp_path):
    charter = topics_charter(["apple", "Äpfel", "two words", "line\u2028separator"])
    charter.save(tmp_path / "charter.toml")
    assert Charter.load(tmp_path / "charter.toml") == charter
    assert charter.fingerprint != topics_charter(["apple", "Äpfel", "two words", "other"]).fingerprint
    moved = (tmp_path / "charter.vocabulary").rename(tmp_path / "elsewhere.txt")
    with pytest.raises(FileNotFoundError):
        Charter.load(tmp_path / "charter.toml")
    assert Charter.load(tmp_path / "charter.toml", vocabulary=moved) == charter
    moved.write_text("apple\nbanana\n")
    with pytest.raises(InvalidCharter, match="not the vocabulary"):
        Charter.load(tmp_path / "charter.toml", vocabulary=moved)
    text = (tmp_path / "charter.toml").read_text()
    (tmp_path / "charter.toml").write_text("".join(line for line in text.splitlines(True) if ".vocabulary" not in line))
    with pytest.raises(InvalidCharter, match="by digest only"):
        Charter.load(tmp_path / "charter.toml")


def test_words_with_line_breaks_are_refused():
    with pytest.raises(InvalidCharter, match="line breaks"):
        topics_charter(["a\nb", "c"])


def test_ids_are_hashes_of_public_keys():
    charter = mixture_charter()
    assert charter.keys == {agent_id(public): public for public in charter.members.values()}
    assert charter.names[MEMBERS[1].id] == "süd"


def test_keys_are_saved_for_their_owner_only_and_never_overwritten(tmp_path):
    identity = Identity.generate()
    identity.save(tmp_path / "site.key")
    assert (tmp_path / "site.key").stat().st_mode & 0o777 == 0o600

    assert Identity.load(tmp_path / "site.key").id == identity.id
    with pytest.raises(FileExistsError):
        identity.save(tmp_path / "site.key")


def test_a_charter_is_for_its_owner_alone_and_one_that_others_can_read_is_reported(tmp_path, capsys):
    """It holds the group's secret, and was once written for everybody to read."""
    from decbayes.cli import main

    file = tmp_path / "group.toml"
    mixture_charter().save(file)
    assert file.stat().st_mode & 0o777 == 0o600
    for mode, warned in ((0o600, False), (0o640, False), (0o644, True)):
        file.chmod(mode)
        with pytest.raises(SystemExit) as end:
            main(["charter", "show", str(file)])
        assert (end.value.code, "chmod 600" in capsys.readouterr().err) == (0, warned)


def test_what_is_no_key_is_refused(tmp_path):
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    path = tmp_path / "site.key"
    path.write_text("no key")
    with pytest.raises(InvalidKey, match="PEM"):
        Identity.load(path)
    path.write_bytes(X25519PrivateKey.generate().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    with pytest.raises(InvalidKey, match="another kind"):
        Identity.load(path)
