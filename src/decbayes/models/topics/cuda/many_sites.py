"""Topics of many sites on a GPU, all in the same launches."""

from collections.abc import Sequence
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
from decbayes.models.topics.cuda.corpus import spans_of


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
        best = [one.or_higher(other) for one, other in zip(best or reached, reached, strict=True)]
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
    words = [site.counts.words for site in sites]
    # All sites at once: sending and gathering fifty times takes as long as the passes.
    there, totals = xp.asarray(np.ascontiguousarray(alpha.T))[xp.asarray(np.concatenate(words))], alpha.sum(axis=1)
    return [Topics(there[span], totals) for span in spans_of([len(each) for each in words])]


def begun(firsts: Sequence[First], xp: Any) -> Any:
    """The statistics that all sites start from, one site's rows after the other's."""
    spans = spans_of([len(first.array) for first in firsts])
    if len({first.array.shape[1] for first in firsts}) > 1:
        return xp.concatenate([first.written_out(xp) for first in firsts])
    parts = [(*first.added, span.start) for first, span in zip(firsts, spans, strict=True) if first.added is not None]
    added = None
    if parts:
        words = np.concatenate([places + start for places, _, _, start in parts])
        added = words, np.concatenate([part[1] for part in parts]), np.concatenate([part[2] for part in parts])
    return First(firsts[0].topics, np.concatenate([first.array for first in firsts]), added).written_out(xp)


def climb_sites(search: GpuSearch, firsts: Sequence[First], ascent: Ascent, tokens: Sequence[int]) -> list[Climb[Any]]:
    """Passes over all sites that have not converged yet; what they reach stays on the GPU."""
    sizes = np.array(tokens, dtype=np.float64)
    active, starts = sizes > 0.0, begun(firsts, search.device.xp)
    # One pass is always on its way before the last one is looked at: the GPU waits for nobody's decision, and what a
    # site that has ended gets from it is not used.
    coming = search.step(search.begin([starts]), active)
    # Without words there is nothing to learn.
    climbs = [Climb(starts[span], (0.0,), converged=True) for span in search.rows]
    heights, waiting = np.empty((0, len(sizes))), []
    for number in range(1, ascent.passes + 1):
        reached, bounds = coming
        waiting.append(search.device.later(bounds))
        if number < ascent.passes:
            coming = search.step(reached, active)
        if number <= ascent.warm_up and number < ascent.passes:
            continue  # nobody ends yet
        heights, waiting = np.vstack([heights, *(arrived() for arrived in waiting)]), []
        ended = active & (number > ascent.warm_up + 1)
        if number > 1:
            ended &= abs(heights[-1] - heights[-2]) <= ascent.tolerance * sizes
        for site in np.flatnonzero(active if number == ascent.passes else ended).tolist():
            state = reached.statistics[search.rows[site]].copy()
            climbs[site] = Climb(state, tuple(heights[:, site].tolist()), converged=bool(ended[site]))
        active &= ~ended
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
