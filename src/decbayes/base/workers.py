"""How many workers to use, and work shared out among threads.

The caller decides with `joblib.parallel_config`: its `n_jobs` and its backend hold for everything here. Without it all
cores are used, as threads. No result depends on how many there are.
"""

import os
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor, wait
from functools import cache, partial
from itertools import pairwise
from typing import TypeVar

Result = TypeVar("Result")

# Evaluations of lnΓ below which a thread costs more than it saves (about half a millisecond of work).
WORTH_A_THREAD = 100_000
# Numbers per task below which threads that call NumPy in turn take longer than one of them.
HEAVY = 100_000


@cache
def cpu_count() -> int:
    """joblib reads it from files each time, which takes as long as a short pass."""
    from joblib import cpu_count as counted

    return int(counted())


def jobs() -> int:
    """What to pass to joblib as `n_jobs`; inside somebody else's worker, one."""
    from joblib.parallel import get_active_backend  # a small fit does not need it

    backend, configured = get_active_backend()
    if backend.nesting_level:
        return 1
    return -1 if configured is None else int(configured)


def split_among_threads(work: Callable[[slice], object], size: int, *, cost: int) -> None:
    """Call `work` on disjoint parts that cover range(size), at the same time where that pays."""
    threads = min(size, cost // WORTH_A_THREAD, thread_count()) if cost >= 2 * WORTH_A_THREAD else 1
    if threads < 2:
        work(slice(0, size))
        return
    share_out(partial(work, part) for part in even_parts(size, threads))


def even_parts(size: int, parts: int) -> list[slice]:
    """range(size) in a number of parts of equal size."""
    ends = [size * index // parts for index in range(parts + 1)]
    return [slice(first, last) for first, last in pairwise(ends)]


def share_out(tasks: Iterable[Callable[[], object]], *, most: int | None = None) -> None:
    """Do all tasks, several at the same time (up to a limit); each thread takes the next one when it is free.

    When one fails, or on Ctrl-C, those not yet begun are dropped and the others are waited for.
    """
    waiting = deque(tasks)

    def work() -> None:
        while waiting:
            try:
                task = waiting.popleft()
            except IndexError:  # somebody was faster
                return
            try:
                task()
            except BaseException:
                waiting.clear()
                raise

    # How many cores there are is read from files, which takes longer than a small task.
    threads = min(len(waiting), thread_count() if most is None else most) if len(waiting) > 1 else 1
    helpers = [pool().submit(work) for _ in range(threads - 1)]
    try:
        work()
    finally:
        waiting.clear()
        # One that has not begun is not needed any more, and may have to wait for somebody else's work.
        begun = [helper for helper in helpers if not helper.cancel()]
        wait(begun)
    for helper in begun:
        helper.result()


def gathered(tasks: Iterable[Callable[[], Result]], *, size: int | None = None) -> list[Result]:
    """What all tasks return, in their order; several are done at the same time.

    Not where they are about few numbers each (`size` is of all of them): short calls of NumPy hinder each other.
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
    # A forked child has none of its parent's threads: work handed to them would never be done.
    os.register_at_fork(after_in_child=pool.cache_clear)
