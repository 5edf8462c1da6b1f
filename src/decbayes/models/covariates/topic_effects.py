"""Effects of covariates on shares of topics: Dirichlet-multinomial regression over sites, in one or two messages each.

    θ_d ~ Dirichlet(α_d),   log α_dk = x_d β_k,   β ~ N(prior)

The topics of a merge are treated as known. A site expands the log-likelihood of its documents to second order in all
coefficients: first around its own estimate, with a prior that it removes again, and in further rounds around the joint
estimate. Quadratics add up over sites. Rounds converge to the fit of all documents, mostly after the first.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri, softmax

from decbayes.base.arguments import check_level
from decbayes.columns import Column, coded
from decbayes.columns.frames import pooled, rows_in
from decbayes.errors import InvalidData, InvalidStructure, StructureMismatch
from decbayes.families import Array
from decbayes.models.core.counts import checked_matrix
from decbayes.models.core.model import Row
from decbayes.models.core.persons import EACH, Persons
from decbayes.models.core.registry import model_for
from decbayes.models.covariates.document_likelihood import Documents, Expansion
from decbayes.models.covariates.effect_messages import FORMAT, Message, Plan, clipped, plan_of_plain, with_years
from decbayes.models.regressions.formulas.design import comparable
from decbayes.models.regressions.messages.one_broadcast import Quadratic
from decbayes.models.topics.quality import Quality
from decbayes.posterior import Posterior

# Prior variance of each coefficient, in agreed units; and that of a site's first fit, which is removed again.
PRIOR, ANCHOR = 10.0, 1.0
# A site's fit ends when no coefficient moves by more than STILL, or after PASSES passes.
STILL, PASSES, HALVINGS = 1e-4, 40, 8
# Standard deviations by which an estimated likelihood must fall to count as lower.
SURE = 3.0


@dataclass(frozen=True)
class Effects:
    """Messages of one or several sites about effects of covariates on topics; they add up.

    >>> words = ["ball", "goal", "team", "vote", "party", "law"]
    >>> counts = np.array([[5, 4, 3, 0, 0, 0]] * 20 + [[0, 0, 0, 4, 5, 3]] * 20)
    >>> topics = db.LatentDirichletAllocation(2, words).fit(counts, rng=0).posterior
    >>> north = db.texts.effects(topics, counts, {"year": [2023] * 18 + [2024] * 22}, "year", site="north")
    >>> south = db.texts.effects(topics, counts, {"year": [2023] * 22 + [2024] * 18}, given=north, site="south")
    >>> sorted(row["ratio"] > 1 for row in (north + south).rows(topics))
    [False, True]
    """

    plan: Plan
    messages: Mapping[str, Message]

    def __add__(self, other: "Effects") -> "Effects":
        if self.plan != other.plan:
            raise StructureMismatch(
                "These sites used other topics, covariates or terms. All take the merge, the columns and the formula "
                "of the first site."
            )
        twice = sorted(self.messages.keys() & other.messages.keys())
        if twice:
            raise StructureMismatch(f"The site {twice[0] or 'without a name'} is given twice. Name sites differently.")
        return Effects(self.plan, {**self.messages, **other.messages})

    @property
    def sites(self) -> list[str]:
        return sorted(self.messages)

    @property
    def documents(self) -> int:
        return sum(message.documents for message in self.messages.values())

    def estimate(self, posterior: Posterior) -> tuple[Array, Array]:
        """Mean (topics × coefficients,) and covariance of all coefficients, given all sites in this object.

        The covariance is the sandwich V (P0 + Σ u uᵀ) V, where V is that of the quadratic and P0 the prior precision:
        it is also valid if shares do not vary as the model says.
        """
        whole = prior_of(self.plan, posterior, PRIOR)
        middle = whole.precision
        for site in self.sites:
            likelihood = self.messages[site].likelihood
            if likelihood.shift.shape != whole.shift.shape:
                raise InvalidData(f"The file of {site or 'a site'} has another number of topics than the merge.")
            whole, middle = whole + likelihood, middle + self.messages[site].spread
        mean, covariance = whole.moments()
        return mean, covariance @ middle @ covariance

    def moved(self, earlier: "Effects", posterior: Posterior) -> float:
        """The largest change of estimates since `earlier`, in posterior standard deviations."""
        (mean, covariance), (before, _) = self.estimate(posterior), earlier.estimate(posterior)
        return float(np.max(np.abs(mean - before) / np.sqrt(np.diag(covariance))))

    def rows(self, posterior: Posterior, *, level: float = 0.9) -> list[Row]:
        """The effect of one unit of each covariate on the share of each topic, with intervals.

        `share` is that of a document with covariates at their centres or first categories, `then` that after the
        change, and `ratio` the ratio of the two, between `low` and `high`. Categories are compared with the first one;
        a number changes by `per`, a date by a year.
        """
        check_level(level)
        mean, covariance = self.estimate(posterior)
        names, design = Quality(posterior).names, self.plan.design
        side = len(design.labels)
        reach = float(ndtri(0.5 + 0.5 * level))
        rows: list[Row] = []
        for place, label in enumerate(design.labels[1:], start=1):
            per = comparable(1.0 / design.units[place])
            change = changed_shares(mean, covariance, side, place, per / design.units[place])
            for topic, (share, then, deviation) in enumerate(zip(*change, strict=True)):
                ratio, width = then / share, np.exp(reach * deviation)
                row: Row = {"topic": topic, "name": names[topic], "term": label, "per": per}
                numbers = {"share": share, "then": then, "ratio": ratio, "low": ratio / width, "high": ratio * width}
                rows.append({**row, **{name: float(number) for name, number in numbers.items()}})
        return rows

    def plain(self) -> dict[str, Any]:
        """As JSON has it."""
        sites = {site: self.messages[site].plain() for site in self.sites}
        return {"format": FORMAT, **self.plan.plain(), "sites": sites}

    @classmethod
    def of_plain(cls, stored: Any) -> "Effects":
        """Read the output of `plain`; refuse anything else."""
        try:
            if stored["format"] != FORMAT or not stored["sites"]:
                raise ValueError
            plan = plan_of_plain(stored)
            side = len(plan.design.labels)
            return cls(plan, {str(site): Message.of_plain(part, side) for site, part in stored["sites"].items()})
        except (KeyError, TypeError, ValueError, AttributeError, InvalidStructure):
            raise InvalidData("This does not hold effects on topics, as `decbayes prevalence` writes them.") from None


def changed_shares(mean: Array, covariance: Array, side: int, place: int, step: float) -> tuple[Array, Array, Array]:
    """Shares of topics at the centre, shares after a step in one number, and the deviation of their log ratios."""
    coefficients = mean.reshape(-1, side)
    centre, moved = np.eye(side)[0], np.eye(side)[0] + step * np.eye(side)[place]
    before, after = softmax(coefficients @ centre), softmax(coefficients @ moved)
    topics = np.arange(len(before))
    slopes = np.broadcast_to(
        before[:, None] * centre - after[:, None] * moved, (len(before), *coefficients.shape)
    ).copy()
    slopes[topics, topics] += moved - centre
    slopes = slopes.reshape(len(before), -1)
    return before, after, np.sqrt(np.einsum("ki,ij,kj->k", slopes, covariance, slopes))


def prior_of(plan: Plan, posterior: Posterior, variance: float) -> Quadratic:
    """A prior around no effects and the document prior of the topics."""
    if posterior.digest != plan.posterior:
        raise StructureMismatch("These effects are on other topics: give the merge that they were found for.")
    model: Any = model_for(posterior.structure)
    centre = np.zeros((len(posterior.structure.prior["topics"]), len(plan.design.labels)))
    centre[:, 0] = np.log(model.document_prior_of(posterior))
    return Quadratic(centre.ravel() / variance, np.eye(centre.size) / variance)


class Prepared(NamedTuple):
    """Documents with known words and covariates, the design matrix, and the topics that may be reported."""

    documents: Documents
    design: Array
    topics: NDArray[np.bool_] | None = None

    def expand(self, coefficients: Array, before: Array | None = None) -> Expansion:
        linear = self.design @ coefficients.reshape(-1, self.design.shape[1]).T
        return self.documents.at(np.exp(np.clip(linear, -30.0, 30.0)), self.topics, before)

    def quadratic(self, coefficients: Array, expansion: Expansion) -> Quadratic:
        """The log-likelihood around these coefficients, topic by topic."""
        count, topics = expansion.slopes.shape
        side = self.design.shape[1]
        squares = (self.design[:, :, None] * self.design[:, None, :]).reshape(count, side * side)
        blocks = expansion.weights.reshape(count, topics * topics).T @ squares
        precision = blocks.reshape(topics, topics, side, side).transpose(0, 2, 1, 3).reshape(topics * side, -1)
        precision = clipped(precision)
        return Quadratic((expansion.slopes.T @ self.design).ravel() + precision @ coefficients, precision)

    def spread(self, expansion: Expansion, persons: Persons) -> Array:
        """Σ u uᵀ, where u are the slopes of all documents of a person."""
        slopes = (expansion.slopes[:, :, None] * self.design[:, None, :]).reshape(len(expansion.slopes), -1)
        summed, side = persons.summed(slopes), self.design.shape[1]
        return np.asarray(summed.T @ summed * (len(summed) / max(len(summed) - side, 1)), dtype=np.float64)

    def fit(self, prior: Quadratic) -> tuple[Array, Expansion]:
        """The most probable coefficients, by Newton's method; steps are halved while the likelihood clearly falls.

        With some topics only, there are slopes but no height: steps are then not halved.
        """
        coefficients = prior.moments()[0]
        expansion = self.expand(coefficients)

        def height(at: Array, there: Expansion) -> float:
            return float(there.height.sum() + prior.shift @ at - 0.5 * at @ prior.precision @ at)

        for _ in range(PASSES):
            step = (self.quadratic(coefficients, expansion) + prior).moments()[0] - coefficients
            share = min(1.0, 2.0 / float(np.abs(step).max(initial=1e-300)))
            for _ in range(HALVINGS):
                proposal = coefficients + share * step
                trial = self.expand(proposal, expansion.gamma)
                unsure = SURE * np.sqrt(trial.noise.sum() + expansion.noise.sum())
                least = height(coefficients, expansion) - unsure - 1e-6
                if self.topics is not None or height(proposal, trial) >= least:
                    break
                share *= 0.5
            coefficients, expansion = proposal, trial
            if share * np.abs(step).max() < STILL:
                break
        return coefficients, expansion


def effects(
    posterior: Posterior,
    data: Any,
    covariates: Any,
    formula: str = "",
    *,
    site: str = "",
    given: Effects | None = None,
    columns: Mapping[str, Column] | None = None,
    least: int = 0,
    persons: Persons = EACH,
) -> Effects:
    """A site's message about the effects of covariates on the shares of topics.

    Args:
        posterior: the merged topics, the same at all sites.
        data: documents × words counts over the posterior's words.
        covariates: a frame with one row per document.
        formula: terms of covariates, such as "year + paper" or "ns(year, df=3) * paper"; `given` may have it.
        given: effects of other sites, whose columns and terms are used; if this site is among them, the next round.
        columns: what the covariates hold, if sites have agreed on that.
        least: categories of fewer persons are pooled, and topics that rest on fewer are not reported.

    >>> words = ["ball", "goal", "team", "vote", "party", "law"]
    >>> counts = np.array([[5, 4, 3, 0, 0, 0]] * 20 + [[0, 0, 0, 4, 5, 3]] * 20)
    >>> topics = db.LatentDirichletAllocation(2, words).fit(counts, rng=0).posterior
    >>> found = db.texts.effects(topics, counts, {"paper": ["Herald", "Times"] * 20}, "paper")
    >>> [(row["term"], row["low"] < 1 < row["high"]) for row in found.rows(topics)]
    [('paper=Times', True), ('paper=Times', True)]
    """
    model: Any = model_for(posterior.structure)
    frame = with_years(covariates)
    if given is None and not formula:
        raise InvalidStructure("Name covariates, as in 'year + paper'; or give what another site has found.")
    plan = Plan.of(posterior.digest, frame, formula, columns) if given is None else given.plan
    if given is not None and formula and Plan.of(posterior.digest, frame, formula, given.plan.columns) != plan:
        raise StructureMismatch(f"The others look at '{' + '.join(plan.terms)}'. Leave the formula out.")
    counts = checked_matrix(model.opened(data), len(model.vocabulary))
    if rows_in(frame) != counts.shape[0]:
        raise InvalidData(f"There are {rows_in(frame):,} rows of covariates and {counts.shape[0]:,} documents.")
    topics = np.ascontiguousarray(posterior.mean("topics").T)
    points = coded(frame, plan.columns)
    complete = np.flatnonzero((Documents(counts, topics).words > 0) & ~np.isnan(points).any(axis=1))
    persons = persons.checked(counts.shape[0]).taken(complete)
    points = points[complete]
    if least and len(points):
        _, points, _ = pooled(points, plan.columns, persons.counts, [least], agreed=True, predictors=True)
    prepared = Prepared(Documents(counts[complete], topics), plan.design.matrix(points))
    check_enough(len(complete), prepared.design.shape[1], least, persons)
    previous = given if given is not None and site in given.messages else None
    joint = prior_of(plan, posterior, PRIOR).moments() if previous is None else previous.estimate(posterior)
    coefficients = joint[0]
    prepared = prepared._replace(topics=reportable_topics(prepared, coefficients, least, persons))
    if previous is None:
        coefficients, expansion = prepared.fit(prior_of(plan, posterior, ANCHOR))
    else:
        expansion = prepared.expand(coefficients)
    number = 0 if previous is None else 1 + max(message.round for message in previous.messages.values())
    likelihood, spread = prepared.quadratic(coefficients, expansion), prepared.spread(expansion, persons)
    return Effects(plan, {site: Message(len(complete), number, likelihood, spread)})


def check_enough(documents: int, coefficients: int, least: int, persons: Persons) -> None:
    people = persons.total(documents)
    if documents == 0:
        raise InvalidData("No document has both a known word and all covariates.")
    if people < least * coefficients:
        raise InvalidData(
            f"{coefficients} coefficients per topic of {people} persons or documents: at least {least} per coefficient "
            "are needed, or single ones could be read from the file. Use fewer terms."
        )


def reportable_topics(prepared: Prepared, place: Array, least: int, persons: Persons) -> NDArray[np.bool_] | None:
    """Topics with words in enough documents, also among those of each category.

    (Σ s)² / Σ s² is the number of persons if some have equal shares and the others none.
    """
    if not least:
        return None
    linear = prepared.design @ place.reshape(-1, prepared.design.shape[1]).T
    alpha = np.exp(np.clip(linear, -30.0, 30.0))
    gamma = prepared.documents.at(alpha).gamma
    shares = np.clip((gamma - alpha) / prepared.documents.words[:, None], 0.0, 1.0)
    flags = [column for column in prepared.design.T if np.isin(column, (0.0, 1.0)).all()]
    groups = [group for column in flags for group in (column == 1.0, column == 0.0) if group.any()]
    enough = np.ones(shares.shape[1], dtype=np.bool_)
    for group in groups:
        summed = persons.taken(np.flatnonzero(group)).summed(shares[group])
        enough &= summed.sum(axis=0) ** 2 >= least * (summed**2).sum(axis=0)
    if enough.sum() < 2:
        raise InvalidData(f"Nearly all topics rest on fewer than {least} documents here. Use fewer or larger groups.")
    return enough
