"""Coefficients of each site and of the merge, as in a meta-analysis: forest plots, I², τ², and another site."""

from collections.abc import Mapping, Sequence

from decbayes.posterior import Posterior
from decbayes.remarks import too_narrow
from decbayes.reporting.drawing import Line, intervals
from decbayes.reporting.markup import Markup, concat, figure, note, table, tag
from decbayes.views import Estimate, Findings
from decbayes.views.participants import About
from decbayes.views.site_spread import Pooling, pool_sites
from decbayes.views.values import interval_text, number, range_text, told_apart
from decbayes.views.view import LEVEL

MOST_SITES, MOST_TERMS = 60, 24  # in drawings
LONGEST = 18  # characters of a site's name in a drawing
KNOWN = 0.9  # of the prior's standard deviation: above it, a site tells nothing about a term
SMALLEST, LARGEST = 2.5, 6.0  # radii of dots, by the weight of a site
READING = (
    f"Each line is a {LEVEL:.0%} interval: for each site alone, for all sites together, and for a new site. Larger "
    "dots: sites with more information. I² is the share of the variation between sites that is not due to chance; τ² "
    "is the variance between sites (DerSimonian and Laird). Intercepts have neither: they refer to 0 in all terms, "
    "often far from the data, and no site knows much about them."
)
NOT_COMPARED = (
    f"Each line is a {LEVEL:.0%} interval: for each site alone and for all sites together. Larger dots: sites with "
    "more information. I² and τ² are left out:"
)
REFINED = (
    "Single sites are not shown, because after a round their files depend on each other. A report of their first "
    "files shows them, with I² and τ²."
)


def forests(findings: Findings, merged: Sequence[Estimate], about: About) -> Markup:
    """A table of the merged coefficients, with ratios, and a forest plot of each effect."""
    sites, effects = site_estimates(findings), effect_places(merged)
    why = too_narrow(findings.alignment.posteriors)
    compared = () if why else compared_places(merged)
    spread = [pooling(place, sites) if place in compared else None for place in range(len(merged))]
    drawn_sites = sites if len(sites) <= MOST_SITES else {}
    drawings = [
        forest(findings, term, {name: of.get(place) for name, of in drawn_sites.items()}, spread[place], about)
        for place, term in enumerate(merged)
        if place in compared_places(merged)[:MOST_TERMS]
    ]
    more = f" The first {MOST_TERMS} of {len(effects)} effects are drawn." if len(effects) > MOST_TERMS else ""
    reading = REFINED if findings.alignment.refined else ""
    if len(sites) > MOST_SITES:
        more += f" The single sites are not drawn, because there are more than {MOST_SITES}."
    if sites:
        reading = f"{NOT_COMPARED} {why}." if why else READING
    drawn = figure(tag("div", drawings, class_="panels"), f"{reading}{more}")
    return concat([coefficient_table(findings, merged, spread, about), between_sites(findings), drawn])


def site_estimates(findings: Findings) -> dict[str, dict[int, Estimate]]:
    """Each site's coefficients by position, without those that its data tell nothing about.

    Empty if posteriors depend on each other, because they then do not show a site alone.
    """
    if len(findings.sites) < 2 or findings.alignment.refined:
        return {}
    prior = findings.view.estimates(Posterior.of_prior(findings.merged.structure))
    compared = [site for site in findings.sites if findings.evidence[site] >= findings.least]
    alone = {findings.names[site]: findings.view.estimates(findings.alignment.posteriors[site]) for site in compared}
    return {
        name: {
            place: estimate
            for place, (estimate, before) in enumerate(zip(estimates, prior, strict=True))
            if estimate.deviation < KNOWN * before.deviation
        }
        for name, estimates in alone.items()
    }


def pooling(place: int, sites: Mapping[str, Mapping[int, Estimate]]) -> Pooling | None:
    """How far sites differ in the term at this position."""
    known = [estimates[place] for estimates in sites.values() if place in estimates]
    return pool_sites([estimate.mean for estimate in known], [estimate.deviation for estimate in known], LEVEL)


def coefficient_table(
    findings: Findings, merged: Sequence[Estimate], spread: Sequence[Pooling | None], about: About
) -> Markup:
    """Each term: its ratio, if the model has ratios, its coefficient, and how far sites differ."""
    ratios = dict(zip(effect_places(merged), findings.view.ratios(findings.merged), strict=False))
    several = any(pooled is not None for pooled in spread)
    kind = [findings.view.ratio] if ratios else []
    head = ["term", *kind, "coefficient", f"{LEVEL:.0%} interval", *(["I²", "τ²"] if several else [])]
    rows = []
    for place, term in sorted(enumerate(merged), key=lambda pair: pair[1].null is None):  # effects first
        ratio, pooled = ratios.get(place), spread[place]
        shown = [ratio_text(ratio, term) if ratio else "–"] if ratios else []
        differ = [f"{pooled.i_squared:.0%}", number(pooled.tau_squared)] if pooled else ["–", "–"]
        values = [*shown, number(term.mean), range_text(term), *(differ if several else [])]
        rows.append((about.with_unit(term.name), *values))
    modelled = note(f"Models the {findings.view.modelled}.") if findings.view.modelled else None
    # On a phone the last two columns are left out: each drawing has them, too.
    return concat(
        [modelled, tag("div", table(head, rows, right=range(1, len(head))), class_="pooled" if several else None)]
    )


def effect_places(estimates: Sequence[Estimate]) -> list[int]:
    """The positions of effects among all coefficients; levels that predictions start from are no effects."""
    return [place for place, estimate in enumerate(estimates) if estimate.null is not None]


def compared_places(estimates: Sequence[Estimate]) -> Sequence[int]:
    """The positions of coefficients to compare site by site: effects, or all if there are only levels.

    A level beside effects is where all terms are 0: its site estimates are uncertain by extrapolation, and hide how far
    sites differ in their data. The test of differences takes the other coefficients as fixed, and does not.
    """
    return effect_places(estimates) or range(len(estimates))


def ratio_text(ratio: Estimate, term: Estimate) -> str:
    """A ratio; if it is not for one unit, also for how many, as in its name."""
    return f"{interval_text(ratio)}{ratio.name.removeprefix(term.name)}"


def between_sites(findings: Findings) -> Markup | None:
    """How far terms vary between sites, if they may."""
    estimates = findings.view.between(findings.merged)
    rows = [(estimate.name, number(estimate.mean), range_text(estimate)) for estimate in estimates]
    head = ("term that varies", "standard deviation", f"{LEVEL:.0%} interval")
    return table(head, rows, right=(1, 2)) if rows else None


def forest(
    findings: Findings, merged: Estimate, sites: Mapping[str, Estimate | None], pooled: Pooling | None, about: About
) -> Markup:
    """One term: all sites below each other, then the merge, then the value expected at another site."""
    factors = bool(findings.view.ratio) and merged.null is not None
    per = merged.per if factors else 1.0
    known = {name: value for name, value in sites.items() if value is not None}
    short = told_apart([*known], LONGEST)
    heaviest = max((value.deviation**-2 for value in known.values()), default=1.0)
    lines = [
        Line(
            short[name], value.times(per), "", SMALLEST + (LARGEST - SMALLEST) * (value.deviation**-2 / heaviest) ** 0.5
        )
        for name, value in known.items()
    ]
    lines.append(Line("all sites", merged.times(per), "strong", LARGEST))
    if pooled is not None and pooled.prediction is not None:
        lines.append(Line("new site", pooled.prediction.times(per), "expected", 0.0))
    axis = findings.view.ratio if factors else outcome_axis(findings, merged, about)
    axis += f" per {per:g}" if per != 1.0 else ""
    drawing = intervals(
        lines, name=merged.name, width=320.0, gutter=100.0, null=merged.null, factors=factors, axis=axis
    )
    uninformed = [name for name in sites if name not in known]
    unknown = note(f"No information about it: {', '.join(uninformed)}.") if uninformed else None
    text = note(f"I² {pooled.i_squared:.0%}, τ² {number(pooled.tau_squared)}") if pooled else None
    return tag("div", tag("h3", about.with_unit(merged.name)), drawing, text, unknown, class_="panel broad")


def outcome_axis(findings: Findings, term: Estimate, about: About) -> str:
    """What a coefficient is measured in: the outcome's unit, if coefficients are differences of its mean."""
    if findings.view.ratio:
        return "coefficient"
    target = about.with_unit(getattr(findings.view.model, "target", "the outcome"))
    return target if term.null is None else f"difference in {target}"
