"""How many workers to use, and how to share work among threads.

The caller decides with `joblib.parallel_config`, whose `n_jobs` and backend apply to everything here. The default is
all cores, as threads. No result depends on their number.
"""

import os
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor, wait
from functools import cache, partial
from itertools import pairwise
from typing import TypeVar

Result = TypeVar("Result")

# Below this many evaluations of lnΓ (about half a millisecond), a thread costs more than it saves.
WORTH_A_THREAD = 100_000
# Below this many numbers per task, several threads that call NumPy are slower than one.
HEAVY = 100_000


@cache
def cpu_count() -> int:
    """joblib's count, cached: it is read from files each time, which takes as long as a short pass."""
    from joblib import cpu_count as counted

    return int(counted())


def jobs() -> int:
    """joblib's `n_jobs`; one inside another worker."""
    from joblib.parallel import get_active_backend  # a small fit does not need it

    backend, configured = get_active_backend()
    if backend.nesting_level:
        return 1
    return -1 if configured is None else int(configured)


def split_among_threads(work: Callable[[slice], object], size: int, *, cost: int) -> None:
    """Call `work` on disjoint parts that cover range(size), in parallel where that pays."""
    threads = min(size, cost // WORTH_A_THREAD, thread_count()) if cost >= 2 * WORTH_A_THREAD else 1
    if threads < 2:
        work(slice(0, size))
        return
    share_out(partial(work, part) for part in even_parts(size, threads))


def even_parts(size: int, parts: int) -> list[slice]:
    """range(size) in this many parts of equal size."""
    ends = [size * index // parts for index in range(parts + 1)]
    return [slice(first, last) for first, last in pairwise(ends)]


def share_out(tasks: Iterable[Callable[[], object]], *, most: int | None = None) -> None:
    """Do all tasks, several in parallel (up to a limit); each thread takes the next one when it is free.

    If one fails, or on Ctrl-C, tasks not yet started are dropped and the others are waited for.
    """
    waiting = deque(tasks)
    if len(waiting) == 1:  # as in a pass over few rows, of which there are thousands
        waiting.pop()()
        return

    def work() -> None:
        while waiting:
            try:
                task = waiting.popleft()
            except IndexError:  # another thread was faster
                return
            try:
                task()
            except BaseException:
                waiting.clear()
                raise

    threads = min(len(waiting), thread_count() if most is None else most)
    helpers = [pool().submit(work) for _ in range(threads - 1)]
    try:
        work()
    finally:
        waiting.clear()
        # A helper that has not started is no longer needed, and may be queued behind other work.
        started = [helper for helper in helpers if not helper.cancel()]
        wait(started)
    for helper in started:
        helper.result()


def gathered(tasks: Iterable[Callable[[], Result]], *, size: int | None = None) -> list[Result]:
    """The results of all tasks in order; several are done in parallel.

    Small tasks (`size` is the total number of numbers) run in turn, because short NumPy calls slow each other down.
    """
    waiting = list(tasks)
    if size is not None and size < HEAVY * len(waiting):
        return [task() for task in waiting]
    results: dict[int, Result] = {}

    def do(number: int) -> None:
        results[number] = waiting[number]()

    share_out(partial(do, number) for number in range(len(waiting)))
    return [results[number] for number in range(len(waiting))]


def thread_count() -> int:
    wanted = jobs()
    return wanted if wanted > 0 else max(1, cpu_count() + 1 + wanted)


@cache
def pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max(1, cpu_count() - 1), thread_name_prefix="decbayes")


if hasattr(os, "register_at_fork"):
    # A forked child has none of its parent's threads: work handed to them would never finish.
    os.register_at_fork(after_in_child=pool.cache_clear)
