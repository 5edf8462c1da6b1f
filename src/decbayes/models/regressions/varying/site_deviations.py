"""Deviations of sites, and of groups inside them: their estimates from rows, and their part in predictions."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from decbayes.families import Array
from decbayes.models.regressions.rows.table import Rows
from decbayes.models.regressions.varying.climb import FACTOR
from decbayes.models.regressions.varying.site_effects import Groups, SiteEffects, groups_of, places_among, rows_by
from decbayes.posterior import Posterior

if TYPE_CHECKING:
    from decbayes.models.regressions.regression import Regression

# Made-up groups inside a site.
GROUPS = 4


@dataclass(frozen=True, eq=False)
class SiteDeviations:
    """What varies in one regression."""

    model: "Regression"

    def estimates(self, posterior: Posterior, data: Any) -> tuple[SiteEffects, Groups]:
        """The deviations of the groups of these rows, given the posterior; and these groups."""
        problem = self.model.problem(dict(posterior.natural), data)
        return self.model.outcome.climb(problem).effects(posterior.natural), problem.groups

    def information(self, posterior: Posterior, data: Any) -> Array:
        """Only variation is hidden: the joint posterior of coefficients needs no correction."""
        sizes = [posterior.structure.prior[name].size for name in posterior.structure.families]
        information, groupings = np.zeros((sum(sizes),) * 2), self.model.variation.groupings
        if not groupings:
            return information
        effects, _ = self.estimates(posterior, data)
        moments = self.model.outcome.expected(posterior.natural, len(self.model.table.design.labels))
        crossed, between = effects.response(moments)
        # Without noise there is no E[τ] among the statistics.
        size = sizes[0]
        crossed = [part[:, -size:] for part in crossed]
        statistics = slice(size - crossed[0].shape[1], size)
        # The statistics of Λ are the last ones of each factor.
        ends = np.cumsum(sizes)[1:]
        places = [np.arange(end - len(part), end) for end, part in zip(ends, crossed, strict=True)]
        for place, response in zip(places, crossed, strict=True):
            information[place, statistics], information[statistics, place] = response, response.T
        information[np.ix_(np.concatenate(places), np.concatenate(places))] = np.concatenate(between)
        return information

    def linear(self, posterior: Posterior, points: Array, rows: Rows, known: Any) -> tuple[Array, Array]:
        """Mean and variance of the linear predictor in each row: for a site with rows in `known`, or for a new one."""
        model, natural = self.model, posterior.natural
        mean, covariance = model.outcome.moments(natural[FACTOR])
        means, covariances = mean[None], model.variation.added(natural, covariance)[None]
        places = np.zeros(len(points), dtype=np.intp)
        if known is not None and model.varying:
            effects, groups = self.estimates(posterior, known)
            names = model.table.names(points)
            sites = effects.outer.coefficients(mean, covariance)
            unseen = np.array([model.variation.added(natural, at_site, inner=True) for at_site in sites[1]])
            means, covariances = np.append(sites[0], means, axis=0), np.append(unseen, covariances, axis=0)
            places = places_among([names[:, 0]], [groups.sites])
            if effects.inner is not None:
                of_group = places_among([*names.T], [groups.sites[groups.parents], groups.numbers])
                inside = effects.coefficients(mean, covariance)
                seen = of_group < len(groups.parents)
                places = np.where(seen, len(means) + of_group, places)
                means, covariances = np.append(means, inside[0], axis=0), np.append(covariances, inside[1], axis=0)
        by_group = rows_by(rows.matrix, places[rows.observation], len(means))
        linear, variance = by_group.linear(means, covariances)
        return linear + rows.offset / model.target_units[0], variance

    def made_up_groups(self, size: int, rows: int) -> Array:
        """(N, groupings): numbers of sites with `rows` rows each, and of groups inside them."""
        depth, row = len(self.model.variation.groupings), np.arange(size)
        return np.column_stack([row // rows, row // max(rows // GROUPS, 1)])[:, :depth].astype(np.float64)

    def draw(self, parameters: Mapping[str, Any], rows: Rows, points: Array, rng: np.random.Generator) -> Array:
        """(rows,): what deviations drawn for the groups of rows add to xβ, in deviations of the noise."""
        names, added = self.model.table.names(points), np.zeros(len(rows.matrix))
        for depth, grouping in enumerate(self.model.variation.groupings, start=1):
            groups = groups_of(names[:, :depth])
            drawn = grouping.drawn(parameters[grouping.factor], len(groups.parents), rng)
            at_rows = drawn[groups.rows[rows.observation]]
            added += np.einsum("nv,nv->n", rows.matrix[:, grouping.places], at_rows)
        return added
