"""A group of agents whose sites differ: each keeps its own part, and all end where one fit of all rows would."""

import numpy as np
import pandas as pd
from parties import identities

import decbayes as db
from decbayes.network import Charter
from decbayes.network.protocol.limits import Limits
from decbayes.network.simulation.simulator import CALM, Simulation
from decbayes.network.simulation.topology import clique

MEMBERS = identities(4)
COLUMNS = db.columns.plain({"x": db.columns.Gaussian(), "y": db.columns.Poisson()})


def test_agents_refine_coefficients_that_differ_from_site_to_site(rng):
    charter = Charter(
        group="clinics",
        model_name="PoissonRegression",
        settings={"target": "y", "columns": COLUMNS, "varying": ["intercept"]},
        members={f"site {index}": member.public for index, member in enumerate(MEMBERS)},
        limits=Limits(members=8, refinements=20),
    )
    simulation = Simulation(charter, MEMBERS, rng=rng, weather=CALM)
    simulation.links = clique(len(MEMBERS), rng)
    frames = []
    for number, site in enumerate(simulation.sites):
        x = rng.normal(size=50)
        y = rng.poisson(np.exp(0.5 + (-1) ** number + 0.4 * x))
        frames.append(pd.DataFrame({"x": x, "y": y, "clinic": str(number)}))
        site.shards["own"] = np.column_stack([x, y])
        simulation.start(site)
    simulation.round()
    for _ in range(4):
        for site in simulation.sites:
            simulation.perform(site, site.agent.refine(rng=rng))
            simulation.round()
    merged = simulation.sites[0].agent.posterior()
    whole = db.PoissonRegression("y", columns=charter.model.columns, varying=("intercept",), by="clinic")
    exact = whole.fit(pd.concat(frames), rng=rng).posterior
    pairs = zip(charter.model.describe(merged), whole.describe(exact), strict=True)
    for own, other in pairs:
        assert abs(own["mean"] - other["mean"]) < 0.05 * other["deviation"]
