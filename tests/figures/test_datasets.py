"""The recipe for word counts, and the data sets where they are."""

import numpy as np
import pytest
from PIL import Image

from paper import datasets
from paper.datasets import DataNotFound, faces, images_in, newsgroups
from paper.words import bag_of_words, without_header


def test_words_are_stemmed_and_stop_words_dropped():
    bag = bag_of_words(["The runner was RUNNING, running!", "a run; an ox"], least_documents=1, least_tokens=1)
    assert bag.vocabulary == ("run", "runner")
    assert bag.counts.toarray().tolist() == [[2, 1], [1, 0]]


def test_rare_words_and_short_texts_are_dropped():
    bag = bag_of_words(["apple apple pear", "apple", "apple apple apple"], least_documents=2, least_tokens=2)
    assert bag.vocabulary == ("appl",)
    assert bag.kept.tolist() == [0, 2]
    assert bag.counts.toarray().tolist() == [[2], [3]]


def test_a_header_ends_at_the_first_blank_line():
    assert without_header("From: x\nSubject: y\n\nbody\n\nmore") == "body\n\nmore"


@pytest.mark.slow
def test_newsgroups_have_the_documented_counts(data_folder, tmp_path, monkeypatch):
    if not (data_folder / "20news" / "20news-bydate_py3.pkz").is_file():
        pytest.skip("20 Newsgroups is not in the data folder")
    monkeypatch.setattr(datasets, "user_cache", lambda: tmp_path)
    corpus = datasets.count_newsgroups(data_folder / "20news")
    assert corpus.counts.shape == (18_698, 11_171)
    assert corpus.counts.sum() == 2_127_003
    reference = data_folder / "20news" / "20news_bow.npz"
    if reference.is_file():
        with np.load(reference, allow_pickle=False) as other:
            assert corpus.vocabulary == tuple(other["vocab"].tolist())
            totals = np.bincount(other["indices"], weights=other["data"].astype(float), minlength=11_171)
            np.testing.assert_array_equal(corpus.counts.sum(axis=0), totals)
            np.testing.assert_array_equal(np.bincount(corpus.groups), np.bincount(other["label"]))


def test_counts_are_kept_where_one_may_write(tmp_path, monkeypatch):
    from paper_tiny import corpus

    made = []
    monkeypatch.setattr(datasets, "user_cache", lambda: tmp_path / "cache")
    monkeypatch.setattr(datasets, "count_newsgroups", lambda home: made.append(home) or corpus())
    newsgroups.cache_clear()
    first = newsgroups(tmp_path)
    newsgroups.cache_clear()
    second = newsgroups(tmp_path)
    newsgroups.cache_clear()
    assert made == [tmp_path]
    assert second.digest == first.digest
    assert second.vocabulary == first.vocabulary
    assert (tmp_path / datasets.COUNTS).is_file()


def test_faces_are_581_grey_images(data_folder):
    if not (data_folder / "faces" / "yale_32x32.npz").is_file():
        pytest.skip("the faces are not in the data folder")
    found = faces(data_folder)
    assert found.shape == (581, 1024)
    assert 0.0 <= found.min() < found.max() <= 1.0


def test_a_folder_of_images_is_read_in_order(tmp_path):
    for name, grey in (("b.png", 255), ("a.jpg", 0)):
        Image.new("RGB", (64, 48), (grey, grey, grey)).save(tmp_path / name)
    (tmp_path / "notes.txt").write_text("no picture")
    np.testing.assert_allclose(images_in(tmp_path), [[0.0] * 1024, [1.0] * 1024])


def test_an_empty_folder_says_what_is_missing(tmp_path):
    """Which files, of which kind, and where to read on."""
    with pytest.raises(DataNotFound, match=r"no faces in .*\.png.*yale_32x32\.npz.*docs/benchmarks/data\.md"):
        faces(tmp_path)
