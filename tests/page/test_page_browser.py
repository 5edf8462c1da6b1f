"""The page in a real browser, above agents in this process and above made-up groups."""

import json
import time
from pathlib import Path

import numpy as np
import pytest
from browser import CHROMIUM, HOW_TO, Browser
from groups import identities

import decbayes as db
from decbayes.network import Charter, Limits, SumRules
from decbayes.network.runtime.reports.description import about_members, neighbour_of, status_of
from decbayes.network.runtime.reports.watching import Watcher
from decbayes.network.simulation.simulator import Simulation
from decbayes.page import Page, PageAddress
from decbayes.page.replaying import LAST, last_state

pytestmark = [
    pytest.mark.xdist_group("processes"),
    pytest.mark.timeout(180),
    pytest.mark.skipif(CHROMIUM is None, reason=HOW_TO),
]

CENTRES = np.array([[0.0, 0.0], [4.0, 0.0], [0.0, 4.0]])
SITES = [f"site_{number}" for number in range(3)]


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with Browser(tmp_path_factory.mktemp("browser")) as opened:
        yield opened


@pytest.fixture
def look(browser):
    """A function that opens a page; in the end none has complained, and nothing was asked of any other machine."""
    tabs = []

    def opened(url, **how):
        tabs.append(browser.page(url, **how))
        return tabs[-1]

    yield opened
    for tab in tabs:
        assert [text for text in tab.errors if "ERR_CONNECTION" not in text and "ERR_INCOMPLETE" not in text] == []
        assert [url for url in tab.requests if not url.startswith(("http://127.0.0.1:", "data:", "file:"))] == []
        assert tab.requests


@pytest.fixture
def page():
    served = Page(PageAddress())
    yield served
    served.close()


def points_of(site):
    """Three clusters; the last site has a further one to itself."""
    rng, centres = np.random.default_rng(SITES.index(site)), [*CENTRES, [14.0, 14.0]] if site == SITES[-1] else CENTRES
    return np.concatenate([rng.normal(centre, 1.0, size=(30, 2)) for centre in centres])


class Group:
    """Agents in this process, and what the first of them shows on a page."""

    def __init__(self, page, **rules):
        members, rng = identities(3), np.random.default_rng(0)
        settings = {"components": 4, "dimension": 2, "variance": 1.0, "prior_variance": 50.0}
        keys = {site: member.public for site, member in zip(SITES, members, strict=True)}
        charter = Charter("clusters", "GaussianMixture", settings, keys, limits=Limits(members=3), **rules)
        self.simulation = Simulation(charter, members, rng=rng)
        self.simulation.connect({(0, 1), (0, 2)})
        self.watcher, self.running = Watcher(page), {}

    def join(self, site):
        self.running[site] = self.simulation.sites[SITES.index(site)]
        self.running[site].shards["points"] = points_of(site)
        self.simulation.start(self.running[site])
        self.show()

    def refine(self, site):
        agent = self.running[site].agent
        self.simulation.perform(self.running[site], agent.refine(rng=np.random.default_rng(1)))
        self.show()

    def leave(self, site):
        self.simulation.stop(self.running.pop(site))
        self.show()

    def show(self):
        for _ in range(6):
            self.simulation.round()
        first = self.simulation.sites[0].agent
        near = [neighbour_of(first, peer, "") | {"member": SITES[int(peer)]} for peer in first.peers]
        self.watcher.look(first, status_of(first, str) | about_members(first.pool, None) | {"neighbours": near})
        self.watcher.merge(first)


def kind(site):
    """What a member is drawn as."""
    return f"document.querySelector('#nodes [data-key=\"{site}\"]')?.getAttribute('class')"


def heard(site):
    return f"{kind(site)} === 'node up'"


def card_texts(tab):
    return tab.run("[...document.querySelectorAll('.card')].map(card => card.innerText)")


def test_a_page_follows_its_agent(page, look):
    group, tab = Group(page), look(page.url)
    group.simulation.start(group.simulation.sites[0])
    group.show()
    tab.until(f"{kind(SITES[0])}?.includes('self')")
    assert tab.run(kind(SITES[1])) == "node unheard"
    tab.until("document.body.textContent.includes('No site has published')")

    group.join(SITES[0])
    group.join(SITES[1])
    tab.until(heard(SITES[1]))
    tab.until("document.querySelectorAll('.card').length === 3")
    group.join(SITES[2])
    tab.until(heard(SITES[2]))
    tab.until("document.querySelectorAll('.card').length === 4")
    alone = [text for text in card_texts(tab) if f"only {SITES[2]}" in text]
    assert len(alone) == 1
    assert tab.run("document.querySelectorAll('#matrix .private').length") == 1
    tab.until(f"document.querySelector('#events').innerText.includes('{SITES[2]} is linked')")

    # It refines what it has published, and the picture changes.
    version = f"document.querySelector('#members [data-key=\"{SITES[2]}\"]').cells[2].textContent"
    picture = "[...document.querySelectorAll('#overview path')].map(path => path.getAttribute('d')).join()"
    before, first = tab.run(picture), tab.run(version)
    group.refine(SITES[2])
    tab.until(f"{version} !== {json.dumps(first)}")
    tab.until(f"{picture} !== {json.dumps(before)}")
    assert len(card_texts(tab)) == 4

    # What each site contributed is fetched by a click.
    tab.run(f"[...document.querySelectorAll('.card')].find(c => c.innerText.includes('only {SITES[2]}')).click()")
    tab.until("document.querySelector('#detail[open] #detail-sites li b')?.textContent === 'site_2'")
    tab.press("Escape")

    group.leave(SITES[1])
    tab.until(f"{kind(SITES[1])} === 'node gone'")
    grey = "getComputedStyle(document.querySelector('#nodes [data-key=\"site_1\"] .body')).fill"
    assert tab.run(grey) != tab.run(grey.replace("site_1", "site_2"))
    assert len(card_texts(tab)) == 4, "contributions of sites that have left still count"

    page.close()
    tab.until("document.querySelector('#connection').dataset.state === 'lost'")


def test_a_page_of_secure_sums_draws_each_opened_sum_and_no_site(page, look):
    public = np.random.default_rng(9).normal([*CENTRES] * 10, 1.0)
    model = db.GaussianMixture(4, 2, variance=1.0, prior_variance=50.0)
    group = Group(page, sums=SumRules(rounds=1), anchor=model.fit(public, rng=0).posterior)
    tab = look(page.url)
    for site in SITES:
        group.join(site)
    tab.until("document.querySelector('#network-summary').innerText.includes('3 up, only sums are opened.')")
    tab.until("document.querySelector('#posterior-summary').innerText.startsWith('No site has published')")
    assert card_texts(tab) == []
    for _ in range(4):
        for running in group.running.values():
            group.simulation.perform(running, running.agent.add_up())
        group.show()
    tab.until("document.querySelectorAll('.card').length === 4")
    said = "clusters from 300 observations, from earlier data or from sums over all members. No contribution"
    assert said in tab.run("document.querySelector('#posterior-summary').innerText")
    assert "nothing to align" in tab.run("document.querySelector('#alignment-summary').innerText")
    assert "the only round is open" in tab.run("document.querySelector('#sums').innerText")
    assert not any("site" in text for text in card_texts(tab))
    tab.run("document.querySelector('.card').click()")
    tab.until("document.querySelector('#detail[open] #detail-summary').innerText.includes('of all evidence')")
    assert "What each site" not in tab.run("document.querySelector('#detail').innerText")


def made_up(members, *, gone=()):
    """What an agent could say of a group of so many."""
    told = {"state": "counted", "version": 3, "observations": 120, "share": 1 / members, "flags": []}
    names = [f"hospital-{number}" for number in range(members)]
    links = {name: "self" if not number else "gone" if name in gone else "up" for number, name in enumerate(names)}
    return {
        "group": "hospitals",
        "model": "LatentDirichletAllocation",
        "viewpoint": names[0],
        "members": [{"name": name, "link": links[name], "seconds_ago": 0.2, **told} for name in names],
        "links": [[names[0], name] for name in names[1:] if name not in gone],
        "problems": [f"{names[1]} disagrees with the others in 23% of its evidence"],
    }


def topics(count, sites):
    words = [[[f"word{topic}-{place}", 0.2 / (place + 1)] for place in range(8)] for topic in range(count)]
    cell = {"evidence": 50.0, "apart": 0.1, "components": [0]}
    cells = [{"site": site, "match": 2.0 + site, **cell} for site in range(sites)]
    return {
        "view": "words", "noun": "topic", "unit": "word", "set": "a",
        "observations": 120 * sites, "objective": -1200.0, "score": -6.1,
        "sites": [f"hospital-{site}" for site in range(sites)], "duplicates": [], "unlike": [],
        "components": [
            {"slot": k, "evidence": 50.0 * sites, "share": 1 / count, "drawing": {"kind": "words", "words": words[k]},
             "cells": cells[: 1 if k == 0 else sites]}
            for k in range(count)
        ],
    }  # fmt: skip


def test_marks_on_a_card_are_in_the_order_of_the_matrix(page, look):
    page.show("network", made_up(4))
    posterior = topics(2, 4)
    page.show("posterior", posterior | {"sites": posterior["sites"][::-1]})
    tab = look(page.url)
    tab.until("document.querySelectorAll('#matrix tbody tr').length === 4")
    marks = tab.run("[...document.querySelectorAll('.card .support')].map(s => [...s.children].map(i => i.className))")
    assert marks[0] == ["", "", "", "has"], "only the first site has it, whose name is the last"
    rows = tab.run("[...document.querySelectorAll('#matrix tbody tr')].map(r => r.cells[1].textContent !== '·')")
    assert rows == [mark == "has" for mark in marks[0]]


def test_a_thousand_events_a_second_do_not_freeze_it(page, look):
    page.show("network", made_up(8))
    page.show("posterior", topics(6, 8))
    tab = look(page.url)
    tab.until("document.querySelectorAll('.card').length === 6")
    tab.run("window.frames_drawn = 0; (function frame() { frames_drawn++; requestAnimationFrame(frame); })()")
    begin, sent = time.monotonic(), 0
    while time.monotonic() < begin + 2.0:
        for _ in range(50):
            sent += 1
            member = f"hospital-{sent % 8}"
            page.tell({"event": "accepted", "member": member, "through": member, "text": f"event {sent} of {member}"})
        page.show("network", made_up(8))
        time.sleep(max(0.0, begin + sent / 1000 - time.monotonic()))
    page.tell({"event": "last", "text": "the very last"})
    tab.until("document.querySelector('#events').firstElementChild.innerText.includes('the very last')")
    assert tab.run("frames_drawn") > 20, "it went on drawing"
    assert tab.run("document.querySelectorAll('#events li').length") <= 100, "and keeps what can be read"
    tab.run("document.querySelector('.card').click()")
    assert tab.run("document.querySelector('#detail').open"), "and listens"


def test_fifty_members_can_be_read(page, look):
    page.show("network", made_up(50, gone=["hospital-7"]) | {"intervals": "calibrated by linear response, 49 sites"})
    page.show("posterior", topics(12, 50))
    tab = look(page.url, width=1600, height=1000)
    tab.until("document.querySelector('#network-summary').innerText.endsWith('linear response, 49 sites.')")
    tab.until("document.querySelectorAll('#nodes .node').length === 50")
    tab.until("document.querySelectorAll('#matrix tbody tr').length === 50")
    # Names are as far apart as they are high, none leaves the picture, and they are not tiny.
    measured = tab.run("""(() => {
        const box = document.querySelector('#graph').getBoundingClientRect();
        const names = [...document.querySelectorAll('#nodes .name')];
        const inside = names.every(n => { const r = n.getBoundingClientRect(); return r.left >= box.left - 1 && r.right <= box.right + 1 && r.top >= box.top - 1 && r.bottom <= box.bottom + 1; });
        const scale = document.querySelector('#graph').getScreenCTM().a;
        const size = parseFloat(getComputedStyle(names[0]).fontSize) * scale;
        const at = [...document.querySelectorAll('#nodes .node:not(.self)')].map(n => { const m = n.getScreenCTM(); return [m.e, m.f]; });
        const apart = Math.min(...at.map(([x, y], k) => Math.hypot(x - at[(k + 1) % at.length][0], y - at[(k + 1) % at.length][1])));
        return {inside, size, apart};
    })()""")  # noqa: E501
    assert measured["inside"]
    assert measured["size"] >= 9
    assert measured["apart"] >= measured["size"]
    tab.look(width=400, height=800)
    assert tab.run("document.documentElement.scrollWidth") <= 400, "nothing is cut off on a telephone"


def test_a_page_that_has_ended_says_so_and_stays_readable(look):
    page = Page(PageAddress())
    page.show("network", made_up(4))
    page.show("posterior", topics(3, 4))
    tab = look(page.url)
    tab.until("document.querySelectorAll('.card').length === 3")
    page.end("Finished: all sites agree.")
    finished = "document.querySelector('#connection').dataset.state === 'finished' && !document.querySelector('.stale')"
    tab.until(finished)
    page.close()
    tab.until(f"document.querySelector('#save').hidden && {finished}")
    assert tab.run("document.querySelector('#notice').innerText") == "Finished: all sites agree."


def test_a_saved_page_is_one_file_that_shows_the_same_without_anything_else(tmp_path, look):
    recording, page = tmp_path / "group.page", Page(PageAddress(), tmp_path / "group.page")
    page.show("network", made_up(4) | {"group": "</script><b>x"})
    page.show("posterior", topics(3, 4))
    page.show("details", {"1": [{"site": 0, "drawing": {"kind": "words", "words": [["pear", 0.5], ["plum", 0.2]]}}]})
    page.tell({"event": "joined", "member": "hospital-1", "text": "hospital-1 is linked"})
    page.close()
    file = tmp_path / "saved.html"
    file.write_text(last_state(recording), encoding="utf-8")
    tab = look(file.as_uri(), width=400, height=800)
    tab.until("document.querySelectorAll('.card').length === 3")
    assert tab.run("document.querySelector('#group').innerText") == "</script><b>x"
    assert tab.run("document.querySelector('#notice').innerText") == LAST
    assert tab.run("document.querySelector('#events').innerText.includes('hospital-1 is linked')")
    strip = "document.querySelector('#cards')"
    assert tab.run(f"{strip}.scrollWidth > {strip}.clientWidth && {strip}.clientHeight < 400"), "on a phone, a strip"
    tab.run("document.querySelectorAll('.card')[1].click()")
    tab.until("document.querySelector('#detail-sites').innerText.includes('pear')")
    assert [url for url in tab.requests if not url.startswith(("file:", "data:"))] == []


def test_what_waits_for_somebody_stands_at_the_top(page, look):
    pending = {"motion": "ab12", "votes": ["a"], "needed": 3, "text": "remove b"}
    network = made_up(4) | {"problems": ["its contribution waits for approval"], "decisions": {"pending": [pending]}}
    page.show("network", network)
    tab = look(page.url)
    asked = "remove b? 1 of 3 votes so far (a). decbayes tell vote STORE ab12"
    tab.until(f"document.querySelector('#attention').innerText.includes('{asked}')")
    assert tab.run("document.querySelector('#attention').innerText.includes('waits for approval')")
    above = "document.querySelector('#attention').getBoundingClientRect().bottom"
    assert tab.run(f"{above} <= document.querySelector('#views').getBoundingClientRect().top")
    page.show("network", made_up(4) | {"problems": []})
    tab.until("document.querySelector('#attention').hidden")


def test_nobody_is_kept_out(page, look):
    page.show("network", made_up(6, gone=["hospital-3"]))
    page.show("posterior", topics(4, 6))
    page.show("details", {"1": [{"site": 0, "drawing": {"kind": "words", "words": [["pear", 0.5], ["plum", 0.2]]}}]})
    for number in range(3):
        page.tell({"event": "joined", "member": f"hospital-{number}", "text": f"hospital-{number} is linked"})
    tab = look(page.url, dark=True)
    tab.until("document.querySelectorAll('.card').length === 4")
    tab.until("document.querySelectorAll('#events li').length === 3")
    axe = Path(pytest.importorskip("axe_core_python").__file__).parent / "axe.min.js"
    tab.run(axe.read_text(encoding="utf-8"))
    assert serious(tab) == []
    # By the keyboard alone: Tab reaches a topic, Enter opens it, Escape leads back to it.
    focused = "document.activeElement.innerText?.startsWith('Topic 1')"
    for _ in range(30):
        tab.press("Tab")
        if tab.run(focused):
            break
    tab.press("Enter")
    tab.until("document.querySelector('#detail[open] #detail-sites')?.innerText.includes('pear')")
    assert serious(tab) == []
    tab.press("Escape")
    tab.until(f"!document.querySelector('#detail').open && {focused}")
    tab.run("document.body.append(new Image())")
    assert serious(tab), "a picture without words would have been found"


def drawn_as(drawings, sites):
    """A posterior whose components are drawn in these ways; of sums, if there are no sites."""
    cell = {"site": 0, "evidence": 50.0, "apart": 0.1, "components": [0], "match": 2.0, "close": True}
    one = {"evidence": 50.0, "share": 0.5, "name": "", "cells": [cell] if sites else []}
    components = [one | {"slot": slot, "drawing": drawing} for slot, drawing in enumerate(drawings)]
    return topics(2, 1) | {"sites": sites, "components": components}


DRAWINGS = [
    {"kind": "image", "shape": [2, 2], "pixels": [0, 90, 180, 255]},
    {"kind": "point", "names": ["age", "dose"], "mean": [50.0, 2.0], "covariance": [[4.0, 0.1], [0.1, 1.0]]},
    {"kind": "numbers", "names": ["x0", "x1"], "mean": [1.0, 2.0]},
    {"kind": "table", "entries": [["rate", "2"]]},
    {"kind": "hidden", "text": "fewer than 5 observations: not shown"},
    {"kind": "profile", "columns": [
        {"name": "age", "mean": 50.0, "low": 48.0, "high": 52.0, "limits": [20.0, 80.0]},
        {"name": "ward", "shares": [["heart", 0.7], ["bone", 0.3]]},
    ]},
]  # fmt: skip


def test_every_kind_of_drawing_keeps_nobody_out(page, look):
    """In light and in dark, with sites and for sums; and estimates, which are one table with the ratio in front."""
    page.show("network", made_up(4) | {"sums": ["round 1 of 2"]})
    tab = look(page.url, width=390)
    axe = Path(pytest.importorskip("axe_core_python").__file__).parent / "axe.min.js"
    tab.run(axe.read_text(encoding="utf-8"))
    row = [["term", "age"], ["mean", "0.1"], ["odds ratio", "1.1 (1.0 to 1.2)"]]
    rows = topics(0, 1) | {"components": [], "rows": [row, row]}
    for number, posterior in enumerate((drawn_as(DRAWINGS, ["a"]), drawn_as(DRAWINGS, []), rows)):
        page.show("posterior", posterior | {"set": str(number), "observations": 1000 + number})
        tab.until(f"document.querySelector('#posterior-summary').innerText.includes('1,{number:03d} obs')")
        for dark in (False, True):
            tab.look(width=390, height=900, dark=dark)
            assert serious(tab) == [], (number, dark)
    heads = "[...document.querySelectorAll('.rows thead th')].map(each => each.innerText)"
    assert tab.run(heads) == ["term", "odds ratio", "mean"]
    tab.run("document.querySelector('main').classList.add('stale')")  # nothing was heard for a while
    assert serious(tab) == []


def serious(tab):
    """What axe-core finds that would keep people out."""
    found = tab.run("axe.run().then(r => r.violations.map(v => [v.impact, v.id, v.nodes[0].html]))")
    return [fault for fault in found if fault[0] in ("serious", "critical")]
