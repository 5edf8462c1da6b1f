"""One pass of a mixture over its points, in parallel, with the same bits for any number of cores.

Points are processed in blocks of a fixed size, which may be in files. Sums of blocks are added in the blocks' order.
"""

from collections.abc import Iterator
from functools import partial

import numpy as np

from decbayes.base.workers import share_out
from decbayes.families import Array
from decbayes.models.core.ascent import Watch
from decbayes.models.core.points import Points, in_blocks, spans
from decbayes.models.likelihoods.emissions import Emissions

# Numbers in the sums of blocks that are held at a time (32 MiB).
MOST_SUMS = 1 << 22
# Largest number of feature values to keep in memory between passes (128 MiB).
MOST_KEPT = 1 << 24
# Size of the random sample in which to choose centres.
MOST_CANDIDATES = 1 << 16


class PointBlocks:
    """Blocks of points, without empty ones; `emissions` know where values are missing.

    Features are kept between passes unless they are too large.
    """

    def __init__(self, emissions: Emissions, points: Points) -> None:
        self._points, self._spans = points, list(spans(len(points)))
        seen, gaps = [], []
        for points_in_block in in_blocks(points):
            missing = np.isnan(points_in_block)
            partly = missing[~missing.all(axis=1)]
            seen.append(len(partly))
            gaps.append(partly.any(axis=0))
        self._sizes, missed = seen, np.any(gaps, axis=0)[None]
        self.emissions = emissions.seeing(np.where(missed, np.nan, 0.0))
        self.width = self.emissions.features(np.zeros(missed.shape)).shape[1]
        self._kept: list[Array | None] = [None] * len(self._spans)
        self._keeping = len(self) * self.width <= MOST_KEPT

    def __len__(self) -> int:
        return sum(self._sizes)

    def __iter__(self) -> Iterator[Array]:
        return map(self._block, range(len(self._spans)))

    def features(self) -> Iterator[Array]:
        """(points of a block, p), one block after the other."""
        return map(self.emissions.features, self)

    def sample(self, most: int, rng: np.random.Generator) -> Array:
        """All points, or a random sample of them."""
        if len(self) <= most:
            return np.concatenate(list(self))
        chosen, first, parts = np.sort(rng.choice(len(self), most, replace=False)), 0, []
        for number, size in enumerate(self._sizes):
            in_block = chosen[np.searchsorted(chosen, first) : np.searchsorted(chosen, first + size)]
            if len(in_block):  # leaves other blocks in their files
                parts.append(self._block(number)[in_block - first])
            first += size
        return np.concatenate(parts)

    def weigh(self, slopes: Array, watch: Watch | None = None) -> tuple[Array, float]:
        """(K, p) sums of features, weighted by responsibilities, and Σ_n log Σ_k exp(features_n · slopes_k)."""
        components, width = slopes.shape
        padded, constants = np.zeros((up_to_four(components), up_to_four(width - 1))), slopes[:, -1].copy()
        padded[:components, : width - 1] = slopes[:, :-1]
        sums, total = np.zeros((len(padded), padded.shape[1] + 1)), 0.0
        at_once, done = max(16, MOST_SUMS // sums.size), 0
        for begin in range(0, len(self._spans), at_once):
            numbers = range(begin, min(begin + at_once, len(self._spans)))
            parts, totals = np.zeros((len(numbers), *sums.shape)), np.zeros(len(numbers))
            share_out(
                partial(self._weigh_block, number, padded, constants, parts[place], totals[place : place + 1])
                for place, number in enumerate(numbers)
            )
            for part, value in zip(parts, totals, strict=True):
                sums += part
                total += float(value)
            done += sum(self._sizes[number] for number in numbers)
            if watch is not None:
                watch(done)
        return np.column_stack([sums[:components, : width - 1], sums[:components, -1]]), total

    def _block(self, number: int) -> Array:
        points = self._points[self._spans[number]]
        return points if self._sizes[number] == len(points) else points[~np.isnan(points).all(axis=1)]

    def _weigh_block(self, number: int, slopes: Array, constants: Array, sums: Array, total: Array) -> None:
        from decbayes.kernels.responsibilities import weigh_points

        total[0] = weigh_points(self._tiles(number), self._sizes[number], slopes, constants, sums)

    def _tiles(self, number: int) -> Array:
        from decbayes.kernels.responsibilities import WIDTH, fill_tiles

        kept = self._kept[number]
        if kept is not None:
            return kept
        features = self.emissions.features(self._block(number))[:, :-1]  # the last feature is always 1
        tiles = np.empty((-(-len(features) // WIDTH), up_to_four(features.shape[1]), WIDTH))
        fill_tiles(features, tiles)
        if self._keeping:
            self._kept[number] = tiles
        return tiles


def up_to_four(size: int) -> int:
    """Round up to a multiple of four."""
    return (size + 3) // 4 * 4
