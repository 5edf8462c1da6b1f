"""The data sets of the experiments: read from a folder, fetched where that is possible, never shipped."""

import hashlib
import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from decbayes.base.extras import require
from decbayes.errors import DecbayesError
from decbayes.families import Array
from paper.words import bag_of_words, without_header

IMAGE_KINDS = {".png", ".jpg", ".jpeg", ".gif", ".bmp", ".pgm", ".tif", ".tiff", ".webp"}


class DataNotFound(DecbayesError):
    """A data set that is in no folder we know of and could not be fetched."""


@dataclass(frozen=True)
class Corpus:
    """Documents as word counts, and the group that each belongs to."""

    counts: csr_array
    vocabulary: tuple[str, ...]
    groups: NDArray[np.int64]
    group_names: tuple[str, ...]

    @property
    def digest(self) -> str:
        """Tells one corpus from another in an experiment's settings."""
        parts = (self.counts.data, self.counts.indices, self.counts.indptr, self.groups)
        return hashlib.sha256(b"".join(part.astype("<i8").tobytes() for part in parts)).hexdigest()[:12]


def data_folder(given: Path | None) -> Path:
    """The folder of the data sets: as given, or DECBAYES_DATA, or a folder in the user's cache."""
    named = given or os.environ.get("DECBAYES_DATA")
    return Path(named) if named else user_cache()


def user_cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "decbayes"


@cache
def newsgroups(folder: Path | None = None) -> Corpus:
    """20 Newsgroups as word counts: 18,698 documents × 11,171 words (the paper has 18,689 × 11,175).

    The texts come from scikit-learn's cache in the folder, or in its subfolder `20news`, and are downloaded there if
    they are missing. Counting takes ten seconds; the counts are kept beside the texts, or in the user's cache.
    """
    home = data_folder(folder)
    home = home / "20news" if (home / "20news").is_dir() else home
    for place in (home, user_cache()):
        if (place / COUNTS).is_file():
            return read_corpus(place / COUNTS)
    corpus = count_newsgroups(home)
    keep_corpus(corpus, home if os.access(home, os.W_OK) else user_cache())
    return corpus


# The name carries the recipe's version: other counts need another name.
COUNTS = "20news-decbayes-1.npz"


def count_newsgroups(home: Path) -> Corpus:
    fetch = require("sklearn.datasets", extra="paper", task="20 Newsgroups").fetch_20newsgroups
    home.mkdir(parents=True, exist_ok=True)
    try:
        posts = fetch(data_home=home, subset="all", shuffle=False)
    except OSError as error:
        raise DataNotFound(
            f"20 Newsgroups is not in {home} and could not be downloaded ({error}). "
            "Run sklearn.datasets.fetch_20newsgroups() where there is a network, and name the folder with the file it "
            "leaves in ~/scikit_learn_data, 20news-bydate_py3.pkz, by --data or DECBAYES_DATA."
        ) from None
    bag = bag_of_words([without_header(text) for text in posts.data])
    return Corpus(bag.counts, bag.vocabulary, np.asarray(posts.target)[bag.kept], tuple(posts.target_names))


def keep_corpus(corpus: Corpus, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    partial = folder / f"{COUNTS}.{os.getpid()}.partial.npz"
    np.savez_compressed(
        partial,
        data=corpus.counts.data,
        indices=corpus.counts.indices,
        indptr=corpus.counts.indptr,
        vocabulary=np.array(corpus.vocabulary),
        groups=corpus.groups,
        group_names=np.array(corpus.group_names),
    )
    partial.replace(folder / COUNTS)


def read_corpus(path: Path) -> Corpus:
    with np.load(path, allow_pickle=False) as kept:
        vocabulary = tuple(kept["vocabulary"].tolist())
        shape = (len(kept["indptr"]) - 1, len(vocabulary))
        counts = csr_array((kept["data"], kept["indices"], kept["indptr"]), shape=shape)
        return Corpus(counts, vocabulary, kept["groups"], tuple(kept["group_names"].tolist()))


@cache
def faces(folder: Path | None = None) -> Array:
    """Frontal faces, 32 × 32, grey from 0 to 1, (images, 1024).

    The folder, or its subfolder `faces`, holds either yale_32x32.npz and caltech_faces_32x32.npz (581 images in all, as
    many as the paper used; which ones those were is not known), or image files of your own.
    """
    home = data_folder(folder)
    home = home / "faces" if (home / "faces").is_dir() else home
    archives = home / "yale_32x32.npz", home / "caltech_faces_32x32.npz"
    if not all(archive.is_file() for archive in archives):
        return images_in(home)
    with np.load(archives[0], allow_pickle=False) as yale, np.load(archives[1], allow_pickle=False) as caltech:
        images = np.concatenate([yale["images"], caltech["images"][caltech["keep416"]]])
    return np.asarray(images.reshape(len(images), -1) / 255.0)


def images_in(folder: Path, *, side: int = 32) -> Array:
    """All image files of a folder, in order of their names: grey from 0 to 1, averaged down to side × side."""
    from PIL import Image

    paths = sorted(path for path in folder.glob("*") if path.suffix.lower() in IMAGE_KINDS)
    if not paths:
        raise DataNotFound(
            f"There are no faces in {folder}. Name a folder by --data or DECBAYES_DATA with, in it or in its subfolder "
            f"`faces`, image files ({', '.join(sorted(IMAGE_KINDS))}; frontal faces cut to the head, any size), or "
            "yale_32x32.npz and caltech_faces_32x32.npz. docs/benchmarks/data.md says where the paper's faces are "
            "from and how to make these files."
        )
    pictures = []
    for path in paths:
        with Image.open(path) as image:
            grey = image.convert("L").resize((side, side), Image.Resampling.BOX)
            pictures.append(np.asarray(grey, dtype=np.float64).ravel() / 255.0)
    return np.array(pictures)
