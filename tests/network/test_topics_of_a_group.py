"""Topics of a group over time: names that people gave stay, also under a new charter with more words."""

from types import SimpleNamespace

import numpy as np
from groups import identities
from scipy.sparse import csr_array

import decbayes as db
from decbayes.cli.commands.network import posterior as command
from decbayes.cli.commands.network.posterior import with_earlier_ids
from decbayes.merging.base.lineage import with_ids
from decbayes.network import Charter, Limits
from decbayes.network.runtime import store
from decbayes.network.simulation.simulator import Simulation
from decbayes.network.simulation.topology import clique

MEMBERS = identities(3)
THEMES = {"sea": "anchor mast tide", "chess": "pawn rook clock", "health": "ward nurse mask"}


def words_of(themes):
    return tuple(word for theme in themes for word in THEMES[theme].split())


def letters(rng, words, themes, count=40):
    """Word counts of letters about one theme each."""
    shares = [
        [0.32 if word in THEMES[theme].split() else 0.01 for word in words] for theme in rng.choice(themes, count)
    ]
    return csr_array([rng.multinomial(20, np.array(share) / sum(share)) for share in shares])


def agents(rng, words, topics, members):
    charter = Charter(
        group="letters",
        model_name="LatentDirichletAllocation",
        settings={"topics": topics},
        vocabulary=words,
        members={f"agent {index}": member.public for index, member in enumerate(members)},
        limits=Limits(members=8),
    )
    simulation = Simulation(charter, members, rng=rng)
    simulation.links = clique(len(members), rng)
    for site in simulation.sites:
        simulation.start(site)
    return simulation


def observe(simulation, shards):
    for site, (name, counts) in zip(simulation.sites, shards, strict=True):
        simulation.observe(site, name, counts)
    simulation.round()
    simulation.round()
    return simulation.sites[0].agent.posterior()


def about(posterior, word):
    place = posterior.structure.labels["topics"].index(word)
    return int(posterior.mean("topics")[:, place].argmax())


def test_names_stay_with_topics_while_agents_go_on_and_when_words_are_added(rng):
    words = words_of(["sea", "chess"])
    group = agents(rng, words, 2, MEMBERS[:2])
    first = observe(group, [(f"may {site}", letters(rng, words, ["sea", "chess"])) for site in range(2)])
    named = db.merging.name(with_ids(first), {about(first, "rook"): "Games"})
    second = with_earlier_ids(
        named, observe(group, [(f"june {site}", letters(rng, words, ["sea", "chess"])) for site in range(2)])
    )
    assert second.names[about(second, "rook")] == "Games"
    assert second.ids[about(second, "rook")] == named.ids[about(named, "rook")]
    # A third site writes about something else: a new charter lists its words, too.
    more = words_of(["sea", "chess", "health"])
    larger = agents(rng, more, 3, MEMBERS)
    themes = [["sea", "chess"], ["sea", "chess"], ["health", "chess"]]
    merged = observe(larger, [(f"july {site}", letters(rng, more, each)) for site, each in enumerate(themes)])
    third = with_earlier_ids(second, merged)
    assert third.structure.labels["topics"] == more
    assert third.names[about(third, "rook")] == "Games"
    assert not third.names[about(third, "nurse")]
    assert third.ids[about(third, "mast")] == second.ids[about(second, "mast")]


def test_the_command_takes_names_over_from_an_earlier_file(rng, tmp_path, monkeypatch):
    words = words_of(["sea", "chess"])
    group = agents(rng, words, 2, MEMBERS[:2])
    first = observe(group, [(f"may {site}", letters(rng, words, ["sea", "chess"])) for site in range(2)])
    db.save(db.merging.name(with_ids(first), {about(first, "rook"): "Games"}), tmp_path / "may.posterior")
    later = observe(group, [(f"june {site}", letters(rng, words, ["sea", "chess"])) for site in range(2)])
    description = {"observations": 80, "counted": ["agent 0"], "set": "x"}
    answer = SimpleNamespace(posterior=later, description=description)
    monkeypatch.setattr(command, "load_charter", lambda path: group.sites[0].agent.charter)
    monkeypatch.setattr(store, "stored", lambda *where: answer)
    for since, name in ((None, ""), (tmp_path / "may.posterior", "Games")):
        made = tmp_path / f"june {name}.posterior"
        command.posterior(tmp_path / "group.toml", store=tmp_path / "a.store", output=made, since=since)
        read = db.load(made)
        assert (read.names[about(read, "rook")] if read.names else "") == name
