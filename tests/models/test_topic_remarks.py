"""What is said about merged topics, and about fits of short texts."""

import re
from dataclasses import replace

import numpy as np
import pytest
from scipy.sparse import csr_array, vstack

import decbayes as db
from decbayes.models.topics.fit_remarks import few_documents_remark, scores, topics_of_few
from decbayes.remarks import Remark
from decbayes.views import view_of

WORDS = 60


def planted(rng, themes, documents, length, *, mixing=0.05):
    """Documents of one theme each: theme t uses ten words of its own."""
    chosen = rng.choice(themes, documents)
    shares = np.full((documents, WORDS), mixing / WORDS)
    for row, theme in enumerate(chosen):
        shares[row, 10 * theme : 10 * theme + 10] += (1 - mixing) / 10
    return csr_array(rng.multinomial(length, shares / shares.sum(axis=1, keepdims=True)))


def model(topics):
    return db.LatentDirichletAllocation(topics, [f"w{n}" for n in range(WORDS)], topic_prior=0.1)


def advised(posteriors, names=(), **options):
    alignment = db.align(posteriors, **options)
    return {remark.kind: remark for remark in view_of(alignment.structure).advice(alignment, names)}


def test_sites_that_share_no_words_are_two_groups(rng):
    sites = [model(2).fit(planted(rng, themes, 60, 40, mixing=0.01), rng=rng).posterior for themes in ([0, 1], [1, 2])]
    others = [model(2).fit(planted(rng, [4, 5], 60, 40, mixing=0.01), rng=rng).posterior for _ in range(2)]
    remarks = db.merging.remarks(db.align([*sites, *others]), ["a", "b", "x", "y"])
    assert any(one.is_warning and one.what.endswith("share hardly any words: a, b; x, y.") for one in remarks)
    with pytest.warns(db.errors.MergeWarning, match="share hardly any words: site 0, site 1; site 2, site 3"):
        db.merge([*sites, *others])
    assert not any("hardly any words" in one.what for one in db.merging.remarks(db.align(sites)))
    (two,) = [one for one in db.merging.remarks(db.align([sites[0], others[0]])) if "hardly any" in one.what]
    assert (two.what.startswith("2 sites share"), two.advice.startswith("Do not merge them")) == (True, True)


def test_twice_the_slots_are_worth_it_only_if_slots_are_too_few(rng):
    sites = [model(6).fit(planted(rng, range(6), 150, 40), rng=rng).posterior for _ in range(3)]
    few = advised(sites, components=3)["more slots"]
    assert "6 slots instead of 3 may predict better" in few.what
    assert "more slots" not in advised(sites, components=6)
    observed, held = db.checking.hold_out(planted(rng, range(6), 400, 40), share=0.3, rng=0)
    merged = {slots: db.merge(sites, components=slots) for slots in (3, 6)}
    three, six = (model(slots).score(posterior, observed, held) for slots, posterior in merged.items())
    stated = float(re.search(r"by about ([\d.]+) nats", few.what)[1])
    assert (six - three) / 3 < stated < six - three


def test_twice_the_slots_are_judged_at_sites_that_did_not_shape_them():
    """In sample they describe topics of so few words better by chance."""
    rng = np.random.default_rng(0)
    sites = [model(6).fit(planted(rng, range(6), 30, 20, mixing=0.6), rng=rng).posterior for _ in range(8)]
    assert "more slots" not in advised(sites, components=6)


def test_what_twice_the_slots_gain_does_not_depend_on_the_order_of_files(rng):
    sites = [model(3).fit(planted(rng, range(6), 60, 40), rng=rng).posterior for _ in range(7)]
    said = {advised([sites[place] for place in rng.permutation(7)])["more slots"].what for _ in range(6)}
    assert len(said) == 1


def test_a_topic_that_mixes_two_things_is_worth_a_look(rng):
    """Five slots for six themes: one of them holds two."""
    sites = [model(6).fit(planted(rng, range(6), 150, 40), rng=rng).posterior for _ in range(3)]
    alignment = db.align(sites, components=5)
    merged = alignment.merged()
    halves = merged.mean("topics").reshape(5, 6, 10).sum(axis=2)
    mixed = int(np.sort(halves, axis=1)[:, -2].argmax())
    remark = {each.kind: each for each in view_of(alignment.structure).advice(alignment)}.get("mixed topics")
    assert remark is not None
    assert f"topic {mixed} (" in remark.what


@pytest.mark.parametrize("seed", [9, 26, 31])
def test_topics_that_are_like_their_sources_are_not_worth_a_look(seed):
    """Each site has themes of its own, and its topics are alone in their slots."""
    rng = np.random.default_rng(seed)
    pairs = ([0, 1], [2, 3], [4, 5])
    sites = [model(2).fit(planted(rng, themes, 100, 40, mixing=0.01), rng=rng).posterior for themes in pairs]
    assert "mixed topics" not in advised(sites, components=6)


def test_rounds_and_wide_fits_are_advised_where_they_pay(rng):
    calm = [model(3).fit(planted(rng, range(3), 80, 40), rng=rng).posterior for _ in range(2)]
    assert "one round" not in advised(calm)
    alike = [model(3).fit(planted(rng, range(6), 80, 40), rng=rng).posterior for _ in range(2)]
    assert "fit 6 topics at each site, and give --components 3" in advised(alike)["one round"].advice
    narrowed = advised(
        [model(6).fit(planted(rng, range(6), 80, 40), rng=rng).posterior for _ in range(2)], components=3
    )
    assert narrowed["one round"].advice == "`decbayes refine DATA --folder shared --components 3`, once per site."
    unlike = [model(2).fit(planted(rng, themes, 80, 40), rng=rng).posterior for themes in ([0, 1, 2], [2, 3, 4])]
    advice = advised(unlike)["one round"].advice
    assert "refine DATA --folder" in advice
    assert "fit wide" not in advice
    assert advised(alike[:1]) == {}


def repeated(documents):
    remarks = model(3).fit(documents, rng=np.random.default_rng(0)).posterior.remarks
    return [remark.what for remark in remarks if remark.kind == "repeated documents"]


def test_documents_with_the_same_words_are_counted_by_a_fit(rng):
    """Not if they are short: these may be alike by chance."""
    once = planted(rng, range(3), 80, 40)
    assert repeated(once) == []
    assert repeated(csr_array(vstack([once, once[:4]]))) == []
    assert repeated(csr_array(vstack([once, *[once[:3]] * 3, once[5:6]]))) == [
        "At least 10 of 90 documents have the same words as others."
    ]
    assert repeated(csr_array(np.repeat(np.eye(3, WORDS), 30, axis=0))) == []


# Two themes per language, one sentence each.
SENTENCES = {
    "german": (
        "der Koch und die Köchin kochen in der Küche eine Suppe mit Salz. die Suppe kocht in dem Topf auf dem Herd. "
        "der Koch schneidet das Gemüse und die Zwiebel in den Topf. die Köchin isst die Suppe mit Brot in der Küche. "
        "das Brot und das Gemüse sind in dem Korb der Köchin. auf dem Herd steht der Topf mit der Suppe",
        "der Zug fährt in den Bahnhof und die Reisenden warten auf dem Gleis. die Lok zieht den Zug auf dem Gleis. "
        "der Schaffner prüft die Karte in dem Zug. die Reisenden steigen in den Zug und der Schaffner pfeift. "
        "in dem Bahnhof steht die Lok auf dem Gleis. der Fahrplan und die Karte sind in dem Bahnhof",
    ),
    "french": (
        "le chef et la cuisinière font de la soupe dans la cuisine. la soupe cuit dans la marmite sur le feu. "
        "le chef coupe les légumes et les oignons de la soupe. la cuisinière mange du pain dans la cuisine. "
        "le pain et les légumes sont dans le panier de la cuisinière. sur le feu est la marmite de soupe",
        "le train entre dans la gare et les voyageurs sont sur le quai. la machine tire le train sur les rails. "
        "le contrôleur regarde les billets dans le train. les voyageurs montent dans le train et le contrôleur siffle. "
        "dans la gare la machine est sur les rails. les horaires et les billets sont dans la gare",
    ),
    "swedish": (
        "kocken och hans fru lagar soppa i köket med salt. soppan kokar i en gryta på spisen och den är varm. "
        "kocken skär lök och kål i en gryta på bordet. hans fru äter soppan och ett bröd i köket. "
        "ett bröd och en lök är i korgen på bordet. på spisen är en gryta med soppan i",
        "tåget kommer i tid och en resenär är på perrongen. loket drar tåget på en räls och det är tungt. "
        "en konduktör ser på biljetten i tåget. en resenär är på tåget och konduktören visslar med en pipa. "
        "i stationen är loket på en räls. en tidtabell och en biljett är i stationen",
    ),
}


@pytest.mark.parametrize("language", SENTENCES)
def test_topics_of_function_words_are_recognised_in_any_language(rng, language):
    """Documents of five sentences about one theme each; without words of both themes nothing is said."""
    themes = [theme.split(". ") for theme in SENTENCES[language]]
    texts = [". ".join(rng.choice(themes[number % 2], 5)) for number in range(60)]
    words = [{word for sentence in theme for word in db.texts.Recipe().words(sentence)} for theme in themes]
    fitted = {}
    for name, vocabulary in (("all", words[0] | words[1]), ("telling", words[0] ^ words[1])):
        topics = db.LatentDirichletAllocation(2, sorted(vocabulary), topic_prior=0.1)
        fitted[name] = topics.fit(topics.counted(texts), rng=0).posterior
    (said,) = (remark for remark in fitted["all"].remarks if remark.kind == "function words")
    assert said.what.endswith("with words that are spread evenly over documents, such as function words.")
    assert advised([fitted["all"]] * 2)["function words"].what.startswith("At 2 of 2 sites, topics begin with words")
    assert not [remark for remark in fitted["telling"].remarks if remark.kind == "function words"]


def test_short_texts_that_topics_predict_worse_than_frequencies_say_so(rng):
    noise = csr_array(rng.multinomial(6, np.full((300, WORDS), 1.0 / WORDS)))
    (remark,) = model(10).fit(noise, rng=rng).posterior.remarks
    assert (remark.kind, remark.is_warning) == ("short texts", True)
    assert "6 words on average" in remark.rests_on
    assert model(6).fit(planted(rng, range(6), 300, 12), rng=rng).posterior.remarks == ()
    assert model(10).fit(csr_array(noise.toarray() * 20), rng=rng).posterior.remarks == (), "long documents"


def test_held_out_words_are_scored_without_what_their_document_has_added(rng):
    """With one topic both are the same up to the prior: frequencies of all other documents."""
    documents = csr_array(rng.multinomial(6, np.full((40, 8), 0.125)))
    one = db.LatentDirichletAllocation(1, list("abcdefgh"), topic_prior=1e-9)
    posterior = one.fit(documents, rng=rng).posterior
    observed, held = db.checking.hold_out(documents, share=0.3, rng=0)
    by_topics, by_frequency = scores(one, posterior, documents, csr_array(observed), csr_array(held))
    counts, left = documents.toarray(), csr_array(held).toarray()
    expected = 0.0
    for row in range(len(counts)):
        others = counts.sum(axis=0) - counts[row]
        expected += float((left[row] * np.log(np.maximum(others, 1e-12) / others.sum()))[left[row] > 0].sum())
    assert by_topics == pytest.approx(expected / left.sum(), abs=1e-6)
    assert by_frequency == pytest.approx(by_topics, abs=1e-6)


def test_a_topic_of_one_odd_document_is_named_by_the_site_and_in_the_merge(rng):
    """One document with as many words as a hundred others, about something that nobody else writes about."""
    usual = [planted(rng, range(3), 80, 40, mixing=0.01).toarray() for _ in range(2)]
    odd = np.zeros((1, WORDS), dtype=int)
    odd[0, 50:] = rng.multinomial(4000, np.full(10, 0.1))
    fits = [model(4).fit(csr_array(np.vstack([odd, usual[0]])), rng=rng).posterior]
    fits.append(model(3).fit(csr_array(usual[1]), rng=rng).posterior)
    of_odd = int(fits[0].mean("topics")[:, 50:].sum(axis=1).argmax())
    (remark,) = fits[0].remarks
    assert remark.what == f"Topic {of_odd} has half of its words from fewer than 5 documents."
    assert not remark.is_warning
    assert not fits[1].remarks
    alignment = db.align(fits, components=4)
    slot = int(alignment.merged().mean("topics")[:, 50:].sum(axis=1).argmax())
    said = {each.kind: each for each in view_of(alignment.structure).advice(alignment, ["north", "south"])}
    assert said["few documents"].what.startswith(f"Topic {slot} (w5")
    assert said["few documents"].what.endswith(
        "comes mostly from topics with half of their words from fewer than 5 documents, at north."
    )
    assert "drop" not in said["few documents"].advice
    shared = int(np.flatnonzero(alignment.assignments[1][alignment.structure.symmetry[0]] != slot)[0])
    fits[1] = replace(fits[1], remarks=(few_documents_remark([shared]),))
    elsewhere = {each.kind: each for each in view_of(alignment.structure).advice(db.align(fits, components=4), "ns")}
    assert elsewhere["few documents"].what.endswith(", at n."), "the other site's topic is in another slot"
    assert "few documents" not in advised([fits[1]] * 1 + [model(3).fit(csr_array(usual[0]), rng=rng).posterior])


@pytest.mark.parametrize("topics", [[3], [0, 12, 7]])
def test_topics_that_a_remark_names_are_read_back(topics):
    assert topics_of_few((few_documents_remark(topics),)) == topics
    named = "; ".join(f"{topic} (word2, 3d)" for topic in topics)
    merged = f"Topics {named} come mostly from topics with half of their words from fewer than 5 documents, at a."
    assert topics_of_few((Remark("few documents", merged, ""),)) == topics


def test_half_of_the_words_are_in_fewer_than_five_documents_if_that_is_said(rng):
    """One long document and many short ones about the same: 46 % of a topic's words are not half of them."""
    usual = planted(rng, range(3), 80, 40, mixing=0.01).toarray()
    for longest, named in ((1840, False), (2700, True)):
        odd = np.zeros((55, WORDS), dtype=int)
        odd[:, 50:] = [rng.multinomial(size, np.full(10, 0.1)) for size in (longest, *[40] * 54)]
        posterior = model(4).fit(csr_array(np.vstack([odd, usual])), rng=rng).posterior
        assert bool(topics_of_few(posterior.remarks)) == named


def test_five_like_documents_are_no_odd_one(rng):
    """The same words in more documents instead of one; of ten unequal ones, eight would be as many."""
    usual = planted(rng, range(3), 80, 40, mixing=0.01).toarray()
    for sizes, named in (([2000] * 2, True), ([571] * 7, False), ([1000, *[333] * 9], False)):
        odd = np.zeros((len(sizes), WORDS), dtype=int)
        odd[:, 50:] = [rng.multinomial(size, np.full(10, 0.1)) for size in sizes]
        fit = model(4).fit(csr_array(np.vstack([odd, usual])), rng=rng)
        assert bool(topics_of_few(fit.posterior.remarks)) == named


def test_topics_of_few_documents_are_kept_for_a_merge_which_predicts_better_with_them(rng):
    shards = [planted(rng, range(6), 18, 40, mixing=0.2) for _ in range(4)]
    observed, held = db.checking.hold_out(planted(rng, range(6), 300, 40, mixing=0.2), share=0.3, rng=0)
    scores = {}
    for topics in (2, 6):
        fits = [model(topics).fit(shard, rng=rng).posterior for shard in shards]
        scores[topics] = model(topics).score(db.merge(fits), observed, held)
    assert any("keep them for a merge" in remark.advice for fit in fits for remark in fit.remarks)
    assert scores[6] > scores[2] + 0.1


def test_one_giant_document_is_named_by_its_share_however_few_documents_there_are(rng):
    """It has more words than all others together, and topics of its own."""
    usual = planted(rng, range(3), 40, 40, mixing=0.01).toarray()
    odd = np.zeros((1, WORDS), dtype=int)
    odd[0, 50:] = rng.multinomial(4000, np.full(10, 0.1))
    posterior = model(4).fit(csr_array(np.vstack([usual, odd])), rng=rng).posterior
    (remark,) = posterior.remarks
    of_odd = int(posterior.mean("topics")[:, 50:].sum(axis=1).argmax())
    assert topics_of_few([remark]) == [of_odd]
    assert remark.rests_on == f"One document has {4000 / (4000 + usual.sum()):.0%} of all words."
    assert not model(3).fit(csr_array(usual), rng=rng).posterior.remarks, "thirteen documents per topic, none longer"


@pytest.mark.parametrize("settings", [{"topics": "auto"}, {"topic_prior": "learn"}, {"document_prior": "learn"}])
def test_a_giant_document_is_named_whatever_the_fit_finds_by_itself(settings, rng):
    counts = np.vstack(
        [planted(rng, range(3), 40, 40).toarray(), rng.multinomial(15_000, np.full((1, WORDS), 1 / WORDS))]
    )
    fitted = replace(model(3), **settings).fit(csr_array(counts), rng=rng).posterior
    assert "One document has 90% of all words." in [remark.rests_on for remark in fitted.remarks]


def test_one_topic_begins_with_words_of_all_documents_which_says_nothing(rng):
    counts = csr_array(rng.multinomial(60, np.arange(WORDS) / np.arange(WORDS).sum(), 50))
    assert model(1).fit(counts, rng=rng).posterior.remarks == ()


def test_too_many_topics_for_the_documents_are_said_to_be_too_many(rng):
    few = planted(rng, range(3), 15, 40, mixing=0.3)
    said = [remark.what for remark in model(16).fit(few, rng=rng).posterior.remarks]
    assert said == ["There are more topics than documents."]
    (remark,) = model(6).fit(few, rng=rng).posterior.remarks
    assert "keep them for a merge. To read them alone, fit fewer topics" in remark.advice
    assert not topics_of_few([remark]), "a merge puts such topics of several sites together"


def test_where_most_topics_are_of_few_documents_fewer_topics_are_advised_and_the_giant_is_still_mentioned(rng):
    few = csr_array(np.vstack([planted(rng, range(3), 15, 40, mixing=0.3).toarray(), np.full((1, WORDS), 20)]))
    (remark,) = model(12).fit(few, rng=rng).posterior.remarks
    assert "11 of 12 topics each have half" in remark.what
    assert ("fit fewer topics" in remark.advice, "of all words" in remark.rests_on) == (True, True)
    (remark,) = model(2).fit(few, rng=rng).posterior.remarks
    assert "Leave it out if it is odd" in remark.advice, "two topics are not too many for 16 documents"


def test_a_merge_says_at_which_site_a_fifth_of_the_documents_are_copies(rng):
    once = planted(rng, range(3), 80, 40)
    for copies, repeated_in_merge in ((10, False), (20, True)):
        sites = [once, csr_array(vstack([once, once[:copies]]))]
        fits = [model(3).fit(site, rng=np.random.default_rng(0)).posterior for site in sites]
        said = [one.what for one in db.merging.remarks(db.align(fits), ["a", "b"])]
        wanted = f"b: At least {copies} of {80 + copies} documents have the same words as others."
        assert (wanted in said) == repeated_in_merge, said


def test_a_long_list_of_topics_fits_into_a_file():
    remark = few_documents_remark(list(range(900)))
    assert topics_of_few([remark]) == list(range(100))
    assert "99 and 800 more each have" in remark.what
