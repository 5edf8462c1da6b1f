"""Whoever may write into a folder that sites share can put links there: no reader follows one out of the folder."""

import numpy as np
import pytest
from groups import charter_of, identities
from masked_sums import public, signing

import decbayes as db
from decbayes.cli.commands.everyday._private_releases import releases_in
from decbayes.cli.commands.everyday.merge import files_to_merge
from decbayes.errors import DecbayesError
from decbayes.inputs.texts import LeftOut, Texts
from decbayes.network import Charter
from decbayes.secure.seat import Seat
from decbayes.study import Protocol, Study
from decbayes.updates.exchange import Exchange

MODEL = db.models.GaussianMean(variance=1.0, dimension=1)


def posterior():
    return MODEL.fit(np.ones((9, 1))).posterior


def moved(path, outside):
    """Move a file or a folder away, and leave a link to it in its place."""
    outside.mkdir(exist_ok=True)
    path.rename(outside / path.name)
    path.symlink_to(outside / path.name)


def shared(folder):
    db.save(posterior(), folder / "a.posterior")
    return folder / "a.posterior"


def rounds(folder):
    return shared(folder), lambda: Exchange.read(folder)


def merges(folder):
    return shared(folder), lambda: files_to_merge([folder])


def releases(folder):
    (folder / "a.release").write_text("secret")
    return folder / "a.release", lambda: releases_in(folder)


def texts(folder):
    (folder / "a.txt").write_text("secret")
    (folder / "b.txt").write_text("public")

    def read():
        left_out = LeftOut()
        assert [text for _, text in Texts((folder,)).read(left_out)] == ["public"]
        return " ".join(left_out).replace("lead out of", "leads out of")

    return folder / "a.txt", read


def study(folder):
    protocol = Protocol("stay", "linear-regression", {"north": "", "south": ""}, {"formula": "days ~ age"})
    return Study.create(folder / "stay", protocol)


def study_file(folder):
    made = study(folder)
    path = made.place("north") / "north.posterior"
    db.save(posterior(), path)
    return path, lambda: str(Study(made.folder).problems)


def study_site(folder):
    """A whole folder of a site: nothing in it counts, and nothing is written there."""
    made = study(folder)
    db.save(posterior(), made.place("north") / "north.posterior")

    def read():
        with pytest.raises(DecbayesError, match="leads out of"):
            Study(made.folder).place("north")
        return str(Study(made.folder).problems)

    return made.place("north"), read


def study_protocol(folder):
    made = study(folder)
    return made.folder / "protocol.toml", lambda: Study(made.folder).protocol


def study_results(folder):
    made = study(folder)
    made.merged.parent.mkdir()
    return made.merged.parent, lambda: made.reported


def study_key(folder):
    made = study(folder)
    made.key_of("north").write_text("secret")
    return made.key_of("north"), lambda: made.key_of("north")


def study_charter(folder):
    made = study(folder)
    made.charter.write_text("secret")
    return made.charter, lambda: made.charter


def sums(folder):
    agreed = db.secure.Agreement("means", {name: public(name) for name in ("north", "south", "west")}, posterior())
    return db.secure.Folder.begin(folder / "sums", agreed)


def sum_agreement(folder):
    begun = sums(folder)
    return begun.path / "agreement.json", lambda: db.secure.Folder(begun.path).agreement


def sum_anchor(folder):
    begun = sums(folder)
    return begun.path / "anchor.posterior", lambda: db.secure.Folder(begun.path).agreement


def sum_message(folder):
    """A member's own message lies elsewhere: it is not read, and the member does not write there."""
    begun = sums(folder)
    current = begun.next()
    message = Seat.begun(current.terms, "north", signing("north").sign).sent["key"]
    begun.publish(current, message)
    assert begun.next().messages["key"].keys() == {"north"}

    def read():
        with pytest.raises(DecbayesError, match="leads out of"):
            begun.publish(current, message)
        assert not begun.next().messages["key"]
        return str(begun.next().problems)

    return current.place / "north.key", read


def charter_words(folder):
    words = db.LatentDirichletAllocation(2, ("a", "b", "c"))
    charter_of(words, identities(2)).save(folder / "group.toml")
    (file,) = (path for path in folder.iterdir() if path.suffix != ".toml")
    return file, lambda: Charter.load(folder / "group.toml")


def charter_words_elsewhere(folder):
    """Not by a link but by its name."""
    file, read = charter_words(folder)
    text = (folder / "group.toml").read_text()
    (folder / "group.toml").write_text(text.replace(file.name, f"../outside/{file.name}"))
    return file, lambda: read_or(read, "is not beside it", "leads out of")


def read_or(read, said, instead):
    with pytest.raises(DecbayesError, match=said):
        read()
    return instead


READERS = (
    rounds,
    merges,
    releases,
    texts,
    study_file,
    study_site,
    study_protocol,
    study_results,
    study_key,
    study_charter,
    sum_agreement,
    sum_anchor,
    sum_message,
    charter_words,
    charter_words_elsewhere,
)


@pytest.mark.parametrize("reader", READERS, ids=lambda reader: reader.__name__)
def test_no_reader_of_a_folder_follows_a_link_out_of_it(reader, tmp_path):
    """It could have a site's drafts merged and sent, or its own files written elsewhere."""
    folder = tmp_path / "folder"
    folder.mkdir()
    path, read = reader(folder)
    moved(path, tmp_path / "outside")
    try:
        said = read()
    except DecbayesError as error:
        said = str(error)
    assert "leads out of" in str(said)


def test_links_within_a_folder_are_followed(tmp_path):
    shared(tmp_path).rename(tmp_path / ".a")
    (tmp_path / "a.posterior").symlink_to(tmp_path / ".a")
    assert [*Exchange.read(tmp_path).files] == ["a.posterior"]
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "a.txt").write_text("public")
    (tmp_path / "b.txt").symlink_to(tmp_path / "inner" / "a.txt")
    assert [text for _, text in Texts((tmp_path / "inner", tmp_path / "b.txt")).read(LeftOut())] == ["public", "public"]
