"""The demonstration's parts without its processes: scores, view and picture."""

import io

import numpy as np
import pytest
from rich.console import Console

from decbayes.demo.digits import SITES, Digits, Story
from decbayes.demo.events import Events
from decbayes.demo.picture import draw, group_close
from decbayes.demo.terminal_view import live_table, plain_lines
from decbayes.merging import merge

pytest.importorskip("sklearn")


@pytest.fixture(scope="module")
def story():
    """A story as the real agents would tell it: everybody joins, and all agree."""
    digits = Digits.load(0)
    story = Story(digits)
    for number, site in enumerate(SITES):
        story.alone[site] = digits.model.fit(digits.shards[site], rng=np.random.default_rng(number)).posterior
        story.add_score(site, story.alone[site])
    story.agreed = merge(list(story.alone.values()))
    story.add_event("site-4 is killed", mark="site-4 killed")
    story.add_event("all agree")
    return story


def test_each_site_has_its_own_images_and_the_rest_is_held_out():
    digits = Digits.load(3)
    assert [len(shard) for shard in digits.shards.values()] == [100] * 8
    assert len(digits.held_out) == len(digits.labels) - 800
    seen = {image.tobytes() for shard in digits.shards.values() for image in shard}
    assert len(seen) > 790
    assert not np.array_equal(Digits.load(4).held_out, digits.held_out)


def test_merging_beats_every_site_and_the_naive_merge_and_comes_close_to_batch(story, tmp_path):
    scores = draw(story, tmp_path / "folder" / "digits.png")
    assert list(scores) == ["best site alone", "naive merge", "AMPS", "AMPS, refined", "all data in one place"]
    assert scores["naive merge"] < scores["best site alone"] < scores["AMPS"] < scores["all data in one place"] + 0.5
    assert scores["all data in one place"] - scores["AMPS"] < 1.0
    assert (tmp_path / "folder" / "digits.png").read_bytes().startswith(b"\x89PNG")


def test_the_view_names_every_site_and_says_who_has_heard_of_whom(story):
    events = Events(party=None, story=story)
    for number, watched in enumerate(events.watched.values()):
        watched.heard, watched.score, watched.state = frozenset(SITES[: number + 1]), -170.0 + number / 8, "up"
    console = Console(file=io.StringIO(), width=100, force_terminal=False)
    console.print(live_table(events))
    text = console.file.getvalue()
    assert all(site in text for site in SITES)
    assert text.count("●") == sum(range(1, 9))
    assert "site-4 is killed" in text


def test_without_a_terminal_each_event_is_one_line(story):
    events = Events(party=None, story=story)
    console = Console(file=io.StringIO(), width=100)
    show = plain_lines(events, console)
    show()
    show()
    lines = console.file.getvalue().splitlines()
    assert [line.split("s  ", 1)[1] for line in lines] == ["site-4 is killed", "all agree"]


def test_marks_that_would_overlap_share_one():
    assert group_close([1.0, 1.5, 9.0], 1.0) == [([1, 2], 1.5), ([3], 9.0)]
