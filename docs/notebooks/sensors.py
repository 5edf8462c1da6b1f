# %% [markdown]
# # Robots on a bad network
#
# Eight robots measure the ground of a field: moisture and temperature, at places of four kinds. Each has seen a part
# of the field. Their radios are weak: a robot reaches its neighbours only now and then, messages are lost, and one
# robot falls into a ditch. There is no base station that could collect anything.
#
# The agents are the real ones, those of `decbayes agent`. Only the network is simulated, so that it can be as bad as
# we like.

# %%
import numpy as np
import decbayes as db
from decbayes.network import Charter, Identity
from decbayes.network.simulation.simulator import Simulation, Weather

rng = np.random.default_rng(5)
grounds = np.array([[12.0, 18.0], [35.0, 15.0], [55.0, 11.0], [25.0, 26.0]])


def readings(count, seen):
    """Moisture and temperature at `count` places; a robot has seen some kinds of ground more than others."""
    return grounds[rng.choice(4, size=count, p=seen)] + rng.normal(0, [3.0, 1.5], size=(count, 2))


parts = rng.dirichlet(np.full(4, 0.5), size=8)
data = [readings(40, part) for part in parts]

# %% [markdown]
# ## What they agree on beforehand
#
# A charter: the model, and the public key of each member. It is a file; nobody is in charge.

# %%
keys = [Identity.from_seed(bytes([number]) * 32) for number in range(8)]
settings = {"components": 4, "dimension": 2, "covariance": "diagonal", "prior_mean": 25.0, "prior_scale": 9.0}
settings["columns"] = ["moisture", "temperature"]
charter = Charter(
    group="field",
    id="field",
    secret=bytes(32),
    model_name="GaussianMixture",
    settings=settings,
    members={f"robot {number}": key.public for number, key in enumerate(keys)},
)
model = charter.model

# %% [markdown]
# ## On the field
#
# The robots form a ring, and every third message is lost until the evening. Each fits its own readings and sends its
# contribution once; the others pass it on. After each round we ask every robot how well it predicts readings from the
# whole field.

# %%
field = Simulation(charter, keys, rng=rng, weather=Weather(loss=0.33))
field.connect({(number, number + 1) for number in range(7)} | {(0, 7)})
new = readings(500, np.full(4, 0.25))


def scores():
    """How well each robot predicts; NaN if it is down."""
    merged = [None if site.agent is None else site.agent.merged() for site in field.sites]
    return [np.nan if each is None else model.score(each.posterior, new) for each in merged]


first = [model.fit(points, rng=rng).posterior for points in data]
alone = [model.score(posterior, new) for posterior in first]
history = [alone]
for number, site in enumerate(field.sites):
    field.start(site)
    field.observe(site, "morning", data[number])
for round_ in range(24):
    if round_ == 3:
        field.stop(field.sites[5])  # the ditch
    if round_ == 12:
        field.start(field.sites[5])  # pulled out; what it had stored is still there
    if round_ == 20:
        field.weather = Weather()  # by evening the radio is clear
    field.round()
    history.append(scores())

# %%
batch = model.score(model.fit(np.concatenate(data), rng=rng).posterior, new)
print(f"best robot alone      {max(alone):6.2f}")
print(f"each robot at the end {min(history[-1]):6.2f} to {max(history[-1]):.2f}")
print(f"all readings together {batch:6.2f}")
print(
    f"{field.traffic.messages} messages, {field.traffic.lost} of them lost, {field.traffic.bytes / 1000:.0f} kB in all"
)

# %% [markdown]
# ## Seen from above
#
# Each robot's score as a colour: alone at first, then while robot 5 is down (grey), then all in agreement.

# %%
from decbayes.plot.style import canvas, styled

links = [(str(first), str(second)) for first, second in sorted(field.links)]
limits = (min(alone), batch)
with styled():
    figure = canvas(7.2, 2.5)
    for axes, moment in zip(figure.subplots(1, 3), (0, 8, 24)):
        values = {str(number): score for number, score in enumerate(history[moment])}
        db.plot.network(links, values=values, limits=limits, label="score", scale=moment == 24, axes=axes)
        axes.set_title(f"after {moment} rounds", pad=14)
figure

# %% [markdown]
# All robots hold the same posterior, bit by bit, and it has all four kinds of ground, although no robot has seen much
# of each:

# %%
posteriors = [site.agent.merged().posterior for site in field.sites]
print(len({posterior.digest for posterior in posteriors}), "posterior for all")
db.plot.mixture(posteriors[0], np.concatenate(data))

# %% [markdown]
# ## Why not average?
#
# Federated averaging needs a server that everybody reaches in every round, and averages parameters with the same
# number. Robots number their kinds of ground arbitrarily, so adding them without matching mixes them up:

# %%
print(f"added by number      {model.score(db.merging.product(first), new):7.2f}")
print(f"matched, then added  {model.score(db.merge(first), new):7.2f}")

# %% [markdown]
# On real machines the same agents run as `decbayes agent`; see [agents on a network](../network.md). With `--page`
# each shows itself and its group in a browser while things happen: see [a live page](../page.md).
