# %% [markdown]
# # Patients at five hospitals, and a mistake that shows
#
# Five hospitals want to know what kinds of patients there are, and what a stay costs. None may send a row of its
# table. One of them has made a mistake that nobody has noticed: its scales show pounds.
#
# The data are simulated.

# %%
import numpy as np
import pandas as pd
import decbayes as db

rng = np.random.default_rng(11)


def patients(count, proportions):
    """A table of `count` patients of three kinds; a tenth of all values is missing."""
    kind = rng.choice(3, size=count, p=proportions)
    age = rng.normal(np.array([36, 61, 78])[kind], np.array([9, 8, 6])[kind]).round()
    weight = rng.normal(np.array([71, 92, 63])[kind], 8).round(1)
    nights = 1 + rng.poisson(np.array([1, 4, 9])[kind])
    diabetic = rng.random(count) < np.array([0.03, 0.55, 0.2])[kind]
    table = pd.DataFrame(
        {
            "age": age,
            "weight": weight,
            "nights": nights,
            "diabetic": diabetic,
            "ward": np.array(["surgery", "heart", "geriatric"])[np.where(rng.random(count) < 0.7, kind, 0)],
        }
    )
    cost = 400 + 310 * nights + 6 * age + 500 * diabetic + rng.normal(0, 220, count)
    return table.mask(rng.random(table.shape) < 0.1), table.assign(cost=cost.round())


mixes = {
    "north": (0.6, 0.2, 0.2),
    "south": (0.3, 0.5, 0.2),
    "east": (0.3, 0.2, 0.5),
    "lake": (0.4, 0.3, 0.3),
    "hill": (0.4, 0.3, 0.3),
}
sizes = {"north": 260, "south": 180, "east": 220, "lake": 120, "hill": 200}
tables, bills = {}, {}
for name, mix in mixes.items():
    tables[name], bills[name] = patients(sizes[name], mix)
tables["hill"]["weight"] *= 2.2046
tables["north"].head(3)

# %% [markdown]
# ## What the sites agree on
#
# Names of columns, categories, and rounded units: nothing else leaves a hospital before it fits its own table.

# %%
columns = db.columns.agree(*(db.columns.columns_of(table) for table in tables.values()))
model = db.LatentClasses(components=3, columns=columns)
posteriors = {name: model.fit(table, rng=rng).posterior for name, table in tables.items()}
found = db.align(posteriors.values(), components=3)
found

# %% [markdown]
# ## Something is wrong
#
# A merge does not stop because of a mistake. Which site disagrees with all others, and in what?

# %%
influence = db.merging.influence(found)
for site, name in enumerate(posteriors):
    print(f"{name:7}{influence.share[site]:5.0%} of all evidence   {'; '.join(influence.flags(site))}")

# %% [markdown]
# `hill` stands out. Its classes show why: the weights.


# %%
def mean_weights(name):
    rows = model.profiles(posteriors[name])
    return sorted(round(row["mean"]) for row in rows if row["column"] == "weight")


print("north:", mean_weights("north"), " hill:", mean_weights("hill"))

# %% [markdown]
# Somebody calls the hospital. It divides by 2.2046, fits again, and sends a new posterior; the old one is replaced.

# %%
tables["hill"]["weight"] /= 2.2046
posteriors["hill"] = model.fit(tables["hill"], rng=rng).posterior
corrected = db.align(posteriors.values(), components=3)
print([name for site, name in enumerate(posteriors) if db.merging.influence(corrected).flags(site)])

# %% [markdown]
# ## The kinds of patients
#
# Means with 90 % intervals, and shares of the wards. Intervals are those of variational Bayes, which are too narrow if
# classes overlap.

# %%
merged = corrected.merged()
db.plot.classes(merged, across=5)

# %%
everything = model.fit(pd.concat(tables.values()), rng=rng).posterior
new, _ = patients(500, (0.4, 0.3, 0.3))
scores = {
    "lake alone": model.score(posteriors["lake"], new),
    "merged": model.score(merged, new),
    "all rows in one place": model.score(everything, new),
}
for name, score in scores.items():
    print(f"{name:24}{score:7.2f}")

# %% [markdown]
# ## What a stay costs
#
# A regression has nothing to align: the merge of the hospitals' posteriors is exactly the posterior of all rows.
# Averaging the hospitals' coefficients, as federated averaging does, is not: it ignores how certain each of them is.

# %%
agreed = db.columns.agree(*(db.columns.columns_of(bill) for bill in bills.values()))
regression = db.LinearRegression("cost", columns=agreed)
costs = {name: regression.fit(bill, rng=rng).posterior for name, bill in bills.items()}
exact = regression.fit(pd.concat(bills.values()), rng=rng).posterior
pd.DataFrame(regression.coefficients(db.merge(costs.values()))).round(1)

# %%
merged_costs = db.merge(costs.values())
difference = np.abs(merged_costs.mean("coefficients") - exact.mean("coefficients")).max()
print(f"largest difference to all rows in one place: {difference:.0e}")

# %% [markdown]
# ## For those who decide
#
# The report shows all this without a line of code: classes with intervals, which site has which, who disagrees, and how
# to reproduce the numbers.

# %%
db.report(corrected, "patients.html", names=list(posteriors), title="Patients of five hospitals")
