"""A whole group as somebody sees it who can look at every agent: a demonstration, a simulation."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

Held = Mapping[str, Mapping[str, int]]
"""For each agent the version of each site that it holds."""

Links = Sequence[tuple[str, str]]


def outside_view(group: str, model: str, members: Sequence[Mapping[str, Any]], links: Links) -> dict[str, Any]:
    """What the page calls a network, without an agent that tells; shares are of the observations."""
    total = sum(member.get("observations", 0) for member in members) or 1
    shares = [{"share": member["observations"] / total} if "observations" in member else {} for member in members]
    return {
        "group": group,
        "model": model,
        "viewpoint": None,
        "members": [{**member, **share} for member, share in zip(members, shares, strict=True)],
        "links": [[*link] for link in links],
        "problems": [f"{member['name']} {flag}" for member in members for flag in member.get("flags", ())],
    }


class Arrivals:
    """Tells which records have come where since the last time, and through whom."""

    def __init__(self) -> None:
        self._before: Held = {}

    def news(self, held: Held, links: Links) -> Iterator[dict[str, Any]]:
        before, self._before = self._before, {agent: dict(versions) for agent, versions in held.items()}
        for agent, versions in held.items():
            for origin, version in versions.items():
                if version == before.get(agent, {}).get(origin):
                    continue
                if origin == agent:
                    yield {"event": "published", "member": agent, "to": agent, "text": f"{agent} has published"}
                    continue
                near = [other for link in links if agent in link for other in link if other != agent]
                through = [other for other in near if held.get(other, {}).get(origin) == version]
                told = {"event": "accepted", "member": origin, "to": agent, "text": f"{agent} has heard of {origin}"}
                yield {**told, "through": through[0] if through else None}
