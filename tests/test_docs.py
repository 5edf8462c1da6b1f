"""Every Python block and every command of every page runs, in order, and does what the page says."""

import contextlib
import importlib
import importlib.util
import re
import warnings
from pathlib import Path

import numpy as np
import pytest
from pages import OPTIONAL, Reader

import decbayes as db

ROOT = Path(__file__).parents[1]
PICTURES = ROOT / "docs" / "pictures" / "plot"
# Pages of notebooks and of commands are made when the site is.
MADE = ("notebooks", "commands")
SITE = sorted(path for path in (ROOT / "docs").rglob("*.md") if path.parent.name not in MADE)
PAGES = [ROOT / "README.md", ROOT / "PACKAGE.md", *SITE]


def name_of(page):
    """The path of a page as the navigation writes it."""
    return page.relative_to(ROOT / "docs").as_posix() if page in SITE else page.name


def import_optional(page):
    """Libraries that a page imports are imported beforehand: some warn on import, which would be an error here."""
    text = page.read_text(encoding="utf-8")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in OPTIONAL:
            if re.search(rf"^(?:import|from) {name}", text, re.MULTILINE):
                with contextlib.suppress(ModuleNotFoundError):
                    importlib.import_module(name)


@pytest.fixture
def follow(tmp_path, monkeypatch):
    """A function that follows a page in an empty folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DECBAYES_RULES", raising=False)  # as users meet it
    monkeypatch.setenv("COLUMNS", "120")  # as wide as a page

    def followed(name):
        reader, page = Reader(), next(page for page in PAGES if name_of(page) == name)
        import_optional(page)
        reader.follow(page)
        return reader

    return followed


def quickstart(reader):
    scores = reader.names["scores"]
    assert scores["merged"] > scores["naive"] + 1.0
    assert scores["merged"] == pytest.approx(scores["all data in one place"], abs=0.01)
    assert re.search(r"(About 0\.\d|Fewer than 0\.1) of \d matches are expected to be wrong", reader.printed[3])
    alone, merged = (float(line.split()[-1]) for line in reader.printed[-1].splitlines()[1:3])
    assert merged > alone + 0.1


def topic_models(reader):
    scores = reader.names["scores"]
    assert scores["merged"] > max(scores["naive"], scores["site 0 alone"]) + 0.05
    assert scores["merged"] > scores["all documents in one place"] - 0.03
    assert scores["merged"] > scores["one topic per site and slot"] + 0.005
    assert reader.names["brought"][0].structure == reader.names["model"].structure
    shown = next(answer for answer in reader.printed if "occurrences" in answer).split("\n")
    for theme in reader.names["themes"].values():
        assert any(set(theme.split()[:2]) <= set(line.replace(",", " ").split()) for line in shown)


def topic_priors(reader):
    """Topics keep their ids, and what is new has a new one; learned priors are shared."""
    assert [event.kind for event in reader.names["later"].lineage.events].count("born") == 1
    assert reader.names["merged"].structure.fingerprint


def texts(reader):
    """Each topic is one theme, and the three posteriors agree on the words."""
    shown = next(answer for answer in reader.printed if "occurrences" in answer)
    for theme in reader.names["themes"].values():
        assert any(len(set(theme.split()) & set(line.replace(",", " ").split())) == 5 for line in shown.split("\n"))


def tables(reader):
    scores, names = reader.names["scores"], reader.names
    batch = scores["all rows in one place"]
    assert scores["hospital 0 alone"] < batch - 0.3
    assert scores["merged"] == pytest.approx(batch, abs=0.05)
    assert scores["merged, 5 rounds"] == pytest.approx(batch, abs=0.005)
    assert len(names["automatic"].mean("weights")) == 3
    assert not names["complete"].isna().any(axis=None)
    alone, merged = (list(map(float, line.split()[1:])) for line in reader.printed[-1].splitlines()[1:3])
    assert merged > alone


def regression(reader):
    merged, together = (reader.names[name].mean("coefficients") for name in ("merged", "together"))
    np.testing.assert_allclose(merged, together, atol=1e-12)
    distances = reader.names["distances"]
    assert distances[0] < 0.5
    assert distances[-1] < 0.05
    names = reader.names
    assert names["apart"](names["passed_on"]) < 0.1, "passed on, one broadcast each is near, too"


def sites_that_differ(reader):
    names = reader.names
    assert names["differences"].terms == (0,)
    ours = names["row_of"]("intercept", names["varying"], names["refined"].merged)
    exact = names["row_of"]("intercept", names["whole"], names["everything"])
    assert abs(ours["mean"] - exact["mean"]) < 0.01 * exact["deviation"]
    (_, error), (other, wider) = names["meta_analysis"]("intercept")
    assert error < 0.5 * exact["deviation"], "with fixed effects a meta-analysis is far too sure"
    assert wider == pytest.approx(2 / 3 * exact["deviation"], rel=0.05), "with random effects by a third"
    assert abs(other - exact["mean"]) < 0.1 * wider


def sequences(reader):
    scores = reader.names["scores"]
    assert scores["merged"] > scores["one clinic"]
    assert scores["refined"] == pytest.approx(scores["all"], abs=0.002)
    assert reader.names["agreement"] > 0.7


def wearables(reader):
    """States of recordings that nobody has trained on are what people did."""
    assert "observations  16" in next(answer for answer in reader.printed if answer.startswith("observations"))
    assert reader.names["agreement"] > 0.7
    assert set(reader.names["names"]) == set(reader.names["ACTIVITIES"])


def network(reader):
    asked, stored = (answer for answer in reader.printed if answer.startswith("observations"))
    assert "observations  90" in asked
    assert stored == asked


def links(reader):
    assert "site-b.example.org" in reader.printed[-1], "the certificate that was shown"


def secure_network(reader):
    """Two sums are open, and predict as one fit of all points does."""
    assert "all rounds are open" in reader.printed[-1]
    assert "observations  360" in reader.printed[-1]
    model, new = reader.names["model"], reader.names["new"]
    ours, one_fit = (model.score(reader.names[name], new) for name in ("merged", "together"))
    assert abs(ours - one_fit) < 0.01


def study(reader):
    """What lies in the folder says that everything is done, and the coefficients are those of the made-up data."""
    assert "→" not in reader.printed[-1]
    merged = db.load("stay/results/merged.posterior")
    found = {row["term"]: row for row in db.model_for(merged.structure).coefficients(merged)}
    assert abs(found["age"]["mean"] - 0.02) < 3 * found["age"]["deviation"]
    assert "rows per site" in Path("stay/protocol.md").read_text(encoding="utf-8")


def studies(reader):
    """Three studies come to their ends, and find what the data were made with, in as many commands as the page says."""
    survival, letters, machines = (answer for answer in reader.printed if "This rests on" in answer)
    assert re.search(r"hazard of died = yes is 0\.\d+ times as high .*treated", survival.replace("\n", " ")), survival
    assert "3 topics were found" in letters
    assert "3 states were found" in machines
    assert "no difference between sites is clear" not in letters, "nobody tests that of topics"
    page = (ROOT / "docs" / "studies.md").read_text(encoding="utf-8")
    made = [int(number) for number in re.findall(r"\| (\d+) \|$", page, re.MULTILINE)]
    assert made == counted_commands(page)


def counted_commands(page):
    """How many commands each study on a page takes."""
    return [len(re.findall("^decbayes ", part, re.MULTILINE)) for part in page.split("\n## ")[1:]]


def rounds_by_files(reader):
    alone, merged, refined = (float(line.split()[-1]) for line in reader.printed[-2].splitlines()[1:4])
    assert refined > merged > alone


def streaming(reader):
    left = reader.names["left"]
    assert left["learn"] > max(left[None], left[0.1])
    streamed, scores, batch = (reader.names[name] for name in ("streamed", "scores", "batch"))
    assert streamed["AMPS"] == pytest.approx(streamed["all at once"], abs=0.01)
    assert streamed["SDA-Bayes"] < streamed["AMPS"] - 0.4
    assert scores[0] < batch - 0.05
    assert scores[-1] == pytest.approx(batch, abs=0.01)


def unknown_components(reader):
    names = reader.names
    assert [len(names[site].mean("weights")) for site in ("west", "east")] == [4, 2]
    assert names["model"].score(names["merged"], names["new"]) > -4.7
    assert (names["numbers"][0], names["numbers"][-1]) == (3, 5)
    assert names["posterior"].contribution["weights"].sum() == pytest.approx(13_000)


def when_it_fails(reader):
    names = reader.names
    assert np.argmin(names["foreign_scores"](names["posteriors"])) == 4
    fits = names["fits"]
    assert fits[3] < fits[4] < fits[5] - 1.0
    assert fits["auto"] == pytest.approx(fits[5], abs=0.01)
    assert len(names["used"]) == 5
    score = names["score"]
    assert score["merged"] < score["all"] - 0.5
    assert score["refined"] == pytest.approx(score["all"], abs=0.05)
    np.testing.assert_allclose(
        names["once"].parameters("mean")["variance"], 2 * names["twice"].parameters("mean")["variance"], 1e-3
    )


def intervals(reader):
    """Calibration widens what overlaps, sites that were shifted differ, and those that were not do not."""
    names = reader.names
    wider = names["calibrated"].deviation("components") / names["refined"].merged.deviation("components")
    assert (wider > 1.2).all()
    assert names["wider"].uncertainty == "calibrated by bootstrap, 15 replicas, 4 sites"
    # Offsets with a deviation of 0.4.
    assert (
        (names["differences"].between["components"]["value"] > 0.1) & (names["differences"].ratio[:, None] > 1.5)
    ).all()


def your_own_model(reader):
    scores = reader.names["scores"]
    assert scores["merged"] > scores["naive"] + 0.1
    assert scores["merged"] == pytest.approx(scores["all data at once"], abs=0.01)
    # Rates of 4, 40 and 100 from hundreds of counts, and one more shop that had 44 in the middle.
    np.testing.assert_allclose(np.sort(reader.names["merged"].mean("rates")[:, 0]), [4.0, 40.0, 100.0], rtol=0.1)
    tastes = reader.names["together"].mean("tastes").reshape(3, 3, 2).sum(axis=2)
    assert sorted(tastes.argmax(axis=1)) == [0, 1, 2]
    assert tastes.max(axis=1).min() > 0.95
    # State k goes to state k + 1, whatever its slot.
    slots = np.argsort(reader.names["transitions"].mean("emission").argmax(axis=1))
    moves = reader.names["transitions"].mean("transition")[np.ix_(slots, slots)]
    np.testing.assert_allclose(moves, np.roll(np.eye(3), 1, axis=1), atol=0.05)


def other_libraries(reader):
    # Words of fruit and of tools are in different topics, whatever words a site has counted and in which order.
    shares = db.merge(reader.names["on_shared_words"]).mean("topics")
    fruit = [word in ("apple", "pear", "plum") for word in reader.names["shared"]]
    np.testing.assert_allclose(np.sort(shares[:, fruit].sum(axis=1)), [0.0, 1.0], atol=0.05)


def estimators(reader):
    names = reader.names
    assert names["search"].best_params_ == {"gaussianmixture__n_components": 3}
    assert list(names["growing"].posteriors_) == ["Bern", "Genf"]
    assert names["both"].score(names["X"]) > names["there"].score(names["X"])
    assert sorted(names["topics"].transform(["pear plum pear", "saw hammer"]).argmax(axis=1)) == [0, 1]
    assert names["chosen"] == [1, 6]


def pictures(reader):
    """The page says that its own code has drawn what is on it."""
    page = (ROOT / "docs" / "plot.md").read_text(encoding="utf-8")
    shown = set(re.findall(r"\]\(pictures/plot/(.*?)\)", page))
    assert shown == {path.name for path in Path().glob("*.png")} == {path.name for path in PICTURES.glob("*.png")}
    called = set(re.findall(r"db\.plot\.(\w+)\(", page))
    assert called == set(reader.names["db"].plot.__all__)


# What a page says in words, beyond that it runs.
def privacy(reader):
    (shown,) = [text for text in reader.printed if "No rule is broken" in text]
    claimed = (ROOT / "docs" / "privacy.md").read_text(encoding="utf-8")
    for line in ("smallest class", "smallest cell", "who is in it", "the file holds"):
        said = re.search(rf"^ +{line} +(.*)$", shown, re.MULTILINE)[1]
        assert re.search(rf"^ +{line} +{re.escape(said)}$", claimed, re.MULTILINE), line
    assert "porphyria" not in Path("north.posterior").read_bytes().decode(errors="replace")


def secure_sums(reader):
    model, new = reader.names["model"], reader.names["new"]
    scores = [model.score(reader.names[name], new) for name in ("merged", "together")]
    assert scores[0] == pytest.approx(scores[1], abs=0.01)


def private_releases(reader):
    claimed = (ROOT / "docs" / "private-releases.md").read_text(encoding="utf-8")
    assert " ".join(reader.printed[0].split()) in " ".join(claimed.split())
    anchor = reader.names["anchor"]
    assert anchor.round == anchor.rounds == 5
    age = reader.names["model"].coefficients(anchor.posterior)[1]
    assert abs(age["mean"] - 0.04) < 5 * age["deviation"]  # drawn by the operating system: no seed


def class_membership(reader):
    """Effects are those that made the rows, and a column without a say is known as such."""
    names = reader.names
    assert names["separation"]["column"].iloc[-1] == "day"
    assert names["separation"]["gain"].iloc[-1] < 0 < names["separation"]["gain"].iloc[-2]
    rows = names["model"].coefficients(names["merged"])
    ages = [abs(row["mean"]) for row in rows if row["term"].endswith("age")]
    assert max(ages) == pytest.approx(0.14, abs=0.04)  # the two classes that are furthest apart


def claims_of_survival(reader):
    names = reader.names
    assert names["model"].cuts == (340.0, 620.0, 860.0, 1200.0)  # which the page quotes
    assert names["apart"](names["refined"]) < 0.2
    assert names["apart"](names["merged"]) < 0.8


def tutorial(reader):
    """One broadcast is close to one fit of all rows, two rounds are practically there."""
    together = reader.names["together"]
    middle, deviation = together.mean("coefficients"), together.deviation("coefficients")
    apart = {
        name: np.abs((db.load(f"{name}.posterior").mean("coefficients") - middle) / deviation).max()
        for name in ("merged", "refined")
    }
    assert apart["merged"] < 0.5
    assert apart["refined"] < 0.02


def topic_effects(reader):
    """What the letters were made with is found: more about the harbour, less chess in the Times."""
    rows, terms = reader.names["joint"].rows(reader.names["merged"]), {}
    for row in rows:
        for theme, words in reader.names["themes"].items():
            if set(row["name"].replace(",", "").split()) <= set(words.split()):
                terms[row["term"], theme] = row
    assert terms["day", "harbour"]["low"] > 1.0
    assert terms["paper=Times", "chess"]["high"] < 1.0


def topic_days(reader):
    """As many commands as the page says; the late office's words and the name are in the last merge."""
    page = (ROOT / "docs" / "topic-days.md").read_text(encoding="utf-8")
    made = [int(number) for number in re.findall(r"\| (\d+) \|$", page, re.MULTILINE)]
    assert made == counted_commands(page)
    merged = db.load("merged.posterior")
    assert {"verdict", "anchor"} <= set(merged.structure.labels["topics"])
    assert "Chess" in merged.names


CLAIMS = {
    "topic-days.md": topic_days,
    "topic-effects.md": topic_effects,
    "tutorial.md": tutorial,
    "class-membership.md": class_membership,
    "survival.md": claims_of_survival,
    "private-releases.md": private_releases,
    "privacy.md": privacy,
    "index.md": quickstart,
    "intervals.md": intervals,
    "regression.md": regression,
    "secure-sums.md": secure_sums,
    "sites-that-differ.md": sites_that_differ,
    "sequences.md": sequences,
    "tables.md": tables,
    "texts.md": texts,
    "topic-models.md": topic_models,
    "topic-priors.md": topic_priors,
    "topic-work.md": texts,
    "network.md": network,
    "network-links.md": links,
    "other-libraries.md": other_libraries,
    "scikit-learn.md": estimators,
    "rounds-by-files.md": rounds_by_files,
    "streaming.md": streaming,
    "secure-network.md": secure_network,
    "study.md": study,
    "studies.md": studies,
    "plot.md": pictures,
    "unknown-components.md": unknown_components,
    "wearables.md": wearables,
    "when-it-fails.md": when_it_fails,
    "your-own-model.md": your_own_model,
}


# Agents on a page have links like those of other tests that open sockets, and wait for the processor like them.
# JAX takes many seconds to be loaded and to compile, in one process for all who need it.
GROUPS = {
    "network.md": [pytest.mark.xdist_group("sockets")],
    "page.md": [pytest.mark.xdist_group("sockets")],
    "secure-network.md": [pytest.mark.xdist_group("sockets")],
    "wearables.md": [pytest.mark.xdist_group("sockets"), pytest.mark.slow],
    "other-libraries.md": [pytest.mark.xdist_group("jax"), pytest.mark.slow],
    "unknown-components.md": [pytest.mark.slow],
    "large.md": [pytest.mark.slow],
    "plot.md": [pytest.mark.slow],
    "topic-days.md": [pytest.mark.slow],
    "studies.md": [pytest.mark.slow],
    "checking.md": [pytest.mark.slow],
    "class-membership.md": [pytest.mark.slow],
    "intervals.md": [pytest.mark.slow],
    "matches.md": [pytest.mark.slow],
    "streaming.md": [pytest.mark.slow],
    "study.md": [pytest.mark.slow],
    "outcomes.md": [pytest.mark.slow],
    "scikit-learn.md": [pytest.mark.slow],
    "topic-models.md": [pytest.mark.slow],
    "sites-that-differ.md": [pytest.mark.slow],
    # The data of this page, and what it is compared with.
    "survival.md": [pytest.mark.skipif(importlib.util.find_spec("lifelines") is None, reason="lifelines is missing")],
}


@pytest.mark.parametrize("name", [pytest.param(name_of(page), marks=GROUPS.get(name_of(page), ())) for page in PAGES])
def test_a_page_runs_and_does_what_it_says(name, follow):
    reader = follow(name)
    assert not reader.unlike, "\n".join(["The page shows what was not printed:", *reader.unlike])
    if name in CLAIMS:
        CLAIMS[name](reader)


def test_the_reference_of_agents_names_every_event_of_the_log():
    page = (ROOT / "docs" / "network-reference.md").read_text(encoding="utf-8")
    sources = [
        *(ROOT / "src" / "decbayes" / "network").rglob("*.py"),
        ROOT / "src" / "decbayes" / "cli/commands/network/agent.py",
    ]
    code = "\n".join(path.read_text(encoding="utf-8") for path in sources)
    events = set(re.findall(r'(?:Report|log|self)\(\s*"(\w+)"', code)) | set(re.findall(r'self\.log, "(\w+)"', code))
    assert {"published", "store_damaged", "not_refined", "refused_again"} <= events
    assert not {event for event in events if f"`{event}`" not in page}


def test_links_between_pages_lead_somewhere():
    """`zensical build --strict` checks the site; this checks the same files as they are read in the repository."""
    for page in PAGES:
        for target in re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text(encoding="utf-8")):
            source = page.parent / re.sub(r"(notebooks/\w+)\.md$", r"\1.py", target)
            assert source.parent.name == "commands" or source.exists(), f"{page.name} links to {target}"


def test_the_packages_own_description_needs_no_file_beside_it():
    assert not re.findall(r"\]\((?!https:)", (ROOT / "PACKAGE.md").read_text(encoding="utf-8"))
