"""How many rounds, messages and bytes a large group needs until everybody agrees.

A round: every agent ticks once, and all talk that follows takes place. Every agent has one shard; nobody knows anything
of the others at first, and everybody talks to about eight neighbours. Run as
`python benchmarks/network_scale.py [--agents 1000] [--quick]`; the last line is one JSON object.
"""

import argparse
import json
import time

import numpy as np

from decbayes.network.simulation.schedule import simulated_identities
from decbayes.network.simulation.simulator import Simulation, Traffic, Weather
from decbayes.network.simulation.studies import ONE_MEAN
from decbayes.network.simulation.topology import sparse

MOST_ROUNDS = 40


def build(agents: int, seed: int, loss: float) -> Simulation:
    rng = np.random.default_rng(seed)
    keys = simulated_identities(agents)
    simulation = Simulation(ONE_MEAN.charter(keys), keys, rng=rng, weather=Weather(loss=loss))
    simulation.links = sparse(agents, rng, degree=8)
    for site in simulation.sites:
        site.shards["own"] = rng.normal(size=2)
        simulation.start(site)
    return simulation


def converge(simulation: Simulation) -> list[Traffic]:
    """The traffic of each round until all hold the same set of everybody's records."""
    rounds: list[Traffic] = []
    agents = [site.agent for site in simulation.sites]
    while len(rounds) < MOST_ROUNDS:
        before = Traffic(**vars(simulation.traffic))
        simulation.round()
        after = simulation.traffic
        rounds.append(Traffic(after.messages - before.messages, after.bytes - before.bytes, after.lost - before.lost))
        known = [len(agent.pool.records) for agent in agents]
        each = f"{rounds[-1].messages / len(agents):7.1f} messages and {rounds[-1].bytes / len(agents):11,.0f} bytes"
        print(f"round {len(rounds):2d}: {min(known):5d} to {max(known):5d} records known, {each} an agent")
        if min(known) == len(agents) and len({agent.pool.root for agent in agents}) == 1:
            return rounds
    raise SystemExit(f"no agreement after {MOST_ROUNDS} rounds")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--agents", type=int, default=1000)
    parser.add_argument("--loss", type=float, default=0.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="200 agents")
    options = parser.parse_args()
    agents = 200 if options.quick else options.agents
    started = time.perf_counter()
    simulation = build(agents, options.seed, options.loss)
    rounds = converge(simulation)
    posteriors = {simulation.sites[index].agent.posterior().digest for index in (0, agents // 2, agents - 1)}
    summary = {
        "agents": agents,
        "loss": options.loss,
        "rounds": len(rounds),
        "messages_per_agent": round(sum(r.messages for r in rounds) / agents, 1),
        "bytes_per_agent": round(sum(r.bytes for r in rounds) / agents),
        "bytes_per_round": round(sum(r.bytes for r in rounds) / len(rounds)),
        "identical": len(posteriors) == 1,
        "seconds": round(time.perf_counter() - started, 1),
    }
    print(json.dumps(summary))


if __name__ == "__main__":
    main()
