"""The map of topics in a report: links and buttons only, nothing of topics that may not be shown."""

import re
from itertools import combinations

import numpy as np
import pytest

import decbayes as db
from decbayes.models.topics.quality import Quality
from decbayes.reporting.topic_map import drawing, move_apart, one_word_each, places_of

WORDS = [f"w{n}" for n in range(30)]


@pytest.fixture
def sites(rng):
    model = db.LatentDirichletAllocation(3, WORDS, topic_prior=0.1)
    shares = 0.9 * np.kron(np.eye(3), np.full((1, 10), 0.1)) + 0.1 / 30
    shares[:, 0] += 0.3  # all topics use one word
    shares /= shares.sum(axis=1, keepdims=True)
    return [
        model.fit(rng.multinomial(40, rng.dirichlet(np.full(3, 0.3), size=40) @ shares), rng=rng).posterior
        for _ in range(2)
    ]


def test_every_topic_has_a_place_a_panel_and_three_orders_of_words(sites, tmp_path):
    db.report(db.align(sites), tmp_path / "r.html", names=["north", "south"])
    text = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert "<script" not in text
    merged = db.merge(sites)
    for topic, name in enumerate(Quality(merged).names):
        assert f'href="#topic-{topic}"' in text
        panel = re.search(rf'<div class="panel" id="topic-{topic}">(.*?)</div>', text, re.DOTALL)[1]
        assert name in panel
        assert "north" in panel
        lists = [re.findall(r"<li><span>(.*?)</span>", part) for part in panel.split("<ol")[1:]]
        probability = np.argsort(-merged.mean("topics")[topic], kind="stable")[:12]
        assert lists[0] == [WORDS[place] for place in probability]
        assert lists[1] == [WORDS[place] for place in merged.leading("topics", 12)[topic]]
        assert lists[2].index("w0") > lists[0].index("w0") if "w0" in lists[2] else True


def test_like_topics_are_near_each_other():
    model = db.LatentDirichletAllocation(4, WORDS)
    counts = np.zeros((4, 30))
    counts[0, :10], counts[1, 1:11], counts[2, 10:20], counts[3, 20:] = 50, 50, 50, 50
    places = places_of(Quality(db.Posterior(model.structure, {"topics": counts})), range(4))
    apart = np.linalg.norm(places[:, None] - places, axis=2)
    assert apart[0, 1] < 0.5 * min(apart[0, 2], apart[0, 3], apart[2, 3])


def test_circles_make_room_for_each_others_names_and_stay_on_the_map(rng):
    radii = np.array([46.0, 40.0, 40.0, 20.0, 7.0, 7.0])
    centres = np.array([[60.0, 60.0], [60.0, 60.0], [70.0, 60.0], [65.0, 60.0], [400.0, 300.0], [400.0, 300.0]])
    moved = move_apart(centres, radii, np.full(len(radii), 20.0))
    far = np.linalg.norm(moved[:, None] - moved, axis=2) + np.eye(6) * 1e9
    assert (far >= 0.75 * (radii[:, None] + radii)).all()
    assert (moved >= radii[:, None]).all()
    alone = move_apart(np.array([[100.0, 100.0], [300.0, 300.0]]), np.array([40.0, 40.0]), np.full(2, 20.0))
    np.testing.assert_allclose(alone, [[100.0, 100.0], [300.0, 300.0]], atol=0.1)


def test_no_two_topics_are_marked_with_the_same_word():
    names = ["game, team, player", "game, hockey, pit", "team, game, car", "", "game, team, hockey"]
    assert one_word_each(names) == ["game", "hockey", "team", "", "game"]


def test_long_names_do_not_cover_each_other():
    centres = np.array([[60.0, 60.0], [95.0, 62.0], [5.0, 200.0]])
    x, y = move_apart(centres, np.full(3, 20.0), np.full(3, 34.0)).T
    assert abs(x[0] - x[1]) >= 68.0 or abs(y[0] - y[1]) >= 14.5
    assert x.min() >= 34.0, "no name leaves the drawing"


def test_sixty_topics_have_room_for_their_names(rng):
    words = [f"{'word' * (n % 3)}{n}" for n in range(600)]
    shares = rng.dirichlet(np.full(600, 0.03), 60)
    posterior = db.Posterior(db.LatentDirichletAllocation(60, words).structure, {"topics": 5000 * shares})
    text = str(drawing(Quality(posterior), range(60)))
    marks = re.findall(r'class="mark" x="([\d.]+)" y="([\d.]+)">(\w+)<', text)
    assert len(marks) == 60
    for (x, y, name), (other_x, other_y, other) in combinations(marks, 2):
        beside = abs(float(x) - float(other_x)) > 0.5 * 7.5 * (len(name) + len(other)) - 1.5
        assert beside or abs(float(y) - float(other_y)) > 13.0, (name, other)
