"""Shares of topics in a site's documents, by period: sums that add up across sites, and their intervals.

Each document has a share of each topic: the expected part of its words that the topic accounts for. A group of
documents (a site, a period) reports its size, and sums and squares of these shares. They add up; means and standard
errors follow from them. Groups that are too small are left out, and so are topics of too few documents in a group.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from operator import add
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from decbayes.base.arguments import check_level
from decbayes.errors import InvalidData, StructureMismatch
from decbayes.families import Array
from decbayes.models.core.model import Row
from decbayes.models.core.persons import EACH, Persons
from decbayes.models.core.registry import model_for
from decbayes.models.topics.quality import Quality
from decbayes.posterior import Posterior

FORMAT = "decbayes prevalence 1"
ALL = ""

Key = tuple[str, str]
"""Site and period; an empty string means all of them."""


@dataclass(frozen=True)
class Group:
    """Documents of one site and period: how many, and sums and squares of their shares of topics."""

    documents: int
    sums: Array
    squares: Array

    def __add__(self, other: "Group") -> "Group":
        return Group(self.documents + other.documents, self.sums + other.sums, self.squares + other.squares)


@dataclass(frozen=True)
class Prevalence:
    """Shares of topics by site and period, which add up across sites.

    >>> words = ["ball", "goal", "team", "vote", "party", "law"]
    >>> counts = np.array([[5, 4, 3, 0, 0, 0], [0, 0, 0, 4, 5, 3]] * 20)
    >>> posterior = db.LatentDirichletAllocation(2, words).fit(counts, rng=0).posterior
    >>> north = db.texts.prevalence(posterior, counts[:30], site="north")
    >>> south = db.texts.prevalence(posterior, counts[:12], site="south")
    >>> [round(row["share"], 2) for row in (north + south).rows(posterior) if row["site"] == "north"]
    [0.5, 0.5]
    """

    posterior: str
    groups: Mapping[Key, Group] = field(default_factory=dict)

    def __add__(self, other: "Prevalence") -> "Prevalence":
        if self.posterior != other.posterior:
            raise StructureMismatch("These shares are of other topics: all sites must use the same merge.")
        twice = sorted(site for site, _ in self.groups.keys() & other.groups.keys())
        if twice:
            raise StructureMismatch(f"The site {twice[0] or 'without a name'} is given twice. Name sites differently.")
        return Prevalence(self.posterior, {**self.groups, **other.groups})

    @property
    def sites(self) -> list[str]:
        return sorted({site for site, _ in self.groups})

    @property
    def periods(self) -> list[str]:
        return sorted({period for _, period in self.groups})

    def group(self, site: str | None = None, period: str | None = None) -> Group | None:
        """The documents of one site or all, of one period or all; None if there are none."""
        chosen = [
            group
            for (of_site, of_period), group in self.groups.items()
            if site in (None, of_site) and period in (None, of_period)
        ]
        return reduce(add, chosen) if chosen else None

    def rows(self, posterior: Posterior, *, level: float = 0.9) -> list[Row]:
        """The share of each topic in all documents, by site, and by period, with intervals."""
        check_level(level)
        if posterior.digest != self.posterior:
            raise StructureMismatch("These shares are of other topics: give the merge that they were counted for.")
        names = Quality(posterior).names
        asked: list[tuple[str | None, str | None]] = [(None, None)]
        asked += [(site, None) for site in self.sites] if len(self.sites) > 1 else []
        asked += [(None, period) for period in self.periods] if len(self.periods) > 1 else []
        rows: list[Row] = []
        for site, period in asked:
            group = self.group(site, period)
            if group is None:
                continue
            share, low, high = interval(group, level)
            rows += [
                {
                    "site": "all" if site is None else site,
                    "period": "all" if period is None else period,
                    "topic": topic,
                    "name": names[topic],
                    "share": float(share[topic]),
                    "low": float(low[topic]),
                    "high": float(high[topic]),
                    "documents": group.documents,
                }
                for topic in range(len(share))
            ]
        return rows

    def plain(self) -> dict[str, Any]:
        """As JSON has it."""
        groups = [
            {
                "site": site,
                "period": period,
                "documents": group.documents,
                "sums": [round(float(value), 6) for value in group.sums],
                "squares": [round(float(value), 6) for value in group.squares],
            }
            for (site, period), group in sorted(self.groups.items())
        ]
        return {"format": FORMAT, "posterior": self.posterior, "groups": groups}

    @classmethod
    def of_plain(cls, stored: Any) -> "Prevalence":
        """Read the output of `plain`; refuse anything else."""
        try:
            if stored["format"] != FORMAT or not isinstance(stored["posterior"], str):
                raise ValueError
            groups = dict(map(group_of, stored["groups"]))
        except (KeyError, TypeError, ValueError):
            raise InvalidData("This does not hold shares of topics, as `decbayes prevalence` writes them.") from None
        return cls(stored["posterior"], groups)


def group_of(stored: Any) -> tuple[Key, Group]:
    site, period, documents = stored["site"], stored["period"], stored["documents"]
    sums, squares = (np.array(stored[name], dtype=np.float64) for name in ("sums", "squares"))
    proper = (
        isinstance(site, str)
        and isinstance(period, str)
        and type(documents) is int
        and documents > 0
        and sums.ndim == 1
        and sums.shape == squares.shape
        and bool(np.isfinite(sums).all() and np.isfinite(squares).all())
        and bool((sums >= 0.0).all() and (squares >= 0.0).all() and (squares <= sums + 1e-3).all())
        and float(sums.sum()) <= documents * (1.0 + 1e-3) + 1e-3
    )
    if not proper:
        raise ValueError
    return (site, period), Group(documents, sums, squares)


def interval(group: Group, level: float) -> tuple[Array, Array, Array]:
    """The mean share of each topic, and bounds from the spread of shares between documents."""
    count = group.documents
    share = group.sums / count
    variance = np.maximum(group.squares / count - share**2, 0.0) * count / max(count - 1, 1)
    # Half a document with and half without the topic, so that nothing is certain in small groups.
    error = np.sqrt((variance + 0.25 / count) / count)
    width = float(ndtri(0.5 + 0.5 * level)) * error
    return share, np.maximum(share - width, 0.0), np.minimum(share + width, 1.0)


def prevalence(
    posterior: Posterior,
    data: Any,
    *,
    site: str = "",
    periods: Sequence[str] | None = None,
    least: int = 0,
    persons: Persons = EACH,
) -> Prevalence:
    """The shares of topics in a site's documents, by period if given.

    Args:
        posterior: the merged topics, the same at all sites.
        data: documents × words counts over the posterior's words.
        periods: the period of each document, such as its month.
        least: groups of fewer documents or persons are left out, and topics that rest on fewer documents count as none.

    >>> words = ["ball", "goal", "team", "vote", "party", "law"]
    >>> counts = np.array([[5, 4, 3, 0, 0, 0], [0, 0, 0, 4, 5, 3]] * 20)
    >>> posterior = db.LatentDirichletAllocation(2, words).fit(counts, rng=0).posterior
    >>> shares = db.texts.prevalence(posterior, counts, periods=["2023"] * 20 + ["2024"] * 20)
    >>> shares.periods
    ['2023', '2024']
    """
    model: Any = model_for(posterior.structure)
    shares, known = word_shares(model, posterior, data)
    labels = np.array([ALL] * len(shares) if periods is None else periods, dtype=object)
    if len(labels) != len(shares):
        raise InvalidData(f"There are {len(labels)} periods and {len(shares)} documents.")
    groups: dict[Key, Group] = {}
    for period in sorted(set(labels.tolist())):
        selected = (labels == period) & known
        if selected.any() and persons.among(selected) >= max(least, 1):
            groups[site, period] = counted(shares[selected], least)
    return Prevalence(posterior.digest, groups)


def word_shares(model: Any, posterior: Posterior, data: Any) -> tuple[Array, NDArray[np.bool_]]:
    """(documents, topics): the expected part of each document's words, and which documents have known words.

    The prior's part of a document's topics is removed: it would pull all groups together.
    """
    alpha = model.document_prior_of(posterior)
    words = np.asarray(model.units(data), dtype=np.float64)
    expected = model.assign(posterior, data) * (words[:, None] + alpha.sum()) - alpha
    return np.clip(expected / np.maximum(words, 1.0)[:, None], 0.0, 1.0), words > 0.0


def counted(shares: Array, least: int) -> Group:
    """Sums over documents; topics that rest on too few of them count as none."""
    sums, squares = shares.sum(axis=0), (shares**2).sum(axis=0)
    # (Σ s)² / Σ s² is the number of documents if some have equal shares and the others none.
    enough = sums**2 >= least * squares
    return Group(len(shares), np.where(enough, sums, 0.0), np.where(enough, squares, 0.0))


def added(parts: Iterable[Prevalence]) -> Prevalence:
    """Combine the shares of all sites."""
    return reduce(add, parts)
