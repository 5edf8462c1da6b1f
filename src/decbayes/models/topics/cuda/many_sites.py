"""Topics of many sites on a GPU, all in the same launches."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from decbayes.base.workers import gathered
from decbayes.families import Dirichlet
from decbayes.kernels.cuda.device import Device
from decbayes.models.core.ascent import Ascent, Climb, Fit
from decbayes.models.topics._fitting import NEGLIGIBLE, Entries, First, Site
from decbayes.models.topics._passes import Steps, Topics
from decbayes.models.topics.cuda.climb import GpuSearch


def fit_sites(
    sites: Sequence[Site], steps: Steps, ascent: Ascent, device: Device, rngs: Sequence[np.random.Generator | None]
) -> list[Fit]:
    """Fits of several sites in the same launches; each ends when it has converged itself."""
    search = GpuSearch(device, [site.counts for site in sites], topics_before(sites, device.xp), steps, ascent)
    tasks = [partial(site.first, rng) for site, rng in zip(sites, rngs, strict=True)]
    size = sum(len(site.counts.data) for site in sites)
    best: list[Climb[Any]] = []
    for _ in range(ascent.restarts + 1):
        reached = climb_sites(search, gathered(tasks, size=size), ascent, [site.counts.tokens for site in sites])
        best = [max(pair, key=lambda climb: climb.height) for pair in zip(best or reached, reached, strict=True)]
    entries = kept_entries(search, [climb.state for climb in best])
    added = [partial(site.posterior_of, kept) for site, kept in zip(sites, entries, strict=True)]
    posteriors = gathered(added, size=size)
    return [Fit(posterior, climb.bound, climb.converged) for posterior, climb in zip(posteriors, best, strict=True)]


def topics_before(sites: Sequence[Site], xp: Any) -> list[Topics]:
    """The topics that sites start with, on the GPU; a prior that all share is sent once."""
    shared = sites[0].prior
    if any(site.prior is not shared for site in sites):
        return [site.before for site in sites]
    (alpha,) = Dirichlet().columns(shared.natural["topics"])
    there, totals = xp.asarray(np.ascontiguousarray(alpha.T)), alpha.sum(axis=1)
    return [Topics(there[xp.asarray(site.counts.words)], totals) for site in sites]


def climb_sites(search: GpuSearch, firsts: Sequence[First], ascent: Ascent, tokens: Sequence[int]) -> list[Climb[Any]]:
    """Passes over all sites that have not converged yet; what they reach stays on the GPU."""
    active, starts = np.array([size > 0 for size in tokens]), [first.written_out(search.device.xp) for first in firsts]
    reached = search.begin(starts)
    # Without words there is nothing to learn.
    climbs = [
        Climb(start, () if size else (0.0,), converged=not size) for start, size in zip(starts, tokens, strict=True)
    ]
    for number in range(1, ascent.passes + 1):
        reached, bounds = search.step(reached, active)
        for site in np.flatnonzero(active).tolist():
            bound = (*climbs[site].bound, float(bounds[site]))
            ended = number > ascent.warm_up + 1 and abs(bound[-1] - bound[-2]) <= ascent.tolerance * tokens[site]
            climbs[site] = Climb(climbs[site].state, bound, converged=ended)
            if ended or number == ascent.passes:
                climbs[site] = replace(climbs[site], state=reached.statistics[search.rows[site]].copy())
        active &= [not climb.converged for climb in climbs]
        if not active.any():
            break
    return climbs


def kept_entries(search: GpuSearch, statistics: Sequence[Any]) -> list[Entries]:
    """What is not negligible of each site's statistics: found on the GPU, so that little is sent back."""
    xp, to_host, sites = search.device.xp, search.device.to_host, len(statistics)
    whole = xp.concatenate(statistics)
    topics, rows = xp.nonzero((abs(whole) > NEGLIGIBLE).T)
    owners = search.row_sites[rows]
    order = xp.argsort(owners, kind="stable")
    topics, rows = topics[order], rows[order]
    count = whole.shape[1]
    sizes = to_host(xp.bincount(owners[order] * count + topics, minlength=sites * count)).reshape(sites, count)
    ends = np.cumsum(sizes.sum(axis=1))[:-1]
    pieces = zip(np.split(to_host(whole[rows, topics]), ends), np.split(to_host(rows), ends), strict=True)
    first_rows = [span.start for span in search.rows]
    return [
        (data, places - first, np.append(0, np.cumsum(site_sizes)))
        for (data, places), site_sizes, first in zip(pieces, sizes, first_rows, strict=True)
    ]
