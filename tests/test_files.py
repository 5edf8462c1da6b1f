"""Files: exact round trips, and nothing believed that was not checked."""

import gc
import hashlib
import json
import os
import warnings

import numpy as np
import pytest
from damage import unhashed
from draws import ALL
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import save as serialize
from structures import draw, everything, mixture, single, topics

import decbayes as db
from decbayes.base.writing import scratch_folder
from decbayes.errors import DecbayesError, InvalidFile
from decbayes.files import from_bytes, load_note, to_bytes


@pytest.mark.parametrize("name", ALL)
def test_every_family_survives_the_round_trip_bit_for_bit(name, rng, tmp_path):
    posterior = draw(single(name, 3, 2), rng)
    db.save(posterior, tmp_path / "a.posterior")
    again = db.load(tmp_path / "a.posterior")
    assert again == posterior
    assert again.structure == posterior.structure
    assert to_bytes(again) == to_bytes(posterior)


def test_structures_with_labels_sets_and_sparse_factors_survive(rng, tmp_path):
    posterior = draw(everything(), rng)
    db.save(posterior, tmp_path / "a.posterior")
    again = db.load(tmp_path / "a.posterior")
    assert again == posterior
    assert again.structure.labels == posterior.structure.labels
    assert again.structure.model == posterior.structure.model
    assert db.merge([again, draw(everything(), rng)]).structure == everything()


def test_equal_posteriors_have_equal_bytes(rng):
    posterior = draw(everything(), rng)
    again = db.Posterior(everything(), dict(reversed(posterior.contribution.items())))
    assert to_bytes(posterior) == to_bytes(again)


def test_loaded_posteriors_share_their_structure(rng, tmp_path):
    for name in ("a", "b"):
        db.save(draw(topics(3, 50), rng), tmp_path / name)
    assert db.load(tmp_path / "a").structure is db.load(tmp_path / "b").structure


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.csv", b"x,y\n1,2\n", "a.csv is data, not a posterior: run `decbayes fit` first."),
        ("a.csv.gz", b"\x1f\x8b", "is data, not a posterior"),
        ("table", b"\x93NUMPY\x01\x00", "table is data"),
        ("a.columns", b"[]", "--agreed-columns"),
        ("group.toml", b'group = "g"', "is a charter"),
        ("a", b"-----BEGIN PRIVATE KEY-----\n", "a is a private key"),
        ("a.posterior", b"<!doctype html>", "is a report"),
        ("a.store", b"SQLite format 3\x00", "`decbayes posterior CHARTER --store FILE`"),
        ("a.posterior", b"", "a.posterior is empty."),
        ("a.posterior", b"anything else", "a.posterior cannot be read as a posterior"),
    ],
)
def test_another_kind_of_file_is_named_with_what_to_do(name, content, message, tmp_path):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InvalidFile) as raised:
        db.load(tmp_path / name)
    assert message in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_constant_prior_takes_no_room(rng):
    structure = topics(20, 5000)
    empty = db.Posterior.of_prior(structure)
    assert len(to_bytes(empty)) < 120_000  # the labels; the prior alone would take 800,000


def test_a_failed_write_leaves_the_old_file_and_nothing_else(rng, tmp_path, monkeypatch):
    target = tmp_path / "a.posterior"
    first = draw(mixture(2), rng)
    db.save(first, target)
    monkeypatch.setattr(os, "fsync", lambda _: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    with pytest.raises(OSError, match=r"No space left on device: .*/a\.posterior'"):
        db.save(draw(mixture(2), rng), target)
    assert [path.name for path in tmp_path.iterdir()] == ["a.posterior"]
    assert db.load(target) == first


def test_missing_and_oversized_files_are_refused(rng, tmp_path):
    with pytest.raises(FileNotFoundError):
        db.load(tmp_path / "none")
    db.save(draw(mixture(2), rng), tmp_path / "a")
    with pytest.raises(InvalidFile, match="more than the 10"):
        db.load(tmp_path / "a", most_bytes=10)


def forged(posterior, header=None, tensors=None, drop=(), **changes):
    """The bytes of a posterior with some of its metadata or arrays replaced."""
    from decbayes.files import FORMAT, KEY, parse

    description, arrays = parse(to_bytes(posterior))
    described = {**json.loads(description), **(header or {}), "format": changes.pop("format", FORMAT)}
    described["structure"] = {**described["structure"], **changes}
    arrays = {name: array for name, array in {**arrays, **(tensors or {})}.items() if name not in drop}
    return serialize({k: np.ascontiguousarray(v) for k, v in arrays.items()}, metadata={KEY: json.dumps(described)})


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"format": "decbayes posterior 99"}, "another version"),
        ({"header": {"fingerprint": "0" * 64}}, "fingerprint"),
        ({"model": {"name": "another"}}, "fingerprint"),
        ({"model": {"name": np.inf}}, "settings"),
        ({"labels": {"topics": ["\ud800", *"bcdef"]}}, "not described properly"),
        ({"families": {"topics": "Gaussian"}}, "not described properly"),
        ({"families": 3}, "not described properly"),
        ({"symmetry": [["words"]]}, "do not exist"),
        ({"shapes": {"topics": [2, 10**12]}}, "more than are read"),
        ({"shapes": {"topics": [2]}}, "matrix"),
        ({"drop": ["contribution/topics/indptr"]}, "indptr"),
        ({"tensors": {"extra": np.zeros(3)}}, "extra"),
        ({"tensors": {"contribution/topics/data": np.array([np.nan, 1.0])}}, "inconsistent|NaN"),
        ({"tensors": {"contribution/topics/indptr": np.array([0, 9, 2], dtype="<i4")}}, "inconsistent"),
        ({"tensors": {"contribution/topics/indices": np.array([0, 99], dtype="<i4")}}, "inconsistent"),
        ({"tensors": {"contribution/topics/indices": np.array([-1, 3], dtype="<i4")}}, "inconsistent"),
        ({"tensors": {"prior/topics": np.zeros((1, 1), dtype="<f4")}}, "F32"),
        ({"tensors": {"prior/topics": np.full((1, 1), -2.0)}}, "outside the domain"),
    ],
)
def test_forged_files_are_refused_with_the_reason(changes, reason):
    structure = topics(2, 6)
    posterior = db.Posterior(structure, {"topics": np.array([[1.0, 0, 0, 0, 0, 0], [0, 0, 0, 2.0, 0, 0]])})
    with pytest.raises(DecbayesError, match=reason):
        from_bytes(forged(posterior, **changes))


@pytest.mark.parametrize("value", [np.nan, np.inf, -5.0])
def test_values_outside_the_domain_are_refused(value):
    structure = topics(2, 6)
    posterior = db.Posterior(structure, {"topics": np.array([[1.0, 0, 0, 0, 0, 0], [0, 0, 0, 2.0, 0, 0]])})
    with pytest.raises(DecbayesError, match=r"NaN|domain"):
        from_bytes(forged(posterior, tensors={"contribution/topics/data": np.array([value, 1.0])}))


def test_columns_out_of_order_are_refused():
    structure = topics(1, 6)
    posterior = db.Posterior(structure, {"topics": np.array([[1.0, 2.0, 0, 0, 0, 0]])})
    for indices in ([1, 0], [1, 1]):
        with pytest.raises(InvalidFile, match="canonical order"):
            from_bytes(forged(posterior, tensors={"contribution/topics/indices": np.array(indices, dtype="<i4")}))


ORIGINAL = draw(everything(), np.random.default_rng(3))
CONTENT = to_bytes(ORIGINAL, {"manifest": {"site": "north"}})


@given(length=st.integers(0, len(CONTENT) - 1))
def test_truncated_files_are_refused(length):
    with pytest.raises(DecbayesError):
        from_bytes(CONTENT[:length])


@settings(max_examples=300)
@given(place=st.integers(0, len(CONTENT) - 1), flip=st.integers(1, 255))
def test_damaged_files_are_refused_or_hold_the_same_posterior(place, flip):
    damaged = bytearray(CONTENT)
    damaged[place] ^= flip
    # Files of earlier versions have no hash: numbers may have changed.
    for content, expected in ((damaged, ORIGINAL), (unhashed(damaged), everything())):
        try:
            posterior = from_bytes(bytes(content))
        except DecbayesError:
            continue
        assert expected in (posterior, posterior.structure)


@pytest.mark.parametrize("part", [b"north", b"decbayes posterior", None])
def test_one_changed_bit_in_the_note_or_the_numbers_is_noticed(part):
    damaged = bytearray(CONTENT)
    damaged[CONTENT.index(part) if part else -6] ^= 1
    with pytest.raises(InvalidFile, match="changed or damaged"):
        from_bytes(bytes(damaged))


def test_notes_may_name_files_that_are_not_utf_8(tmp_path):
    note = {"from": "z\udcfcrich.posterior"}
    db.save(ORIGINAL, tmp_path / "a", note=note)
    assert db.load(tmp_path / "a") == ORIGINAL
    assert load_note(tmp_path / "a") == note


def test_the_hash_is_of_all_that_follows_it():
    begin, hashed = CONTENT.split(b'"sha256":"')[0], CONTENT.split(b'"sha256":"')[1]
    assert begin[8:] == b'{"__metadata__":{'
    assert hashed[:64].decode() == hashlib.sha256(hashed[64:]).hexdigest()
    assert from_bytes(CONTENT) == ORIGINAL == from_bytes(unhashed(CONTENT))


@pytest.mark.skipif(os.name == "nt", reason="needs links and pipes")
def test_a_link_stays_a_link_within_its_folder_and_leads_nowhere_else(tmp_path):
    inside, outside = tmp_path / "in", tmp_path / "out"
    inside.mkdir()
    (inside / "latest").symlink_to("today")
    (inside / "link").symlink_to(outside)
    for _ in range(2):
        db.save(ORIGINAL, inside / "latest")
        assert (inside / "latest").is_symlink()
        assert db.load(inside / "today") == ORIGINAL == db.load(inside / "latest")
    with pytest.raises(InvalidFile, match="is a link that leads out of"):
        db.save(ORIGINAL, inside / "link")
    assert not outside.exists()


def test_a_scratch_folder_goes_with_its_owner_without_a_warning():
    class Owner:
        pass

    owner = Owner()
    folder = scratch_folder(owner)
    (folder / "a").write_bytes(b"1")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        del owner
        gc.collect()
    assert not folder.exists()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs forks")
def test_a_forked_process_leaves_scratch_folders_alone():
    class Owner:
        pass

    owner = Owner()
    folder = scratch_folder(owner)
    if not (child := os.fork()):
        del owner
        os._exit(0)
    os.waitpid(child, 0)
    assert folder.exists()


@pytest.mark.skipif(os.name == "nt", reason="needs permissions")
@pytest.mark.parametrize("mode", [0o600, 0o664])
def test_a_file_written_again_keeps_its_permissions(tmp_path, mode):
    path = tmp_path / "a"
    db.save(ORIGINAL, path)
    path.chmod(mode)
    db.save(ORIGINAL, path)
    assert path.stat().st_mode & 0o777 == mode


@pytest.mark.skipif(os.name == "nt", reason="needs links and pipes")
def test_devices_and_pipes_are_neither_replaced_nor_read(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "device").symlink_to(os.devnull)
    for path in (tmp_path / "pipe", tmp_path / "device", tmp_path):
        for use in (lambda file: db.save(ORIGINAL, file), db.load, load_note):
            with pytest.raises(InvalidFile, match="not a file"):
                use(path)
    assert (tmp_path / "pipe").is_fifo()
    assert (tmp_path / "device").is_char_device()


@given(content=st.binary(max_size=300))
def test_random_bytes_are_refused(content):
    with pytest.raises(InvalidFile):
        from_bytes(content)
