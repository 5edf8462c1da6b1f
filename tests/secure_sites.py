"""Sites that add up means in a shared folder, one row of data each time they are asked."""

import numpy as np
from masked_sums import NAMES, public, signing

import decbayes as db
from decbayes.secure import Agreement, Folder, Share, Site

MODEL = db.models.GaussianMean(variance=1.0, dimension=1)
ANCHOR = db.Posterior.of_prior(MODEL.structure)


def share_of(value, rows=5):
    posterior = MODEL.fit(np.full((rows, 1), float(value))).posterior
    return Share(posterior, rows=rows, persons=rows, units=rows)


def agreed(names=NAMES, **changed):
    usual = {"rounds": 2, "rules": None, "anchor": ANCHOR}
    return Agreement("means", {name: public(name) for name in names}, **{**usual, **changed})


class Sites:
    """Members of one folder; each adds its place in the list as its mean."""

    def __init__(self, path, names=NAMES, folder="shared", **changed):
        self.path, self.names = path, names
        self.folder = Folder.begin(path / folder, agreed(names, **changed))
        self.values = {name: float(place) for place, name in enumerate(names)}

    def site(self, name, folder=None):
        return Site(folder or self.folder, name, signing(name).sign, self.path / f"{name} only")

    def visit(self, name, *, without=(), folder=None):
        return self.site(name, folder).advance(lambda *_: share_of(self.values[name]), without)

    def turns(self, *names, times=1, without=()):
        for _ in range(times):
            for name in names or self.names:
                self.visit(name, without=without)
        return self

    def total(self, names=None):
        """Σ rows · mean over members."""
        return sum(5 * self.values[name] for name in names or self.names)


def opened_total(folder, number=1):
    return float(folder.results()[number - 1].posterior.contribution["mean"][0, 0])
