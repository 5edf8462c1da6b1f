"""Takes the pictures of the live page into docs/pictures/page: `python docs/page_pictures.py`.

Six archives of 20 Newsgroups, each a real agent; one of them has subjects that nobody else has, and one is killed.
Needs chromium, and the data where benchmarks look for it.
"""

import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from scipy.sparse import save_npz

ROOT = Path(__file__).parents[1]
sys.path += [str(ROOT / "tests"), str(ROOT / "benchmarks")]

from _workloads import news  # noqa: E402
from browser import Browser, Tab  # noqa: E402
from small import shrink  # noqa: E402

from decbayes.network import Charter, Identity, Limits  # noqa: E402
from decbayes.network.runtime.spawn import Party  # noqa: E402

FOLDER = Path(__file__).parent / "pictures" / "page"
WORDS, TOPICS, DOCUMENTS = 2500, 9, 400
MOST_TIMES = 60  # a word that is more often in one document is no word but a line of code
# Newsgroups by number: computing 1 to 5, cars and motorcycles 7 and 8, sport 9 and 10, medicine 13, space 14,
# religion 15 and 19, politics 16 to 18.
ARCHIVES = {
    "amsterdam": [1, 2, 9, 14],
    "berlin": [2, 3, 10, 14],
    "cairo": [7, 8, 14, 17],
    "delhi": [9, 10, 15, 17],
    "edinburgh": [1, 3, 15, 17],
    "florence": [2, 9, 13, 13],
}


def prepare(folder: Path) -> Party:
    """Every archive's documents in a file, counted in the same words; some are held back at the first."""
    counts, vocabulary, labels, held_out = news()
    spread = np.asarray((counts > 0).sum(axis=0)).ravel() * (counts.max(axis=0).toarray().ravel() < MOST_TIMES)
    keep = np.sort(np.argsort(-spread)[60 : 60 + WORDS])
    counts, words, rng = counts[:, keep], tuple(vocabulary[word] for word in keep), np.random.default_rng(1)
    for name, groups in ARCHIVES.items():
        rows = [rng.choice(np.flatnonzero((labels == group) & ~held_out), DOCUMENTS // 4) for group in groups]
        save_npz(folder / f"{name}.npz", counts[np.concatenate(rows)])
    told = np.isin(labels, ARCHIVES["amsterdam"]) & held_out
    save_npz(folder / "held.npz", counts[rng.choice(np.flatnonzero(told), 60)])
    identities = {name: Identity.generate() for name in ARCHIVES}
    keys = {name: identity.public for name, identity in identities.items()}
    settings = {"topics": TOPICS, "document_prior": 0.1, "topic_prior": 0.02}
    limits = Limits(members=len(ARCHIVES))
    charter = Charter("archives", "LatentDirichletAllocation", settings, keys, limits=limits, vocabulary=words)
    party = Party(folder, charter)
    party.prepare(identities)
    return party


def shoot(tab: Tab, name: str, *, width: int, height: int, scale: float = 1.0) -> None:
    tab.look(width=width, height=height, dark=name.endswith("dark"), scale=scale)
    time.sleep(1.0)
    tab.screenshot(FOLDER / f"{name}.png")
    shrink(FOLDER / f"{name}.png")


def main() -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    with (
        TemporaryDirectory() as profile,
        TemporaryDirectory() as folder,
        prepare(Path(folder)) as party,
        Browser(Path(profile)) as browser,
    ):
        first, *others = ARCHIVES
        data = {name: ("--data", str(party.folder / f"{name}.npz")) for name in ARCHIVES}
        shown = party.start(first, *data[first], "--page", "--held", str(party.folder / "held.npz"))
        endpoint = shown.endpoint()
        tab = browser.page(shown.events("listening")[-1]["page"], width=1600, height=1000)
        for number, name in enumerate(others):
            party.start(name, *data[name], "--connect", endpoint)
            tab.until(f"document.querySelector('#posterior-summary').innerText.includes('{number + 2} sites')", 90)
        party.agents[others[2]].kill()
        tab.until(f"document.querySelector('#nodes [data-key=\"{others[2]}\"]').classList.contains('gone')")
        time.sleep(8)  # what stands out is said once all is quiet
        shoot(tab, "wide-light", width=1600, height=900)
        shoot(tab, "narrow-light", width=400, height=1000, scale=1.5)
        tab.look(width=1600, height=1120)
        tab.run("document.querySelectorAll('.card')[1].click()")
        tab.until("document.querySelectorAll('#detail-sites .words').length > 0")
        shoot(tab, "detail-dark", width=1600, height=1120)


if __name__ == "__main__":
    main()
