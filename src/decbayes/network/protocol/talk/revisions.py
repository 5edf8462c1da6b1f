"""Which rules an agent follows: the protocol's number is in all that is signed, its revision in every greeting.

What is signed and stored is the same in all revisions of a protocol, so charters, stores and decisions are kept.
What agents conclude from it may differ; so agents of two revisions exchange nothing, and say why, until both are
updated.
"""

REVISION = 5
SINCE = {
    2: "votes of a key that was replaced or removed do not complete what was put to the vote before",
    3: "a group can add words to its vocabulary",
    4: "a sum opens without one member's part of the opening, and members can show what they have added",
    5: "notes have sums for many values of a regression's deviations between sites",
}
"""What has changed with each revision, in one clause."""


def difference(theirs: int) -> str:
    """How a neighbour's rules differ from ours, and who has to update; empty if they do not."""
    if theirs == REVISION:
        return ""
    if theirs > REVISION:
        return f"follows revision {theirs} of the protocol, this agent {REVISION}: update this agent"
    changes = ", ".join(SINCE[number] for number in range(theirs + 1, REVISION + 1))
    return f"follows revision {theirs} of the protocol; since {REVISION}, {changes}: update that agent"


def other_release(theirs: str, ours: str) -> bool:
    """Whether two versions of decbayes may merge the same records to different bits: their minor versions differ."""
    return bool(theirs and ours) and theirs.split(".")[:2] != ours.split(".")[:2]
