"""A vocabulary can grow: a site comes with new words, and nobody else has to do anything."""

import json

import numpy as np
import pytest

import decbayes as db
from decbayes.errors import StructureMismatch
from decbayes.updates.rounds import Round, Sent

OLD, NEW = tuple("abcdef"), tuple("bcdefgh")


def posterior_of(words, counts, prior=0.1):
    model = db.LatentDirichletAllocation(len(counts), words, topic_prior=prior)
    return db.Posterior(model.structure, {"topics": np.array(counts, dtype=float)})


def test_missing_words_count_nothing():
    first = posterior_of(OLD, [[9, 9, 9, 0, 0, 0], [0, 0, 0, 9, 9, 9]])
    second = posterior_of(NEW, [[5, 5, 0, 0, 0, 7, 0], [0, 0, 5, 5, 5, 0, 7]])
    merged = db.merge([first, second])
    words = merged.structure.labels["topics"]
    assert words == tuple("abcdefgh")
    assert merged.structure == db.LatentDirichletAllocation(2, tuple("abcdefgh"), topic_prior=0.1).structure
    total = dict(zip(words, merged.contribution["topics"].toarray().sum(axis=0), strict=True))
    assert total == {"a": 9, "b": 14, "c": 14, "d": 14, "e": 14, "f": 14, "g": 7, "h": 7}
    assert db.merge([second, first]) == merged
    assert db.merge([first]).structure == first.structure, "one site alone keeps its words"


def test_a_list_that_has_all_words_keeps_its_order():
    first = posterior_of(("z", "b", "a"), [[1, 2, 3]])
    assert db.merge([first, posterior_of(("a", "b"), [[4, 5]])]).structure.labels["topics"] == ("z", "b", "a")


def test_what_does_not_fit_is_still_refused():
    first = posterior_of(OLD, [[1] * 6])
    for other in (posterior_of(tuple("uvwx"), [[1] * 4]), posterior_of(NEW, [[1] * 7], prior=0.2)):
        with pytest.raises(StructureMismatch):
            db.merge([first, other])
    by_word = db.LatentDirichletAllocation(1, NEW, topic_prior=np.linspace(0.1, 0.2, 7)[None])
    with pytest.raises(StructureMismatch):
        db.merge([first, db.Posterior.of_prior(by_word.structure)])


def test_a_late_site_brings_words_into_the_rounds(rng):
    """Sites that have the new words, too, count them from then on; the result is that of one fit of all."""
    themes = {"fish": "river boat net lake", "bank": "money fund bond loan"}

    def texts(count, *extra):
        return [" ".join(rng.choice([*list(themes.values())[n % 2].split(), *extra], 10)) for n in range(count)]

    words = sorted(word for theme in themes.values() for word in theme.split())
    model = db.LatentDirichletAllocation(2, words, topic_prior=0.1)
    letters = {"a": texts(20, "crypto"), "b": texts(20), "late": texts(20, "crypto")}
    wide = db.LatentDirichletAllocation(2, [*words, "crypto"], topic_prior=0.1)
    sent = {name: Sent(model.fit(model.counted(letters[name]), rng=rng).posterior) for name in "ab"}
    for step in range(4):
        if step == 1:
            sent["late"] = Sent(wide.fit(wide.counted(letters["late"]), rng=rng).posterior)
        made = {}
        for name in sent:
            own = {name: sent[name], **{other: sent[other] for other in sent if other != name}}
            before = Round.of(own)
            made[name] = before.refined(before.model.counted(letters[name]), rng=rng)
        sent = made
    merged = Round.of(sent).merged
    counts = dict(
        zip(merged.structure.labels["topics"], merged.contribution["topics"].toarray().sum(axis=0), strict=True)
    )
    together = [text for texts in letters.values() for text in texts]
    assert counts["crypto"] == pytest.approx(sum(text.split().count("crypto") for text in together), abs=0.01)
    whole = wide.fit(wide.counted(together), prior=None, start=None, rng=0).posterior
    assert sum(counts.values()) == pytest.approx(whole.contribution["topics"].sum(), abs=0.1)


def test_files_of_sites_with_other_words_merge(tmp_path, monkeypatch, capsys):
    from decbayes.cli import main

    monkeypatch.chdir(tmp_path)
    for name, extra in (("a", "apple"), ("b", "pear")):
        lines = [json.dumps({"text": f"river boat {extra} lake"}) for _ in range(10)]
        (tmp_path / f"{name}.jsonl").write_text("\n".join(lines))
    for line in (
        "fit topics a.jsonl --topics 2 --most-share 1 -o a.posterior",
        "fit topics b.jsonl --topics 2 --most-share 1 -o b.posterior",
        "merge a.posterior b.posterior -o m.posterior",
    ):
        with pytest.raises(SystemExit) as ended:
            main(line.split())
        assert not ended.value.code
    assert "2 words are not in the lists of all sites" in capsys.readouterr().err
    assert set(db.load("m.posterior").structure.labels["topics"]) == {"apple", "boat", "lake", "pear", "river"}
