"""No file depends on which rare words a site's documents have; public numbers of documents say nothing exact."""

import numpy as np
import pytest
from scipy.sparse import csr_array

import decbayes as db
from decbayes.errors import InvalidData
from decbayes.files import load, load_note, save
from decbayes.inputs.filed import FileMatrix
from decbayes.inputs.word_lists import Vocabulary, joined, read_vocabulary
from decbayes.models.topics.rare_words import shares_by_topics, with_anonymous_words
from decbayes.updates.rounds import Round, Sent

COMMON = [f"common{number}" for number in range(20)]
RARE = [f"rare{number:02}" for number in range(40)]


def texts(rng, documents=60):
    """Common words in many documents, and thirty words that two documents have each."""
    lines = [
        [str(word) for word in rng.choice(COMMON[:10] if row % 2 else COMMON[10:], 12)] for row in range(documents)
    ]
    for word in RARE[:30]:
        for row in rng.choice(documents, 2):
            lines[row] += [word] * int(rng.integers(1, 4))
    return lines


def other_words(lines, order):
    """The same texts with other rare words."""
    return [[RARE[order[RARE.index(word)]] if word in RARE else word for word in line] for line in lines]


def write(path, lines):
    path.write_text("\n".join(map(" ".join, lines)) + "\n")


def made(run, line):
    status, _, errors = run(line)
    assert status == 0, errors


@pytest.fixture
def corpora(rng, tmp_path):
    """Two that differ only in which rare words they have, and another site's."""
    lines = texts(rng)
    write(tmp_path / "a.txt", lines)
    write(tmp_path / "b.txt", other_words(lines, rng.permutation(len(RARE))))
    # At the other site six of these words are frequent.
    write(tmp_path / "c.txt", [[*line, RARE[row % 6]] for row, line in enumerate(texts(rng))])
    (tmp_path / "all.words").write_text("\n".join(COMMON + RARE) + "\n")
    return tmp_path


def test_files_do_not_depend_on_which_rare_words_occur(run, corpora):
    for name in "abc":
        made(run, f"fit topics {name}.txt --vocabulary all.words --topics 2 --seed 3 -o {name}.posterior")
    assert (corpora / "a.posterior").read_bytes() == (corpora / "b.posterior").read_bytes()
    for name in "ab":
        made(run, f"refine {name}.txt --own {name}.posterior --others c.posterior --passes 5 -o {name}1")
    assert (corpora / "a1").read_bytes() == (corpora / "b1").read_bytes()
    made(run, "fit topics a.txt --vocabulary all.words --topics 2 --seed 3 --rules none -o a.open")
    made(run, "fit topics b.txt --vocabulary all.words --topics 2 --seed 3 --rules none -o b.open")
    assert load("a.open") != load("b.open")


def test_in_later_rounds_rare_words_go_where_other_sites_have_them(run, corpora):
    for name in "ac":
        made(run, f"fit topics {name}.txt --vocabulary all.words --topics 2 --seed 3 -o {name}.posterior")
    made(run, "refine a.txt --own a.posterior --others c.posterior --passes 5 -o a1")
    first, later = (np.asarray(load(name).contribution["topics"].sum(axis=0)).ravel() for name in ("a.posterior", "a1"))
    places = [db.model_for(load("a1").structure).vocabulary.index(word) for word in RARE]
    assert first.sum() == pytest.approx(later.sum())
    assert np.ptp(first[places]) == pytest.approx(0.0, abs=1e-12)
    # The other site has six of them in ten documents or more, and the others in at most two.
    assert later[places[:6]].min() > 1.3 * later[places[6:]].max()
    status, shown, _ = run("preview a1 --data a.txt --json")
    assert status == 0
    assert "indistinguishable from" in shown
    made(run, "fit topics a.txt --vocabulary all.words --topics 2 --seed 3 --rules none -o a.open")
    usual = corpora / "usual.toml"
    usual.write_text("least_cell = 5\n")
    status, shown, _ = run("preview a.open --data a.txt --rules usual.toml --json")
    assert "can be read" in shown


def test_refits_cannot_tell_rare_words_apart_in_what_others_sent(run, corpora):
    for name in "ac":
        made(run, f"fit topics {name}.txt --vocabulary all.words --topics 2 --seed 3 -o {name}.posterior")
    before = Round.of({name: Sent(load(f"{name}.posterior")) for name in "ac"})
    counts = before.model.read(corpora / "a.txt")
    rare = np.asarray((counts > 0).sum(axis=0)).ravel() < 5
    alike = before.evened(counts, 5)
    for known, unknown in zip(before.slots, alike.slots, strict=True):
        known, unknown = (each.contribution["topics"].toarray() for each in (known, unknown))
        np.testing.assert_array_equal(known[:, ~rare], unknown[:, ~rare])
        np.testing.assert_allclose(unknown[:, rare], known[:, rare].mean(axis=1, keepdims=True) + 0 * known[:, rare])


def test_counts_in_files_are_renamed_like_those_in_memory(rng):
    counts = csr_array(rng.poisson(0.1, size=(40, 30)))
    rare = np.asarray((counts > 0).sum(axis=0)).ravel() < 4
    assert rare.sum() > 3
    here, blocks = (
        with_anonymous_words(counts, rare),
        with_anonymous_words(FileMatrix.of(30, [counts[:13], counts[13:]]), rare),
    )
    np.testing.assert_array_equal(here.toarray(), np.vstack([block.toarray() for block in blocks]))
    np.testing.assert_array_equal(here.toarray()[:, ~rare], counts.toarray()[:, ~rare])
    order = np.arange(30)
    order[rare] = rng.permutation(order[rare])
    np.testing.assert_array_equal(with_anonymous_words(counts[:, order], rare).toarray(), here.toarray())


def test_shares_count_words_below_the_least_by_their_truncated_mean():
    # One topic, three words, expected 1, 4 and 15 documents: the mean of a Poisson number below 3, by its definition.
    expected, least = np.array([1.0, 4.0, 15.0]), 3
    shares = shares_by_topics(expected[None, :], np.array([20.0]), least)[0]
    weights = [[rate**n / [1, 1, 2][n] for n in range(least)] for rate in expected]
    means = [np.dot(weight, range(least)) / sum(weight) for weight in weights]
    np.testing.assert_allclose(shares / shares.sum(), np.array(means) / sum(means))


def test_lists_have_rounded_numbers_that_add_up(run, corpora):
    for name in "ac":
        made(run, f"words {name}.txt --most-share 1 -o {name}.words")
    one, two = (read_vocabulary(corpora / f"{name}.words") for name in "ac")
    assert all(number >= 5 and number % 5 == 0 for number in (*one.documents, *two.documents))
    exact = sum("common3" in line.split() for line in (corpora / "a.txt").read_text().splitlines())
    listed = dict(zip(one.words, one.documents, strict=True))
    assert listed["common3"] == exact - exact % 5
    assert not set(RARE) & set(one.words)
    made(run, "words a.words c.words -o both.words")
    both = read_vocabulary(corpora / "both.words")
    assert both == joined([(corpora / "a.words", one), (corpora / "c.words", two)])
    other = dict(zip(two.words, two.documents, strict=True))
    assert dict(zip(both.words, both.documents, strict=True)) == {
        word: listed.get(word, 0) + other.get(word, 0) for word in both.words
    }
    # So does a list that somebody has made with `cat`.
    (corpora / "cat.words").write_text((corpora / "a.words").read_text() + (corpora / "c.words").read_text())
    assert set(read_vocabulary(corpora / "cat.words").words) == set(both.words)


def test_lists_without_numbers_are_read_and_joined(tmp_path):
    (tmp_path / "plain.words").write_text("apple\npear tree\n")
    plain = read_vocabulary(tmp_path / "plain.words")
    assert plain == Vocabulary(("apple", "pear tree"))
    told = Vocabulary(("fig", "pear tree"), documents=(10, 5))
    both = joined([(tmp_path / "plain.words", plain), (tmp_path / "b", told)])
    assert both == Vocabulary(("apple", "fig", "pear tree"), documents=(0, 10, 5))
    (tmp_path / "both.words").write_text(both.text())
    assert read_vocabulary(tmp_path / "both.words") == both
    (tmp_path / "bad.words").write_text("apple\tmany\n")
    with pytest.raises(InvalidData, match="followed by a tab"):
        read_vocabulary(tmp_path / "bad.words")


def test_a_stop_word_of_some_lists_comes_back_only_if_more_documents_of_others_have_it(tmp_path):
    english = Vocabulary(("goal", "war"), documents=(40, 70), size=100, stopped=(("in of the", 100),))
    german = Vocabulary(("tor", "the"), documents=(20, 15), size=60, stopped=(("der in und war", 60),))
    assert german.text().endswith("# decbayes stopped der in und war\t60\ntor\t20\nthe\t15\n")
    (tmp_path / "german.words").write_text(german.text())
    assert read_vocabulary(tmp_path / "german.words") == german
    both = joined([(tmp_path / "a", english), (tmp_path / "b", german)])
    assert both.words == ("goal", "the", "tor", "war")
    assert both.without_stopped().words == ("goal", "tor", "war"), "war: 70 documents of the others, 60 without it"
    fewer = joined([(tmp_path / "a", english._replace(documents=(40, 60))), (tmp_path / "b", german)])
    assert fewer.without_stopped().words == ("goal", "tor")
    persons = joined([(tmp_path / "a", english), (tmp_path / "b", Vocabulary(("tor",), stopped=(("war", 0),)))])
    assert persons.without_stopped().words == ("goal", "tor"), "of unknown size"
    pairs = Vocabulary(("goal", "of goal", "war of words"), documents=(9, 9, 9), size=30, stopped=(("of", 30),))
    assert pairs.without_stopped().words == ("goal", "war of words"), "inside, it may stay"
    again = joined([(tmp_path / "a", both.without_stopped()), (tmp_path / "b", german)])
    assert again.without_stopped().words == both.without_stopped().words[:2]
    plain = Vocabulary(("der", "the"))
    assert plain.without_stopped() == plain


@pytest.mark.parametrize("command", ["words a.txt -o a.words", "fit topics a.txt --topics 2 -o a.posterior"])
def test_own_words_are_named_only_from_the_least_documents_on(run, corpora, command):
    status, _, errors = run(f"{command} --least-documents 2")
    assert status == 1
    assert "at least 5 documents" in errors
    (corpora / "strict.toml").write_text("least_documents = 10\n")
    status, _, errors = run(f"{command} --least-documents 5 --rules strict.toml")
    assert status == 1
    made(run, f"{command} --least-documents 2 --rules none")


def test_public_numbers_reach_every_site(run, corpora):
    made(run, "words c.txt --most-share 1 -o c.words")
    made(run, "fit topics c.txt --vocabulary c.words --topics 2 -o c.posterior")
    numbers = load_note("c.posterior")["public_documents"]
    assert numbers == list(read_vocabulary(corpora / "c.words").documents)
    made(run, "fit topics a.txt --like c.posterior -o a.posterior")
    made(run, "refine a.txt --own a.posterior --others c.posterior --passes 2 -o a1")
    assert load_note("a.posterior")["public_documents"] == load_note("a1")["public_documents"] == numbers
    # Rare words share counts by square roots of these numbers.
    words = list(db.model_for(load("a.posterior").structure).vocabulary)
    rare = [words.index(word) for word in RARE if word in words]
    counts = load("a.posterior").contribution["topics"].toarray()[:, rare].sum(axis=0)
    roots = np.sqrt([numbers[place] for place in rare])
    np.testing.assert_allclose(counts / counts.sum(), roots / roots.sum())


def test_numbers_that_make_no_sense_are_refused(run, corpora):
    made(run, "fit topics c.txt --vocabulary all.words --topics 2 -o c.posterior")
    note = load_note("c.posterior")
    for numbers in ([1, 2], ["many"] * 60, [-1] * 60, "none"):
        save(load("c.posterior"), "d.posterior", note={**note, "public_documents": numbers})
        status, _, errors = run("fit topics a.txt --like d.posterior -o a.posterior")
        assert status == 1
        assert "document counts are invalid" in errors


def test_a_fit_in_python_is_as_blind_as_one_on_the_command_line(rng):
    lines = texts(rng)
    model = db.LatentDirichletAllocation(2, COMMON + RARE)
    posteriors = []
    for order in (np.arange(len(RARE)), rng.permutation(len(RARE))):
        counts = model.counted(map(" ".join, other_words(lines, order)))
        safe = db.disclosure.prepared(model, counts, db.disclosure.Rules(), agreed=True)
        posterior = safe.model.fit(safe.data, rng=1).posterior
        db.save(posterior, "a", data=safe.data)
        posteriors.append(load("a"))
    assert posteriors[0] == posteriors[1]


def test_a_charter_has_the_public_numbers_of_its_list_of_words(run, tmp_path):
    from decbayes.network import Charter

    (tmp_path / "all.words").write_text("bank\t10\nfish\t25\nriver\t5\n")
    (tmp_path / "plain.words").write_text("bank\nfish\nriver\n")
    _, key, _ = run("keygen a.key")
    line = ["charter", "new", "--group", "g", "--model", "LatentDirichletAllocation", "--set", "topics=2"]
    for name in ("all", "plain"):
        words = ["--vocabulary", f"{name}.words", "--member", f"a={key.strip()}"]
        made(run, [*line[:2], f"{name}.toml", *line[2:], *words])
    assert tuple(Charter.load("all.toml").model.public_documents) == (10, 25, 5)
    assert tuple(Charter.load("plain.toml").model.public_documents) == ()
    with pytest.raises(ValueError, match="public number of documents for each word"):
        db.LatentDirichletAllocation(2, ["bank", "fish"], public_documents=[3])
