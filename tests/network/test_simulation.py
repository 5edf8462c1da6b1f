"""Whatever happens to the sites and links: connected agents end bit-identical, and nothing is lost or counted twice."""

import numpy as np
import pytest

from decbayes.network.simulation.guarantees import check_same_merge
from decbayes.network.simulation.schedule import (
    History,
    HistoryPlan,
    plan_for,
    run_history,
    run_varied,
    simulated_identities,
)
from decbayes.network.simulation.simulator import Simulation, Weather
from decbayes.network.simulation.studies import ONE_MEAN
from decbayes.network.simulation.topology import TOPOLOGIES, groups, sparse

HISTORIES = 1008
BLOCKS = 24


def test_every_random_history_keeps_all_guarantees_at_every_step():
    """Short ones of one block, in all topologies and weathers, every time; whole blocks with `-m slow`."""
    for seed in block_of(0):
        run_history(seed, agents=3 + seed % 6, steps=50)


@pytest.mark.slow
@pytest.mark.parametrize("block", range(BLOCKS))
def test_every_long_random_history_keeps_all_guarantees_at_every_step(block):
    """`benchmarks/network_histories.py` does the same with ten thousand, all of them long and of eight sites."""
    for seed in block_of(block):
        run_varied(seed)


def block_of(block):
    """Seeds one after another: plans take turns with the seed."""
    count = HISTORIES // BLOCKS
    return range(block * count, (block + 1) * count)


TROUBLED = (22, 29, 34, 49, 54, 63)  # histories in which everything happens that may


@pytest.mark.slow
def test_the_histories_do_what_they_are_meant_to_do():
    """A simulator in which nothing goes wrong proves nothing: every fault occurs, and every refusal."""
    refused, starts, lost, excluded, retracted, troubles = set(), 0, 0, 0, 0, 0
    for seed in TROUBLED:
        history = run_history(seed)
        for site in history.simulation.running:
            refused |= site.agent.refused.keys()
            excluded += len(site.agent.pool.proofs)
            retracted += sum(record.header.closed for record in site.agent.pool.records.values())
            starts += site.starts
        lost += history.simulation.traffic.lost
        troubles += sum(report.event == "store_failed" for _, _, report in history.simulation.reports)
    assert {"replay", "stale", "envelope", "digest", "signature", "excluded", "consistency", "pace"} <= refused
    assert min(starts / (8 * len(TROUBLED)), lost, excluded, retracted, troubles) > 1


def test_a_history_follows_from_its_seed():
    histories = [History(HistoryPlan(agents=5, steps=60), seed=3) for _ in range(2)]
    for history in histories:
        history.run()
    first, second = (history.simulation for history in histories)
    assert first.traffic.lost
    assert first.traffic == second.traffic
    assert first.sites[0].agent.posterior() == second.sites[0].agent.posterior()


@pytest.mark.parametrize("topology", sorted(TOPOLOGIES))
def test_peaceful_groups_agree_within_a_round_a_hop_and_equal_batch(topology):
    history = History(HistoryPlan(agents=8, steps=20, topology=topology, weather=Weather(), faults=False), seed=5)
    history.run()
    assert len({site.agent.posterior().digest for site in history.simulation.running}) == 1
    assert history.simulation.sites[0].agent.merged().observations > 0


def test_a_late_joiner_at_the_end_of_a_line_gets_everything_through_relays():
    history = History(HistoryPlan(agents=6, steps=0, topology="line", weather=Weather(), faults=False), seed=1)
    simulation = history.simulation
    for site in simulation.sites[:3]:
        simulation.observe(site, "own", history.rng.normal(size=4))
    simulation.round()
    simulation.stop(simulation.sites[0])
    for site in simulation.sites[3:]:
        simulation.start(site)
    assert history.agree() <= 8
    assert simulation.sites[5].agent.merged().observations == 12, "the dead site's evidence still counts"


def test_an_agent_that_is_alone_publishes_nothing_until_it_hears_somebody():
    history = History(HistoryPlan(agents=3, steps=0, topology="line", weather=Weather(), faults=False), seed=1)
    simulation, last = history.simulation, history.simulation.sites[2]
    simulation.connect(set())
    simulation.start(last)
    simulation.observe(last, "own", history.rng.normal(size=4))
    simulation.round()
    assert last.agent.waiting
    assert last.agent.version == 0
    simulation.connect({(1, 2)})
    simulation.round()
    assert last.agent.version > 0
    assert not last.agent.waiting


def test_a_full_disk_stops_publishing_and_nothing_else():
    history = History(HistoryPlan(agents=2, steps=0, topology="line", weather=Weather(), faults=False), seed=1)
    simulation = history.simulation
    one, two = simulation.sites
    simulation.observe(one, "first", history.rng.normal(size=4))
    simulation.round()
    version = one.agent.version
    one.disk.full = True
    simulation.observe(one, "second", history.rng.normal(size=4))
    simulation.observe(two, "first", history.rng.normal(size=4))
    simulation.round()
    simulation.round()
    assert one.agent.version == version
    assert "full" in one.agent.trouble
    assert one.agent.merged().observations == 8, "it still hears and merges"
    one.disk.full = False
    history.agree()
    assert one.agent.trouble is None
    assert two.agent.merged().observations == 12


def test_a_lost_disk_learns_its_own_version_from_its_peers():
    history = History(HistoryPlan(agents=2, steps=0, topology="line", weather=Weather(), faults=False), seed=1)
    simulation = history.simulation
    one, two = simulation.sites
    simulation.observe(one, "first", history.rng.normal(size=4))
    simulation.round()
    version = one.agent.version
    simulation.lose_disk(one)
    simulation.start(one)
    simulation.observe(one, "second", history.rng.normal(size=4))
    simulation.round()
    history.agree()
    assert one.agent.version > version
    assert two.agent.merged().observations == 8


def test_groups_are_the_connected_components():
    rng = np.random.default_rng(0)
    assert groups(range(5), {(0, 1), (1, 4)}) == [[0, 1, 4], [2], [3]]
    assert groups(range(30), sparse(30, rng)) == [list(range(30))]


def test_plans_take_turns():
    """Those histories that are always run have all kinds of plans that there are, in all topologies."""
    always, all_plans = [plan_for(s) for s in block_of(0)], [plan_for(s) for s in range(HISTORIES)]
    for kind in ("weather", "traitors", "heal", "decides", "looks"):
        seen, there = ({(plan.topology, getattr(plan, kind)) for plan in plans} for plans in (always, all_plans))
        assert seen == there
        assert {topology for topology, _ in there} == {*TOPOLOGIES, "changing"}
        assert len({value for _, value in there}) > 1


@pytest.mark.parametrize("count", [40, pytest.param(100, marks=pytest.mark.slow)])
def test_many_agents_agree_in_a_few_rounds(count):
    """`benchmarks/network_scale.py` does the same with a thousand."""
    rng = np.random.default_rng(0)
    keys = simulated_identities(count)
    simulation = Simulation(ONE_MEAN.charter(keys), keys, rng=rng, weather=Weather(loss=0.05))
    simulation.links = sparse(count, rng, degree=8)
    for site in simulation.sites:
        site.shards["own"] = rng.normal(size=1)
        simulation.start(site)
    rounds = 0
    while rounds < 20 and not all(len(site.agent.pool.records) == count for site in simulation.sites):
        simulation.round()
        rounds += 1
    print(f"{rounds} rounds, {simulation.traffic}")
    check_same_merge(simulation.sites[:3], simulation.sites, simulation.ledger, ONE_MEAN.check)
    assert len({site.agent.pool.root for site in simulation.sites}) == 1


def test_the_command_shows_a_history_and_ends_in_agreement(capsys):
    from decbayes.cli import main

    with pytest.raises(SystemExit) as end:
        main(["simulate", "--agents", "4", "--steps", "20", "--pause", "0", "--topology", "ring"])
    assert end.value.code == 0
    assert "Every site holds the same bits" in " ".join(capsys.readouterr().out.split())


def test_the_command_draws_the_group_in_faults_and_in_agreement(capsys, tmp_path):
    from rich.console import Console

    from decbayes.cli import main
    from decbayes.cli.commands.planning._simulation import draw, watch

    pytest.importorskip("matplotlib", reason="needs the plot extra")
    history = History(HistoryPlan(6, 30, "ring"), seed=3)
    rough, calm = watch(history, 0.0, Console(quiet=True), lambda: None)
    figure = draw((rough, calm))
    for axes, moment in zip(figure.axes[:2], (rough, calm), strict=True):
        assert axes.get_title() == moment.title
        assert len(axes.lines) == len(moment.links)
        drawn = np.ma.filled(axes.collections[0].get_array(), np.nan)
        np.testing.assert_array_equal(drawn, [moment.counted[str(site)] for site in range(6)])
    # All hold the same in the end, and no less than anybody did before.
    (most,) = set(calm.counted.values())
    assert most >= np.nanmax(list(rough.counted.values()))
    assert axes.collections[0].get_clim() == (0, most)
    with pytest.raises(SystemExit) as end:
        main(f"simulate --agents 3 --steps 5 --pause 0 --picture {tmp_path / 'a.png'}".split())
    assert (end.value.code, (tmp_path / "a.png").stat().st_size > 1000) == (0, True)
    with pytest.raises(SystemExit):
        main(f"simulate --histories 2 --picture {tmp_path / 'b.png'}".split())
    assert "leave --histories out" in capsys.readouterr().err


def test_the_command_offers_every_topology():
    from typing import get_args

    from decbayes.cli.commands.planning.simulate import Topology

    assert set(get_args(Topology)) == {*TOPOLOGIES, "changing"}


def test_the_command_checks_many_histories(capsys):
    from decbayes.cli import main

    with pytest.raises(SystemExit) as end:
        main(["simulate", "--agents", "3", "--steps", "10", "--histories", "3"])
    assert end.value.code == 0
    assert "all guarantees held" in " ".join(capsys.readouterr().out.split())


def test_a_traitors_record_that_repeats_the_prior_is_refused_once_its_seat_counts_again():
    """Its seat was removed, an epoch opened without it, and it came back: each shard counts once all the same."""
    run_varied(6474)


def test_a_site_that_has_heard_of_one_theft_need_not_have_heard_of_another():
    run_varied(10692)


def test_a_record_is_kept_while_the_rotation_that_brought_its_key_does_not_stand():
    run_varied(13044)
