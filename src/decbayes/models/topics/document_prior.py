"""The prior of a document's topics, θ_d ~ Dirichlet(α), learned along with the topics by Minka's fixed point.

α = c m, with c ~ Gamma and m ~ Dirichlet over the topics. For the expected counts n_k of a document, n in all,

    lnΓ(c) − lnΓ(c + n) + Σ_k lnΓ(α_k + n_k) − lnΓ(α_k)  ≥  Σ_k t_k log α_k − r c + constant
    t_k = α_k (ψ(α_k + n_k) − ψ(α_k)),    r = ψ(c + n) − ψ(c)

with equality at the α in t and r. The right-hand side is conjugate to m and c. So Σ_d t and Σ_d r are ordinary
contributions: they add up over documents and sites, and a merge learns α from all of them. Each pass sets α to
E[c] E[m], which never lowers the bound.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import digamma

from decbayes.base.arguments import as_shape, check_positive
from decbayes.errors import InvalidStructure
from decbayes.families import Array, Family, Gamma, Shares, dense
from decbayes.models.core.information import Tally
from decbayes.posterior import Posterior

SHARES, CONCENTRATION = "shares", "concentration"
FAMILIES: Mapping[str, Family] = {SHARES: Shares(), CONCENTRATION: Gamma()}

# Weight of the prior of c and m, in documents: before any document c is 1 and α = 1 / K.
WEIGHT = 1.0

# The document prior during the search for the number of topics.
SEARCHING = 0.1


def checked_prior(given: Any) -> Any:
    """One number for all topics, a tuple of one for each, or "learn"."""
    if isinstance(given, str):
        if given != "learn":
            raise ValueError(
                f"document_prior must be a positive number, one number per topic, or 'learn'; not {given!r}."
            )
        return given
    if np.ndim(given) == 1:
        return tuple(as_shape("document_prior", given, np.shape(given), above=0.0).tolist())
    check_positive(document_prior=given)
    return float(given)


def checked_number(given: Any, topics: int | str) -> None:
    """Refuse a prior for another number of topics, or for a number yet to be found."""
    if not isinstance(given, tuple):
        return
    if topics == "auto":
        raise InvalidStructure("topics='auto' needs a document_prior that is one number for all topics, or 'learn'.")
    if len(given) != topics:
        raise InvalidStructure(f"document_prior has {len(given)} numbers for {topics} topics.")


def factors(topics: int) -> dict[str, Array]:
    """The prior of m and c."""
    return {
        SHARES: Shares().natural(alpha=np.full(topics, WEIGHT)),
        CONCENTRATION: Gamma().natural(shape=[[WEIGHT]], rate=[[WEIGHT]]),
    }


@dataclass(frozen=True)
class LearnedPrior:
    """The evidence about α before the documents at hand: a Dirichlet of the shares, a Gamma of the concentration."""

    shares: Array
    shape: float
    rate: float

    @classmethod
    def of(cls, posterior: Posterior) -> "LearnedPrior":
        (shares,) = Shares().columns(posterior.natural[SHARES])
        shape, rate = Gamma().columns(posterior.natural[CONCENTRATION])
        return cls(shares, float(shape[0, 0]), float(rate[0, 0]))

    @property
    def nothing(self) -> Array:
        """Sums over no documents."""
        return np.zeros(len(self.shares) + 1)

    def alpha(self, sums: Array) -> Array:
        """E[c] E[m], given sums over documents: t of each topic, and r."""
        shares = self.shares + sums[:-1]
        return np.asarray((self.shape + sums[:-1].sum()) / (self.rate + sums[-1]) * shares / shares.sum())

    def log_density(self, alpha: Array) -> float:
        """The term of the bound from the prior of α, up to a constant."""
        total = alpha.sum()
        return float(self.shares @ np.log(alpha / total) + self.shape * np.log(total) - self.rate * total)


def table_sums(gamma: Array, alpha: Array) -> Array:
    """(K + 1,): Σ_d t of each topic, and Σ_d r. Documents are Dirichlet(γ), with γ = α + n."""
    tables = alpha * (digamma(gamma) - digamma(alpha)).sum(axis=0)
    return np.append(tables, (digamma(gamma.sum(axis=1)) - digamma(alpha.sum())).sum())


def sums_of(alpha: Array, lengths: Array) -> Array:
    """Sums whose fixed point is α, for documents of these lengths: to import what another library has learned."""
    rate = float((digamma(alpha.sum() + lengths) - digamma(alpha.sum())).sum())
    return np.append(rate * alpha, rate)


def with_tables(posterior: Posterior, topics: Tally) -> Tally:
    """Extend the topics' tally by t: two factors hold its sum, and per document it is at most n, or 1."""
    tables, (shape, _) = dense(posterior.contribution[SHARES]), dense(posterior.contribution[CONCENTRATION])[0]
    within = {**topics.within, SHARES: tables}
    return replace(topics, differences={CONCENTRATION: tables.sum() - np.array([shape])}, within=within, loose=1.0)


def contributions(sums: Array) -> dict[str, Array]:
    """What sums over documents add to the two factors."""
    tables, rate = sums[:-1], sums[-1]
    return {SHARES: tables[:, None], CONCENTRATION: np.array([[tables.sum(), -rate]])}
