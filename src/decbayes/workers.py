"""How many workers to use, and work shared out among threads.

The caller decides with `joblib.parallel_config`: its `n_jobs` and its backend hold for everything here. Without it all
cores are used, as threads. No result depends on how many there are.
"""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import pairwise

from joblib import cpu_count
from joblib.parallel import get_active_backend

# Evaluations of lnΓ below which a thread costs more than it saves (about half a millisecond of work).
WORTH_A_THREAD = 100_000


def jobs() -> int:
    """What to pass to joblib as `n_jobs`; inside somebody else's worker, one."""
    backend, configured = get_active_backend()
    if backend.nesting_level:
        return 1
    return -1 if configured is None else int(configured)


def split_among_threads(work: Callable[[slice], None], size: int, *, cost: int) -> None:
    """Call `work` on disjoint parts that cover range(size), at the same time where that pays."""
    threads = min(size, cost // WORTH_A_THREAD, thread_count()) if cost >= 2 * WORTH_A_THREAD else 1
    if threads < 2:
        work(slice(0, size))
        return
    ends = [size * index // threads for index in range(threads + 1)]
    parts = [slice(first, last) for first, last in pairwise(ends)]
    waiting = [pool().submit(work, part) for part in parts[1:]]
    work(parts[0])
    for future in waiting:
        future.result()


def thread_count() -> int:
    wanted = jobs()
    return wanted if wanted > 0 else max(1, int(cpu_count()) + 1 + wanted)


@cache
def pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max(1, int(cpu_count()) - 1), thread_name_prefix="decbayes")


if hasattr(os, "register_at_fork"):
    # A forked child has none of its parent's threads: work handed to them would never be done.
    os.register_at_fork(after_in_child=pool.cache_clear)
