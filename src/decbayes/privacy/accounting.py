"""The privacy that releases spend: exact composition of Gaussian noise.

Noise of standard deviation σ on sums that one person changes by at most Δ is μ-private, μ = Δ / σ: telling whether a
person is in the data is at least as hard as telling N(0, 1) from N(μ, 1) by one draw. Releases compose exactly,
μ² = Σ μ_t², and μ-privacy is (ε, δ)-privacy with

    δ(ε) = Φ(μ/2 − ε/μ) − exp(ε) Φ(−μ/2 − ε/μ)

(Balle and Wang, 2018; Dong, Roth and Su, 2022).
"""

from dataclasses import dataclass, fields
from math import exp, expm1, sqrt
from typing import Any, Literal

from decbayes.base.arguments import check_positive, check_whole
from decbayes.errors import InvalidRules

Noise = Literal["each", "shared"]
# The largest μ and ε: beyond it there would be no noise.
MOST = 1e6


def delta_of(epsilon: float, mu: float) -> float:
    """The smallest δ for which μ-privacy is (ε, δ)-privacy."""
    from scipy.special import log_ndtr

    if mu <= 0.0:
        return 0.0
    first, second = log_ndtr(0.5 * mu - epsilon / mu), epsilon + log_ndtr(-0.5 * mu - epsilon / mu)
    return float(exp(first) * -expm1(second - first)) if second < first else 0.0


def mu_of(epsilon: float, delta: float) -> float:
    """The largest μ that (ε, δ) allows."""
    return bisect(lambda mu: delta_of(epsilon, mu) <= delta, 0.0, MOST)


def epsilon_of(mu: float, delta: float) -> float:
    """The smallest ε of μ-privacy at this δ."""
    if delta_of(0.0, mu) <= delta:
        return 0.0
    return -bisect(lambda negative: delta_of(-negative, mu) <= delta, -MOST, 0.0)


def bisect(holds: Any, low: float, high: float) -> float:
    """The largest number for which a condition holds that is true for small numbers and false for large ones."""
    while low < (middle := 0.5 * (low + high)) < high:
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


@dataclass(frozen=True)
class Privacy:
    """A promise to each person: all rounds of all releases together are (ε, δ)-differentially private.

    Two data sets are neighbours if one has one more person, with up to `rows_per_person` rows. With `noise="each"`
    every site adds all of the noise and trusts nobody. With "shared" each of `sites` adds a share, so that their sum
    has the noise once, even if `colluders` of them omit theirs; only a secure sum may see such releases.

    Args:
        epsilon: ε; 1 is strong, 8 is weak.
        delta: δ, well below one over the number of persons.
        noise: "each" or "shared".
        colluders: the number of sites that may collude against the others, with shared noise.
        rows_per_person: the most rows of one person at a site.
        sites: the number of sites that share the noise.

    >>> privacy = db.Privacy(epsilon=1.0, delta=1e-5)
    >>> round(privacy.mu, 3)
    0.268
    >>> print(privacy)
    ε = 1, δ = 1e-05 per person of 1 row, added or removed; every site adds noise
    """

    epsilon: float
    delta: float
    noise: Noise = "each"
    colluders: int = 1
    rows_per_person: int = 1
    sites: int = 0

    def __post_init__(self) -> None:
        check_positive(epsilon=self.epsilon, delta=self.delta)
        if self.delta >= 1.0 or self.epsilon > 100.0:
            raise ValueError("delta is a probability well below 1, such as 1e-6, and epsilon at most 100.")
        if self.noise not in ("each", "shared"):
            raise ValueError(f"noise is 'each' or 'shared', not {self.noise!r}.")
        for name in ("epsilon", "delta"):  # 1 and 1.0 are the same promise, also in files and ledgers
            object.__setattr__(self, name, float(getattr(self, name)))
        check_whole(0, colluders=self.colluders, sites=self.sites)
        check_whole(1, rows_per_person=self.rows_per_person)
        if self.noise == "shared" and self.sites - self.colluders < 2:
            raise ValueError(
                f"Shared noise needs at least two honest sites: sites={self.sites}, colluders={self.colluders}. State "
                "how many sites take part, or use noise='each'."
            )

    @property
    def mu(self) -> float:
        """The promise as μ, of which all rounds together may spend μ² = Σ μ_t²."""
        return mu_of(self.epsilon, self.delta)

    @property
    def honest(self) -> int:
        """The number of sites whose noise a sum is sure to have."""
        return self.sites - self.colluders if self.noise == "shared" else 1

    def same_as(self, other: "Privacy") -> bool:
        """Whether both promise the same; fewer sites may share the noise once some have left."""
        theirs = other.plain()
        return {name for name, value in self.plain().items() if value != theirs[name]} <= {"sites"}

    def __str__(self) -> str:
        rows = "1 row" if self.rows_per_person == 1 else f"up to {self.rows_per_person} rows"
        every = "every site adds noise"
        shared = f"{self.sites} sites share one noise, of whom {self.colluders} may collude"
        who = every if self.noise == "each" else shared
        return f"ε = {self.epsilon:g}, δ = {self.delta:g} per person of {rows}, added or removed; {who}"

    def plain(self) -> dict[str, Any]:
        """The promise as plain values, for files."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @classmethod
    def of(cls, values: Any) -> "Privacy":
        """The promise from the plain values of an untrusted file."""
        try:
            return cls(**values)
        except (TypeError, ValueError) as error:
            raise InvalidRules(f"The promise of privacy cannot be read: {error}") from None


def spent(mus: Any) -> float:
    """The μ of several releases of the same persons together."""
    return sqrt(sum(mu * mu for mu in mus))


def left(budget: Privacy, mus: Any) -> float:
    """The μ that a budget still allows after these releases."""
    rest = budget.mu**2 - sum(mu * mu for mu in mus)
    return sqrt(rest) if rest > 0.0 else 0.0
