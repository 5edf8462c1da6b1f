# %% [markdown]
# # Topics of four archives that keep their letters
#
# Four archives have digitised letters. Two may not pass them on, because people in them are alive. Historians want one
# list of topics for all four, and to know which archive has which.
#
# Each archive fits topics to its own letters and sends the result, a small file with word counts per topic. Anybody
# can merge these files. Nobody sends a letter.

# %% [markdown]
# ## The letters
#
# Here they are simulated. There are seven themes; each archive has three or four of them, and some words are
# everywhere.

# %%
import numpy as np
import decbayes as db
from scipy.sparse import csr_array

rng = np.random.default_rng(3)
themes = {
    "harvest": "wheat barn plough rain cattle orchard miller drought fence sheep",
    "sea": "harbour mast storm captain cargo anchor crew tide sail island",
    "illness": "fever doctor bed cough medicine nurse weak recovered spring breath",
    "money": "loan interest debt price shop rent ledger paid coin market",
    "family": "mother wedding cousin child christening sister aunt letter birthday visit",
    "war": "regiment march trench sergeant wounded front officer parcel leave enemy",
    "study": "lecture professor exam library latin degree tutor book term essay",
}
common = ["dear", "today", "house", "time", "good", "day", "week", "write", "hope", "news"]
words = tuple(word for theme in themes.values() for word in theme.split()) + tuple(common)
archives = {
    "county": ["harvest", "money", "family", "illness"],
    "port": ["sea", "money", "family"],
    "university": ["study", "family", "money", "illness"],
    "military": ["war", "illness", "family"],
}

# %%
names = list(themes)
profiles = np.zeros((len(themes), len(words)))
for place in range(len(themes)):
    profiles[place, 10 * place : 10 * place + 10] = 0.75 * rng.dirichlet(np.full(10, 3.0))
    profiles[place, -10:] = 0.25 * rng.dirichlet(np.full(10, 3.0))


def letters(count, themes):
    """Word counts of `count` letters, each about one or two of the themes."""
    shares = np.zeros((count, len(names)))
    shares[:, [names.index(theme) for theme in themes]] = rng.dirichlet(np.full(len(themes), 0.2), size=count)
    return csr_array(rng.multinomial(60, shares @ profiles))


held = {archive: letters(90, chosen) for archive, chosen in archives.items()}

# %% [markdown]
# ## Each archive by itself
#
# All agree on the words and on the model. Each fits five topics to its own letters. It need not know how many topics
# the others have, or how they number them.

# %%
model = db.LatentDirichletAllocation(topics=5, vocabulary=words, ascent=db.Ascent(restarts=3))
posteriors = {archive: model.fit(counts, rng=rng).posterior for archive, counts in held.items()}
posteriors["port"]

# %% [markdown]
# ## One list of topics
#
# `align` finds which topics of the archives are the same. Several topics may share a slot, and a topic that only one
# archive has keeps its own slot. There are more slots than any archive has topics, since each archive has seen only a
# part of the whole.

# %%
found = db.align(posteriors.values(), components=7)
merged = found.merged()
db.plot.topics(merged, top=6, across=4)

# %% [markdown]
# Which archive has which topic? Rows are archives, columns are topics; numbers are the archive's own labels. Cells in
# a frame are close calls; in grey ones an archive has nothing.

# %%
db.plot.alignment(found, names=list(posteriors))

# %% [markdown]
# ## Is it any good?
#
# New letters of all archives are scored by how well a posterior predicts a part of each letter from the rest. The merge
# has seen no letter, yet it comes close to a fit of all letters in one place, which nobody would be allowed to make.

# %%
new = model.joined([letters(30, chosen) for chosen in archives.values()])
seen, hidden = db.checking.hold_out(new, share=0.2, rng=rng)
everything = db.LatentDirichletAllocation(topics=7, vocabulary=words, ascent=db.Ascent(restarts=3))
together = everything.fit(model.joined(list(held.values())), rng=rng).posterior
scores = {
    "port alone": model.score(posteriors["port"], seen, hidden),
    "naive merge": model.score(db.merging.product(posteriors.values()), seen, hidden),
    "merged": everything.score(merged, seen, hidden),
    "all letters in one place": everything.score(together, seen, hidden),
}
for name, score in scores.items():
    print(f"{name:26}{score:6.2f}")

# %% [markdown]
# The naive merge adds the first topic to the first, the second to the second and so on, as federated averaging does.
# Archives number their topics arbitrarily, so this mixes them up.
#
# ## A report for the historians
#
# One file that opens in any browser, with all topics, which archive has which, and what deserves a look:

# %%
from pathlib import Path

db.report(found, "letters.html", names=list(posteriors), title="Letters of four archives")
print(f"{Path('letters.html').stat().st_size / 1000:.0f} kB")
