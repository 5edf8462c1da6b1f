"""What the LDA experiment's table says: the rows of the figure, and the paper's claims about them."""

from collections.abc import Sequence

import numpy as np

from decbayes.plot.style import AMPS, BATCH, GREY, NAIVE, SITES
from paper.boxes import Series
from paper.claims import Claim, Compared, beats, below, no_worse, number
from paper.corpora import SCORE
from paper.starts import all_starts_seconds, best_starts
from paper.table import Table
from paper.wider import WIDE_AMPS

ROUNDS = {1: "AMPS + 1 round", 2: "AMPS + 2 rounds", 4: "AMPS + 4 rounds"}
WIDE_BATCH = "batch, 3K topics"
LIGHT = "#6fa8d6"

# A prototype stayed 0.06 to 0.1 behind batch when each agent had two newsgroups.
NEAR = 0.15


def series(table: Table, agents: int) -> list[Series]:
    """The figure's rows for one number of agents, from top to bottom."""
    setting, scores = f"{agents} agents", table.where(measure=SCORE)
    first, weak = scores.where(method="batch", member=0), scores.where(method="batch, weak start")
    best, wide = best_starts(table, agents, SCORE), scores.where(method=WIDE_BATCH)
    rows = [
        Series("batch, weak start", weak.values(), weak.seconds(), GREY),
        Series("batch", first.values(), first.seconds(), BATCH),
        Series("batch, best of N starts", best, all_starts_seconds(table, agents), BATCH),
        Series(WIDE_BATCH, wide.values(), wide.seconds(), BATCH),
        decentralised(scores, "individual agents", "agent", setting, SITES),
        decentralised(scores, "naive merge", "naive", setting, NAIVE),
        decentralised(scores, "AMPS, weak start", "AMPS, weak start", setting, LIGHT),
        decentralised(scores, "AMPS", "AMPS", setting, AMPS),
    ]
    return [*rows, *(decentralised(scores, name, name, setting, AMPS) for name in (WIDE_AMPS, *ROUNDS.values()))]


def decentralised(scores: Table, label: str, method: str, setting: str, colour: str) -> Series:
    rows = scores.where(method=method, setting=setting)
    return Series(label, rows.values(), rows.seconds(), colour)


def checked(table: Table, agents: Sequence[int], split: str) -> list[Claim]:
    """The paper's claims, and what refinement adds, for each number of agents."""
    each = by_group_claims if split == "by-group" else random_split_claims
    claims = [Claim(f"{n} agents: {claim.sentence}", claim.holds) for n in agents for claim in each(table, n)]
    return claims + (growth_claims(table, agents) if split == "random" and len(agents) > 1 else [])


def random_split_claims(table: Table, agents: int) -> list[Claim]:
    median = medians(table, agents)
    amps, batch = Compared("AMPS median", median["AMPS"]), Compared("the well-started batch's", median["batch"])
    like = Compared("AMPS median, all agents weakly started,", median["AMPS, weak start"])
    weak = Compared("the weakly started batch's", median["batch, weak start"])
    claims = [
        beats(amps, Compared("the naive merge's", median["naive"]), by=0.15),
        every_agent(table, agents),
        smaller_spread(table, agents),
        no_worse(amps, weak),
        no_worse(like, weak, slack=0.05),
        behind(amps, batch),
        no_worse(Compared("AMPS after two rounds", median[ROUNDS[2]]), batch, slack=0.02, digits=3),
        no_worse(Compared("AMPS after four rounds", median[ROUNDS[4]]), batch, digits=3),
        *slots_to_spare(median),
    ]
    return [claim for claim in claims if claim is not None]


def by_group_claims(table: Table, agents: int) -> list[Claim]:
    median = medians(table, agents)
    amps, refined = Compared("AMPS median", median["AMPS"]), Compared("AMPS after four rounds", median[ROUNDS[4]])
    return [
        beats(amps, Compared("the naive merge's", median["naive"])),
        every_agent(table, agents),
        beats(refined, amps),
        near(refined, Compared("the well-started batch's", median["batch"])),
        *slots_to_spare(median),
    ]


def slots_to_spare(median: dict[str, float]) -> list[Claim]:
    """What three times as many slots gain in one shot, and what they stay behind as many topics fitted in one place."""
    wide = Compared("AMPS into 3K slots", median[WIDE_AMPS])
    gap, left = median["batch"] - median["AMPS"], median["batch"] - median[WIDE_AMPS]
    where = f"stays {number(left, 3)} behind" if left > 0 else f"is {number(-left, 3)} ahead of"
    closed = f"{wide.who} {where} the well-started batch, closing more than half of AMPS's gap of {number(gap, 3)}"
    return [
        beats(wide, Compared("AMPS into K", median["AMPS"]), by=0.05),
        Claim(closed, left < gap / 2),
        behind(wide, Compared("a batch fit of 3K topics", median[WIDE_BATCH])),
    ]


def medians(table: Table, agents: int) -> dict[str, float]:
    setting = f"{agents} agents"
    methods = ("AMPS", WIDE_AMPS, "naive", "agent", "AMPS, weak start", *ROUNDS.values())
    found = {method: table.median(method=method, measure=SCORE, setting=setting) for method in methods}
    found["batch"] = table.median(method="batch", measure=SCORE, member=0)
    for method in ("batch, weak start", WIDE_BATCH):
        found[method] = table.median(method=method, measure=SCORE)
    return found


def every_agent(table: Table, agents: int) -> Claim:
    """In each trial AMPS against the best agent of that trial."""
    rows = table.where(measure=SCORE, setting=f"{agents} agents")
    merged = {row.trial: row.value for row in rows.where(method="AMPS").rows}
    closest = min(
        (value - rows.values(method="agent", trial=trial).max() for trial, value in merged.items()),
        default=float("nan"),
    )
    sentence = f"AMPS beats every individual agent in every trial (the best of them by at least {number(closest)})"
    return Claim(sentence, closest > 0)


def smaller_spread(table: Table, agents: int) -> Claim | None:
    """Only with several trials: one trial has no spread. A range would grow with the number of agents by itself."""
    rows = table.where(measure=SCORE, setting=f"{agents} agents")
    merged, alone = rows.values(method="AMPS"), rows.values(method="agent")
    if len(merged) < 2:
        return None
    return below(
        Compared("Standard deviation of AMPS over trials", float(np.std(merged))),
        Compared("that of the individual agents", float(np.std(alone))),
        digits=3,
    )


def behind(first: Compared, second: Compared) -> Claim:
    """A shortfall, said plainly."""
    gap = number(second.value - first.value, 3)
    sentence = f"{first.who} {number(first.value)} is behind {second.who} {number(second.value)}, by {gap}"
    return Claim(sentence, first.value < second.value)


def near(first: Compared, second: Compared) -> Claim:
    """How far agents with different topics stay from batch."""
    gap = second.value - first.value
    sentence = f"{first.who} {number(first.value)} stays {number(gap, 3)} behind {second.who} {number(second.value)}"
    return Claim(f"{sentence}, less than {number(NEAR)}", gap < NEAR)


def growth_claims(table: Table, agents: Sequence[int]) -> list[Claim]:
    """More agents: a greater advantage over each of them, and more time to align."""
    few, many = min(agents), max(agents)
    gain = {n: medians(table, n)["AMPS"] - medians(table, n)["agent"] for n in (few, many)}
    wait = {n: table.median(measure="alignment seconds", setting=f"{n} agents") for n in (few, many)}
    return [
        below(
            Compared(f"AMPS's lead over its agents with {few} agents,", gain[few]),
            Compared(f"its lead with {many},", gain[many]),
        ),
        below(
            Compared(f"Alignment time in seconds of {few} agents,", wait[few]),
            Compared(f"that of {many},", wait[many]),
        ),
    ]
