"""Break the source on purpose, one small change at a time, and see whether a test notices.

    python tests/mutants                     all of them; ends with status 1 if fewer than 95 % are noticed
    python tests/mutants --only merging      one area, or those whose names contain the word; or several, with commas
    python tests/mutants --list              what would be tried

Nothing here is changed: mutants are applied to copies in a temporary folder.
"""

import sys
from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from queue import SimpleQueue
from tempfile import TemporaryDirectory

from catalogue import Mutant, Patched, areas, mutants, patched
from trial import BROKEN, NOTICED, SURVIVED, Outcome, Trial

LEAST_SHARE = 0.95


def main(arguments: Sequence[str] | None = None) -> int:
    options = parsed(arguments)
    chosen = [each for area in areas() for each in wanted(area, options.only)]
    if options.list:
        print(*map(described, chosen), sep="\n")
        return 0
    if not chosen:
        print(f"There is no area and no mutant called {options.only!r}. --list shows all.", file=sys.stderr)
        return 2
    outcomes: list[Outcome] = []
    interrupted = False
    try:
        for outcome in tried(chosen, options):
            outcomes.append(outcome)
            print(f"[{len(outcomes)}] {outcome.area}/{outcome.name}: {outcome.verdict}, {outcome.seconds:.0f} s")
            sys.stdout.flush()
    except KeyboardInterrupt:
        print("Interrupted; so far:")
        interrupted = True
    known = {(each.area, each.name): each for each in chosen if isinstance(each, Mutant)}
    return report(outcomes, known) or 130 * interrupted


def parsed(arguments: Sequence[str] | None) -> Namespace:
    parser = ArgumentParser(prog="mutants", description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="areas (merging, …) or parts of mutants' names, with commas")
    parser.add_argument("-j", "--jobs", type=int, default=1, help="so many at a time, each in a copy of its own")
    parser.add_argument("--limit", type=float, default=180.0, help="seconds until a mutant counts as one without end")
    parser.add_argument("--list", action="store_true", help="say what would be tried, and try nothing")
    return parser.parse_args(arguments)


def wanted(area: str, only: str) -> Iterator[Mutant | Patched]:
    """What of an area was asked for."""
    words = [word.strip() for word in only.split(",")]
    whole = not only or area in words
    yield from (mutant for mutant in mutants(area) if whole or any(word in mutant.name for word in words))
    yield from (test for test in patched(area) if whole)


def described(chosen: Mutant | Patched) -> str:
    if isinstance(chosen, Patched):
        return f"{chosen.area}: all of {chosen.test}"
    return f"{chosen.area}/{chosen.name}: {chosen.breaks} ({chosen.file})"


def tried(chosen: Sequence[Mutant | Patched], options: Namespace) -> Iterator[Outcome]:
    """Outcomes as they come, from so many copies at a time."""
    with TemporaryDirectory(prefix="mutants-") as folder:
        free: SimpleQueue[Trial] = SimpleQueue()
        for number in range(max(1, options.jobs)):
            free.put(prepared(Path(folder) / str(number), chosen if number == 0 else ()))

        def attempt(each: Mutant | Patched) -> list[Outcome]:
            trial = free.get()
            try:
                if isinstance(each, Patched):
                    return trial.of_patched(each, 5 * options.limit)
                return [trial.of(each, options.limit)]
            finally:
                free.put(trial)

        with ThreadPoolExecutor(max(1, options.jobs)) as pool:
            waiting = [pool.submit(attempt, each) for each in chosen]
            try:
                for done in as_completed(waiting):
                    yield from done.result()
            finally:
                pool.shutdown(cancel_futures=True)


def prepared(folder: Path, chosen: Iterable[Mutant | Patched]) -> Trial:
    """A copy in which, if mutants are given, all their tests pass before anything is changed."""
    trial = Trial(folder)
    named = {test for each in chosen if isinstance(each, Mutant) for test in each.tests}
    tests = sorted(test for test in named if "::" not in test or test.split("::")[0] not in named)
    if tests:
        print(f"First the tests as they are: {', '.join(tests)}", flush=True)
        passed, output = trial.baseline(tests, 3600.0)
        if not passed:
            raise SystemExit(f"They do not pass, so what they say of mutants is worth nothing:\n{output[-3000:]}")
    return trial


def report(outcomes: Sequence[Outcome], known: dict[tuple[str, str], Mutant]) -> int:
    """Print who survived and how many did not; the exit status."""
    counts = Counter((outcome.area, outcome.verdict in NOTICED) for outcome in outcomes)
    for outcome in outcomes:
        if outcome.verdict in (SURVIVED, BROKEN):
            mutant = known.get((outcome.area, outcome.name))
            about = f": {mutant.breaks} ({mutant.path}; {', '.join(mutant.tests)})" if mutant else ""
            detail = f"\n    {outcome.detail}" if outcome.verdict == BROKEN else ""
            print(f"{outcome.verdict}: {outcome.area}/{outcome.name}{about}{detail}")
    for area in sorted({outcome.area for outcome in outcomes}):
        print(f"{area}: {counts[area, True]} of {counts[area, True] + counts[area, False]} noticed")
    noticed = sum(outcome.verdict in NOTICED for outcome in outcomes)
    share = noticed / max(len(outcomes), 1)
    print(f"{noticed} of {len(outcomes)} mutants were noticed: {share:.1%} (at least {LEAST_SHARE:.0%} should be).")
    return 0 if share >= LEAST_SHARE else 1


if __name__ == "__main__":
    sys.exit(main())
