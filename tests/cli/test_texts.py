"""Texts as offices have them: folders, tables, compressed lines, standard input; and the recipe that sites share."""

import bz2
import csv
import gzip
import io
import json
import lzma
import pickle
import sys
import unicodedata
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
from sklearn.feature_extraction.text import CountVectorizer

import decbayes as db
from decbayes.errors import InvalidData, InvalidStructure, MissingExtra
from decbayes.inputs import recipes
from decbayes.inputs.documents import Choice, read_documents
from decbayes.inputs.recipes import languages
from decbayes.inputs.texts import LeftOut, Texts

LETTERS = ["The pear, the plum & COVID19", "a plum of pears", "5g plum pear in 2024", "snake_case pear"]
WORDS = ("5g", "case", "covid19", "in", "of", "pear", "pears", "plum", "snake", "the")


def write_folder(path):
    (path / "2024").mkdir(parents=True)
    for number, text in enumerate(LETTERS):
        (path / "2024" / f"{number}.txt").write_text(text.replace(" ", "\n"), encoding="utf-8")


def write_table(path):
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([["id", "text"], *enumerate(LETTERS)])


def write_parquet(path):
    pyarrow = pytest.importorskip("pyarrow", reason="needs the parquet extra")
    from pyarrow import parquet

    parquet.write_table(pyarrow.table({"id": list(range(4)), "text": LETTERS}), path)


def write_lines(path):
    openers = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
    opener = openers.get(path.suffix, open)
    with opener(path, "wt", encoding="utf-8") as file:
        file.write("\n".join(LETTERS if ".txt" in path.name else [json.dumps({"text": text}) for text in LETTERS]))


SOURCES = {
    "letters": write_folder,
    "a.csv": write_table,
    "a.parquet": write_parquet,
    "a.txt": write_lines,
    "a.jsonl": write_lines,
    "a.txt.xz": write_lines,
    "a.jsonl.bz2": write_lines,
    "a.ndjson.gz": write_lines,
}


@pytest.mark.parametrize("name", SOURCES)
def test_the_same_texts_are_counted_alike_wherever_they_are(name, tmp_path):
    SOURCES[name](tmp_path / name)
    found = read_documents(tmp_path / name)
    assert found.vocabulary == WORDS
    counter = CountVectorizer(token_pattern=r"(?=[^\W_]*[^\W\d_])[^\W_]{2,}", vocabulary=WORDS)
    np.testing.assert_array_equal(found.counts.toarray(), counter.transform(LETTERS).toarray())


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("COVID19, 5G and 2024!", ["covid19", "5g", "and"]),
        ("snake_case __x1__ a_b", ["snake", "case", "x1"]),
        ("naïve Ärger straße", ["naïve", "ärger", "straße"]),
        (unicodedata.normalize("NFD", "Café"), ["café"]),
        ("Über9000, ŝ5 und 3ä 77", ["über9000", "ŝ5", "und", "3ä"]),
        ("", []),
    ],
)
def test_words_are_two_letters_or_digits_with_a_letter(text, words):
    assert db.texts.Recipe().words(text) == words


def test_words_of_plain_ascii_are_those_of_the_expression(rng):
    for _ in range(200):
        text = "".join(rng.choice(list("abZ019_ -.'\n"), size=30))
        assert recipes.words_in(text) == recipes.WORDS.findall(text)
        pieces = [piece for piece in db.texts.Recipe().pieces(text) if db.texts.Recipe().is_word(piece)]
        assert pieces == db.texts.Recipe().words(text)


def test_recipes_say_how_texts_become_words():
    assert db.texts.Recipe(ngrams=3).words("red rose bloom") == [
        "red",
        "rose",
        "bloom",
        "red rose",
        "rose bloom",
        "red rose bloom",
    ]
    assert db.texts.Recipe(lower=False).words("Red ROSE") == ["Red", "ROSE"]
    assert db.texts.Recipe(tokens=r"#\w+").words("see #Tag, and #two") == ["#tag", "#two"]
    assert db.texts.Recipe(tokens="characters").words("我喜欢covid19的") == ["我", "喜", "欢", "covid19", "的"]
    for recipe in (db.texts.Recipe(), db.texts.Recipe(tokens="[a-z]+", ngrams=2, lower=False)):
        assert db.texts.Recipe.of(str(recipe)) == recipe == pickle.loads(pickle.dumps(recipe))
    assert str(db.texts.Recipe()) == ""


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"tokens": "("}, "not a regular expression"),
        ({"tokens": r"\w*"}, "must match at least one character"),
        ({"tokens": "(a)(b)"}, "at most one group"),
        ({"tokens": "a" * 501}, "at most 500"),
        ({"ngrams": 0}, "ngrams are 1 to 5"),
        ({"ngrams": True}, "ngrams are 1 to 5"),
        ({"lower": "yes"}, "lower is true or false"),
        ({"tokenizer": "nothing"}, "MODULE:FUNCTION"),
        ({"tokenizer": "os:getcwd", "tokens": "a+"}, "give only one of them"),
    ],
)
def test_what_is_no_recipe_is_refused(settings, reason):
    with pytest.raises(InvalidStructure, match=reason):
        db.texts.Recipe(**settings)
    with pytest.raises(InvalidStructure):
        db.LatentDirichletAllocation(2, ("a", "b"), recipe=json.dumps(settings))


def test_code_that_a_file_names_is_not_run(tmp_path, monkeypatch):
    called = []
    module = ModuleType("own_tokenizer")
    module.cut = lambda text: called.append(text) or text.split("|")
    monkeypatch.setitem(sys.modules, "own_tokenizer", module)
    monkeypatch.setattr(recipes, "_trusted", {})
    model = db.LatentDirichletAllocation(2, ("red rose", "pear"), recipe='{"tokenizer": "own_tokenizer:cut"}')
    again = db.model_for(model.structure)
    (tmp_path / "a.txt").write_text("Red Rose|pear|\n", encoding="utf-8")
    with pytest.raises(InvalidData, match="name it yourself: --tokenizer own_tokenizer:cut"):
        again.read(tmp_path / "a.txt")
    assert not called
    assert again.read(tmp_path / "a.txt", tokenizer="own_tokenizer:cut").toarray().tolist() == [[1, 1]]
    assert again.counted(["pear|pear"]).toarray().tolist() == [[0, 2]]


def test_the_recipe_is_part_of_what_sites_agree_on():
    pairs, single = (db.LatentDirichletAllocation(2, ("a", "b"), recipe=recipe) for recipe in ('{"ngrams": 2}', ""))
    assert db.model_for(pairs.structure).recipe == db.texts.Recipe(ngrams=2)
    assert single.structure == db.LatentDirichletAllocation(2, ("a", "b")).structure
    with pytest.raises(db.errors.StructureMismatch, match="recipe"):
        db.merge([db.Posterior.of_prior(model.structure) for model in (pairs, single)])


def test_words_that_count(tmp_path):
    (tmp_path / "a.txt").write_text("red rose of may\nrose of red\nrose of rose\n", encoding="utf-8")
    stop = Choice(stop_words=frozenset({"of"}))
    pairs = db.texts.Recipe(ngrams=3)
    found = read_documents(tmp_path / "a.txt", recipe=pairs, choice=stop).vocabulary
    assert found == ("may", "red", "red rose", "rose", "rose of may", "rose of red", "rose of rose")
    most = Choice(most_words=2, stop_words=frozenset({"of"}))
    assert read_documents(tmp_path / "a.txt", choice=most).vocabulary == ("red", "rose")
    assert read_documents(tmp_path / "a.txt", choice=Choice(2, 0.7)).vocabulary == ("red",)


def test_stop_words_come_by_language_and_hold_no_topics():
    known = languages()
    assert {"english", "german", "french", "spanish", "chinese"} <= known.keys()
    assert {"the", "and", "of"} <= set(known["english"])
    assert not {"computer", "system", "fire", "home"} & set(known["english"])


def test_without_the_extra_the_remedy_is_named(monkeypatch):
    monkeypatch.setattr("decbayes.inputs.recipes.find_spec", lambda name: None)
    with pytest.raises(MissingExtra, match=r"pip install 'decbayes\[texts\]'"):
        languages()


def test_what_is_no_document_is_counted_and_named_but_never_quoted(tmp_path):
    (tmp_path / "a.csv").write_text("id,text\n1,pear\n2\n3,secret,more\n4,plum\n", encoding="utf-8")
    (tmp_path / "b.txt").write_bytes(b"pear\n" + "secr\xe9t\n".encode("latin-1"))
    (tmp_path / "c.jsonl").write_text("\n".join(['"pear"', *['{"secret": 1}'] * 7, '{"text": null}']), encoding="utf-8")
    left_out = LeftOut()
    texts = Texts(tuple(tmp_path / name for name in ("a.csv", "b.txt", "c.jsonl")))
    read = list(texts.read(left_out))
    assert [text for _, text in read] == ["pear", "plum", "pear\n", "pear", ""]
    assert [place.rsplit("/", 1)[1] for place, _ in read] == ["a.csv:1", "a.csv:4", "b.txt:1", "c.jsonl:1", "c.jsonl:9"]
    said = "\n".join(left_out)
    assert "2 left out (row 2, row 3): another number of cells" in said
    assert "b.txt: 1 left out (2): not in this encoding" in said
    assert "7 left out (line 2, line 3, line 4, line 5, line 6, …): neither a string" in said
    assert "secr" not in said
    assert [text for _, text in Texts((tmp_path / "b.txt",), encoding="latin-1").read(LeftOut())][1] == "secrét\n"
    with pytest.raises(InvalidData, match="row 2: another number of cells"):
        list(Texts((tmp_path / "a.csv",), strict=True).read(LeftOut()))


def test_folders_leave_out_what_is_no_text(tmp_path):
    write_folder(tmp_path / "letters")
    (tmp_path / "letters" / "scan.pdf").write_bytes(b"%PDF")
    (tmp_path / "letters" / ".hidden.txt").write_text("secret", encoding="utf-8")
    (tmp_path / "letters" / "bare").write_text("pear", encoding="utf-8")
    left_out = LeftOut()
    assert len(list(Texts((tmp_path / "letters",)).read(left_out))) == 4
    assert "2 left out (bare, scan.pdf)" in next(iter(left_out))
    assert len(list(Texts((tmp_path / "letters",), format="txt").read(LeftOut()))) == 6
    (tmp_path / "empty").mkdir()
    with pytest.raises(InvalidData, match="empty holds no documents"):
        list(Texts((tmp_path / "empty",)).read(LeftOut()))


def test_stop_words_of_one_office_do_not_come_back_with_quotations_of_another(run, tmp_path):
    pytest.importorskip("bm25s")
    rng = np.random.default_rng(0)
    english = "the and of to in that is was he for it with as his on be at by this had not are but from"
    german = "der die das und in zu den von mit sich des auf für ist im dem nicht ein eine als auch es an"
    for name, glue, quoted in (("north", english, ""), ("berlin", german, "the question is")):
        texts = [" ".join([*rng.choice(glue.split(), 20), f"{name} boat river", quoted]) for _ in range(40)]
        (tmp_path / f"{name}.txt").write_text("\n".join(texts), encoding="utf-8")
        assert run(f"words {name}.txt --most-share 1 -o {name}.words")[0] == 0
    assert "the\t40" in (tmp_path / "berlin.words").read_text(encoding="utf-8").splitlines()
    status, _, errors = run("words north.words berlin.words --most-share 1 -o all.txt")
    said = "Left out, because other lists leave them out as stop words: is, the. --stop-words none keeps them."
    assert (status, said in " ".join(errors.split())) == (0, True), errors
    listed = (tmp_path / "all.txt").read_text(encoding="utf-8").splitlines()
    words = [line.partition("\t")[0] for line in listed if not line.startswith("#")]
    assert words == ["berlin", "boat", "north", "question", "river"]
    assert run("words north.words berlin.words --most-share 1 --stop-words none -o kept.txt")[0] == 0
    assert "the\t40" in (tmp_path / "kept.txt").read_text(encoding="utf-8").splitlines()
    (tmp_path / "names.txt").write_text("boat\nmiller\n", encoding="utf-8")
    assert run("words north.txt --most-share 1 --stop-words auto,names.txt -o named.words")[0] == 0
    listed = (tmp_path / "named.words").read_text(encoding="utf-8")
    assert "stopped" in listed
    assert "miller" not in listed, "that file stays where it is"
    assert "boat" not in listed


def office(path, seed):
    rng = np.random.default_rng(seed)
    themes = ["vaccine dose ward nurse", "anchor mast tide crew"]
    lines = [" the ".join(rng.choice(themes[rng.integers(2)].split(), 12)) for _ in range(30)]
    path.write_text("\n".join(json.dumps({"body": line}) for line in lines), encoding="utf-8")


def test_three_offices_share_words_and_recipe(run, tmp_path):
    names = ("a", "b", "c")
    for seed, name in enumerate(names):
        office(tmp_path / f"{name}.jsonl", seed)
        line = f"words {name}.jsonl --columns body --stop-words english --ngrams 2 --most-share 1 -o {name}.words"
        assert run(line)[0] == 0
    assert run("words a.words b.words c.words -o words.txt")[0] == 0
    listed = (tmp_path / "words.txt").read_text(encoding="utf-8").splitlines()
    assert listed[0] == '# decbayes recipe {"ngrams": 2}'
    assert listed[1] == "# decbayes documents 90"
    listed = [line.partition("\t")[0] for line in listed if not line.startswith("#")]
    assert "the" not in listed
    assert run("fit topics a.jsonl --columns body --topics 2 --vocabulary words.txt -o a.posterior")[0] == 0
    for name in ("b", "c"):
        assert run(f"fit topics {name}.jsonl --columns body --like a.posterior -o {name}.posterior")[0] == 0
    assert run("merge a.posterior b.posterior c.posterior -o m.posterior")[0] == 0
    assert run("score a.jsonl m.posterior --columns body")[0] == 0
    merged = db.load(tmp_path / "m.posterior")
    assert db.model_for(merged.structure).recipe == db.texts.Recipe(ngrams=2)
    assert merged.structure.labels["topics"] == tuple(listed)
    assert run("fit topics a.jsonl --columns body --topics 2 --ngrams 2 --vocabulary words.txt -o a.posterior")[0] == 0
    status, _, errors = run("fit topics a.jsonl --columns body --keep-case --vocabulary words.txt -o no.posterior")
    assert (status, "says how texts become words" in errors) == (1, True)
    assert run("words b.jsonl --columns body -o other.words")[0] == 0
    status, _, errors = run("words a.words other.words -o no.txt")
    assert (status, "different recipes" in errors, (tmp_path / "no.txt").exists()) == (1, True, False)
    both = "".join((tmp_path / name).read_text(encoding="utf-8") for name in ("a.words", "b.words"))
    mixed = "\n".join(sorted({*both.splitlines(), '# decbayes recipe {"ngrams": 3}'}))
    (tmp_path / "mixed.txt").write_text(mixed, encoding="utf-8")
    status, _, errors = run("fit topics a.jsonl --columns body --vocabulary mixed.txt -o no.posterior")
    assert (status, "different recipes" in errors) == (1, True)


def test_standard_input_several_files_and_lines_that_are_none(run, tmp_path, monkeypatch):
    office(tmp_path / "a.jsonl", 0)
    content = (tmp_path / "a.jsonl").read_bytes()
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(content + b"\nsecret\n")))
    status, _, errors = run("fit topics - --format jsonl --columns body --topics 2 --most-share 1 -o in.posterior")
    assert (status, "standard input: 1 left out (line 31)" in errors, "secret" in errors) == (0, True, False)
    assert run("fit topics a.jsonl --columns body --topics 2 --most-share 1 -o a.posterior")[0] == 0
    assert (tmp_path / "in.posterior").read_bytes() == (tmp_path / "a.posterior").read_bytes()
    (tmp_path / "b.jsonl").write_bytes(content)
    status, _, errors = run("fit topics a.jsonl b.jsonl --columns body --topics 2 --most-share 1 -o ab.posterior")
    assert (status, "60 documents" in errors) == (0, True)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("fit topics a.jsonl -o p", "object with a string as its 'text'"),
        ("fit topics a.jsonl --columns body --stop-words klingon -o p", "no stop words for klingon. Name one of"),
        ("fit topics a.jsonl --columns body --tokenizer os:nothing -o p", "no tokenizer os:nothing"),
        ("fit topics a.jsonl --columns body --encoding nothing -o p", "no encoding nothing"),
        ("fit topics a.jsonl --columns body --format pdf -o p", "no format pdf"),
        ("fit topics zh.txt -o p", "--tokens characters --ngrams 2"),
        ("fit topics counts.csv --columns text -o p", "there is no column text; the columns are x, y"),
        ("words a.words a.jsonl -o p", "combine lists, or list the words of texts"),
        ("score counts.csv points.posterior --strict", "--strict is about texts"),
    ],
)
def test_bad_input_is_refused_in_a_line(run, tmp_path, line, reason):
    office(tmp_path / "a.jsonl", 0)
    (tmp_path / "a.words").write_text("pear\n", encoding="utf-8")
    (tmp_path / "counts.csv").write_text("x,y\n1,2\n", encoding="utf-8")
    (tmp_path / "zh.txt").write_text("我喜欢北京的天气\n我喜欢北京的公园\n", encoding="utf-8")
    db.save(db.Posterior.of_prior(db.models.GaussianMean(dimension=2).structure), tmp_path / "points.posterior")
    status, _, errors = run(line)
    assert (status in (1, 2), reason in errors, errors.count("\n") <= 1) == (True, True, True), errors
    assert not (tmp_path / "p").exists()


@pytest.mark.parametrize("length", [10, 200_000])
def test_a_table_of_texts_has_the_encoding_that_was_given_however_long_they_are(tmp_path, length):
    path = tmp_path / "old.csv"
    path.write_bytes(f'id,text\n1,"{"näve " * (length // 5)}"\n'.encode("cp1252"))
    model, data = db.LatentDirichletAllocation.from_file(
        path, topics=2, encoding="cp1252", least_documents=1, most_share=1.0
    )
    assert data.shape[0] == 1
    assert "näve" in model.vocabulary


def test_common_words_are_judged_by_all_documents_together(run, tmp_path):
    """A word that most documents of one site have, and few of all; and one that most of all have."""
    themes = {"a": ("river", "boat"), "b": ("money", "fund"), "c": ("pawn", "rook")}
    for name, words in themes.items():
        lines = [f"minister {'harbour' if name == 'a' else ''} {words[n % 2]}" for n in range(20)]
        (tmp_path / f"{name}.txt").write_text("\n".join(lines), encoding="utf-8")
        assert run(f"words {name}.txt -o {name}.{'words' if name != 'c' else 'list'}")[0] == 0
    (tmp_path / "c.txt").write_bytes((tmp_path / "c.list").read_bytes())  # a list by its content
    status, _, errors = run("words a.words b.words c.txt -o words.txt")
    assert (status, "because more than 50% of all documents have them: 1 word." in errors) == (0, True), errors
    listed = (tmp_path / "words.txt").read_text(encoding="utf-8").splitlines()
    assert "harbour\t20" in listed, "a third of all documents"
    assert "# decbayes common minister\t60" in listed
    assert "# decbayes documents 60" in listed
    assert run("fit topics a.txt --vocabulary words.txt --topics 2 -o a.posterior")[0] == 0
    assert "minister" not in db.load(tmp_path / "a.posterior").structure.labels["topics"]


def test_options_hold_for_all_documents_together_where_lists_are_joined(run, tmp_path):
    """A third of the documents have "pear" at each site, a fifth "plum", and all of one site "fig"."""
    for name in "ab":
        every = "fig" if name == "a" else "nut"
        lines = [f"{every} {'pear' if n % 3 else 'word'} {'plum' if n % 5 else 'kiwi'}" for n in range(60)]
        (tmp_path / f"{name}.txt").write_text("\n".join(lines), encoding="utf-8")
        assert run(f"words {name}.txt -o {name}.words --most-share 0.9")[0] == 0

    def kept(options):
        status, _, errors = run(f"words a.words b.words -o all.txt {options}")
        assert status == 0, errors
        lines = (tmp_path / "all.txt").read_text(encoding="utf-8").splitlines()
        return {line.split("\t")[0] for line in lines if not line.startswith("#")}, errors

    assert kept("--most-share 0.9")[0] == {"fig", "kiwi", "nut", "pear", "plum", "word"}
    few, errors = kept("--most-share 0.35")
    assert (few, "more than 35% of all documents have them: 4 words." in errors) == ({"kiwi", "word"}, True)
    assert kept("--most-words 2 --most-share 0.9")[0] == {"pear", "plum"}
    assert kept("--least-documents 60 --most-share 0.9")[0] == {"fig", "nut", "pear", "plum"}
    status, _, errors = run("words a.words b.words -o none.txt --least-documents 1000")
    assert (status, "lower --least-documents" in errors) == (1, True), errors
    status, _, errors = run("words a.words b.words -o all.txt --ngrams 2")
    assert (status, "the options say something else" in errors) == (1, True)
    (tmp_path / "c.words").write_text("pear\nplum\n", encoding="utf-8")
    status, _, errors = run("words a.words c.words -o all.txt --most-words 1")
    assert status == 0, "one list has numbers"
    status, _, errors = run("words c.words -o all.txt --most-words 1")
    assert (status, "no numbers of documents" in errors) == (1, True)


def test_words_that_are_cut_at_combining_signs_are_reported_and_the_advice_keeps_them_whole(run, tmp_path):
    (tmp_path / "hindi.txt").write_text("चिकित्सक अस्पताल में।\nनर्स दवा\n" * 20, encoding="utf-8")
    status, _, errors = run("words hindi.txt -o cut.words --most-share 1")
    assert (status, "cut at the combining signs" in errors) == (0, True), errors
    status, _, errors = run(f"words hindi.txt -o whole.words --most-share 1 --tokens {errors.split(chr(39))[1]}")
    assert (status, "combining" in errors) == (0, False), errors
    lines = (tmp_path / "whole.words").read_text(encoding="utf-8").splitlines()
    words = {line.split("\t")[0] for line in lines if not line.startswith("#")}
    assert words == {"चिकित्सक", "अस्पताल", "में", "नर्स", "दवा"}


def test_texts_without_any_word_say_so(run, tmp_path):
    (tmp_path / "numbers.txt").write_text("12 345\n" * 20, encoding="utf-8")
    status, _, errors = run("words numbers.txt -o list.words")
    assert (status, "no words in the 20 documents" in errors) == (1, True), errors


def test_stop_words_of_the_texts_language_are_left_out_unless_somebody_wants_them(run, tmp_path):
    pytest.importorskip("bm25s")
    words = "the and of to in that is was he for it with as his on be at by i this had not are but from or have"
    english = words.split()
    rng = np.random.default_rng(0)
    lines = [" ".join([*rng.choice(english, 12), *rng.choice(["river", "boat", "money"], 6)]) for _ in range(40)]
    (tmp_path / "a.txt").write_text("\n".join(lines), encoding="utf-8")
    errors = run("fit topics a.txt --topics 2 --most-share 1 -o a.posterior")[2]
    assert "Stop words are left out (English); --stop-words none keeps them." in errors
    assert db.load(tmp_path / "a.posterior").structure.labels["topics"] == ("boat", "money", "river")
    assert run("fit topics a.txt --topics 2 --most-share 1 --stop-words none -o all.posterior")[0] == 0
    assert "the" in db.load(tmp_path / "all.posterior").structure.labels["topics"]
    (tmp_path / "b.txt").write_text("\n".join(["river boat", "money fund"] * 20), encoding="utf-8")
    assert "Stop words" not in run("fit topics b.txt --topics 2 --most-share 1 -o b.posterior")[2]
    assert (
        "cannot be combined with other names" in run("fit topics a.txt --topics 2 --stop-words none,english -o no")[2]
    )
