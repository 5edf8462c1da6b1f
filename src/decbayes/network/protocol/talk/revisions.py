"""Revisions of the protocol. Everything signed names the protocol; every greeting names the revision.

All revisions of a protocol sign and store the same bytes, so charters, stores and decisions survive an update. The
conclusions that agents draw may differ, so agents on different revisions exchange only greetings, and report why.
"""

REVISION = 5
SINCE = {
    2: "votes of a key that was replaced or removed do not complete what was put to the vote before",
    3: "a group can add words to its vocabulary",
    4: "a sum opens without one member's part of the opening, and members can show what they have added",
    5: "notes have sums for many values of a regression's deviations between sites",
}
"""What each revision changed, in one clause."""


def difference(theirs: int) -> str:
    """How a neighbour's revision differs from ours, and who must update; empty if it does not."""
    if theirs == REVISION:
        return ""
    if theirs > REVISION:
        return f"follows revision {theirs} of the protocol, this agent {REVISION}: update this agent"
    changes = ", ".join(SINCE[number] for number in range(theirs + 1, REVISION + 1))
    return f"follows revision {theirs} of the protocol; since {REVISION}, {changes}: update that agent"


def other_release(theirs: str, ours: str) -> bool:
    """Whether two versions of decbayes have different minor versions, whose merges may differ in their last bits."""
    return bool(theirs and ours) and theirs.split(".")[:2] != ours.split(".")[:2]
