"""The sections of a report, in the order in which people ask: what stands out, what was found, who has it."""

import platform
from importlib.metadata import version
from shlex import join

import numpy as np

import decbayes
from decbayes.merging import fillings
from decbayes.models.mixtures.gaussian import GaussianMixture
from decbayes.models.regressions.regression import Regression
from decbayes.models.tables.tabular import Tabular
from decbayes.reporting.branches import dendrogram
from decbayes.reporting.cards import Shape, cards, supported
from decbayes.reporting.coefficients import coefficients, means_table
from decbayes.reporting.findings import Findings
from decbayes.reporting.markup import Markup, joined, left_out, lines_of, note, number, table, tag
from decbayes.reporting.matrices import matrix
from decbayes.reporting.mixtures import mixture
from decbayes.reporting.profiles import profiles
from decbayes.reporting.remarks import CHECKED, Remark, remarks
from decbayes.symmetry import CoupledSet

MOST_SITES, MOST_CLOSE = 100, 40
DIGITS = 12  # of a fingerprint
PROVEN = {
    "none": "nothing: a better alignment may exist",
    "swap": "no exchange of two components of one site is better",
    "site": "no relabelling of one site is better",
    "global": "no relabelling at all is better",
}
SURENESS = {
    "margin": "margin: what the objective loses, in nats, if the match must go elsewhere. It is no probability.",
    "probability": "probability: how often such a match was right in simulations that take the merge for the truth and "
    "have sites like these. Where sites see overlapping things in part, it is too high.",
}
GLOSSARY = (
    "A site holds data; only its posterior was merged. A component is what a site found. In the merge, components of "
    "all sites that are the same thing share one number.",
    "{sureness}",
    "apart: nats per observation that a site's version of a component loses by the merge.",
    "Intervals and standard deviations are those of variational Bayes ({uncertainty}), and often too narrow.",
    "This report shows nothing but what posterior files hold, and quotes no data. Still, a component that rests on "
    "very few observations may describe them closely.",
)


def figures(found: Findings) -> Markup:
    """The few numbers that everybody asks for first."""
    several = len(found.sites) > 1
    shown = {"sites" if several else "site": float(len(found.sites)), found.unit: float(found.evidence.sum())}
    if found.sets:
        shown["components"] = float(sum((each.evidence.sum(axis=0) > 0).sum() for each in found.shared.values()))
    if found.sets and several:
        shown["close calls"] = float(sum(sure.close.sum() for sure in found.sureness.values()))
    if several:
        shown["sites that stand out"] = float(sum(bool(found.influence.flags(site)) for site in found.sites))
    boxes = [tag("div", tag("b", number(value)), tag("span", name)) for name, value in shown.items()]
    return tag("div", boxes, class_="figures")


def attention(found: Findings) -> Markup:
    """What deserves a look, with remedies."""
    told = remarks(found)
    if not told:
        return tag("p", f"Nothing stands out. Looked for: {CHECKED}.")
    return tag("ul", map(item, told), class_="remarks")


def item(remark: Remark) -> Markup:
    look = "serious" if remark.serious else None
    return tag("li", tag("b", remark.what), tag("span", remark.remedy), class_=look)


def components(found: Findings, shape: Shape | None) -> Markup:
    """What was found, as people want to see it."""
    parts = [overview(found, shape)]
    for coupled in found.sets:
        title = tag("h3", " + ".join(coupled.factors)) if len(found.sets) > 1 else None
        parts += [title, note(f"{supported(found, coupled)}."), readable(found), cards(found, coupled, shape)]
    return joined(parts)


def readable(found: Findings) -> Markup | None:
    """How different topics are and, where sites have counted, how coherent."""
    if found.quality is None:
        return None
    coherence = [found.counted.said(found.quality.used)] if found.counted is not None else []
    text = "; ".join([found.quality.said(), *coherence])
    return note(f"{text[0].upper()}{text[1:]}.")


def overview(found: Findings, shape: Shape | None) -> Markup | None:
    """All components in one drawing, where the model has one."""
    model, merged = found.model, found.merged
    if isinstance(model, Regression):
        return coefficients(found, model)
    if isinstance(model, Tabular):
        return profiles(model, merged, found.visible)
    if isinstance(model, GaussianMixture) and shape is None:
        return mixture(model, merged, found.visible)
    return None if found.sets and model is not None else means_table(found)


def support(found: Findings) -> Markup:
    """Sites × components, then the matches that are close calls."""
    return joined([[matrix(found, coupled), close_calls(found, coupled)] for coupled in found.sets])


def close_calls(found: Findings, coupled: CoupledSet) -> Markup | None:
    """The least sure matches, least sure first."""
    sure, cells = found.sureness[coupled], fillings(found.alignment, coupled)
    places = [(int(site), int(slot)) for site, slot in np.argwhere(sure.close)]
    if not places:
        return None
    first = sorted(places, key=lambda place: sure.values[place])[:MOST_CLOSE]
    evidence = found.shared[coupled].evidence
    rows = [
        (
            found.names[p[0]],
            "+".join(map(str, cells[p[0]][p[1]])),
            p[1],
            number(sure.values[p]),
            number(evidence[p]),
        )
        for p in first
    ]
    shown = table(("site", "its component", "went into", sure.name, found.unit), rows, right=(3, 4))
    more = left_out(len(places) - len(rows), "further close calls are")
    return joined([tag("h3", f"Close calls ({sure.limit})"), shown, more])


def sites(found: Findings) -> Markup:
    """What was merged: each file, what it holds, and how it agrees with the others."""
    influence, evidence = found.influence, found.evidence
    first = sorted(found.sites, key=lambda site: not influence.flags(site))[:MOST_SITES]
    rows = [
        (
            found.names[site],
            tag("code", found.alignment.posteriors[site].digest[:DIGITS]),
            own_components(found, site),
            number(evidence[site]),
            joined([bar(influence.share[site], influence.share.max()), share_text(influence.share[site])]),
            number(float(influence.log_bayes_factor[site].sum())),
            f"{influence.apart[site]:.0%}",
            tag("span", "; ".join(influence.flags(site)) or "–", class_="flags" if influence.flags(site) else None),
        )
        for site in found.sites
        if site in set(first)
    ]
    head = ("site", "posterior", "components", found.unit, "share", "log BF", "against", "stands out")
    more = left_out(len(found.sites) - len(rows), "further sites, of which none stands out, are")
    told = (
        f"share: of all evidence, in {found.unit}. log BF: nats for the site's components being the same things as the "
        "others' (below 0: they are not). against: the share of its evidence that speaks against the others'."
    )
    return joined([table(head, rows, right=(2, 3, 4, 5, 6)), more, note(told)])


def share_text(share: float) -> Markup:
    return tag("span", f"{share:.1%}", class_="share-of")


def bar(share: float, longest: float) -> Markup:
    size = f"width:{100 * share / (longest or 1.0):.0f}%"
    return tag("span", tag("i", style=size), class_="meter short", aria_hidden="true")


def own_components(found: Findings, site: int) -> str:
    structure = found.alignment.posteriors[site].structure
    return ", ".join(str(structure.components(coupled)) for coupled in structure.symmetry) or "–"


def agreement(found: Findings) -> Markup:
    """The model, its settings, and the fingerprints by which others can tell that they have the same."""
    alignment, structure = found.alignment, found.alignment.structure
    plain = {name: value for name, value in structure.model.items() if isinstance(value, str | float | int)}
    told = {
        "model": structure.model.get("name") or "without a name",
        **{name: value for name, value in plain.items() if name != "name"},
        "factors": ", ".join(f"{name} ({family.name})" for name, family in structure.families.items()),
        "structure": tag("code", structure.fingerprint),
        "merged posterior": tag("code", found.merged.digest),
        "objective J": f"{alignment.objective[-1]:,.2f}".replace("-", "−") if alignment.objective else "–",
        "proven": PROVEN[alignment.optimality],
    }
    return tag("dl", [tag("div", tag("dt", name), tag("dd", value)) for name, value in told.items()], class_="told")


def reproduction(found: Findings, command: str) -> Markup:
    """What to type to get the same, and with which versions this was made."""
    files = [f"{found.names[site]}.posterior" for site in found.sites]
    merge = command or join(["decbayes", "merge", *files, "-o", "merged.posterior"])
    shown = merge if len(files) <= MOST_SITES else "decbayes merge *.posterior -o merged.posterior"
    used = ", ".join(f"{name} {version(name)}" for name in ("numpy", "scipy", "numba"))
    told = (
        f"The same posteriors, in any order, give the merged posterior {found.merged.digest[:DIGITS]}, as `show` says. "
        f"Made with decbayes {decbayes.__version__}, Python {platform.python_version()}, {used}. "
        "Other versions or processors may differ in the last digits, and so in fingerprints."
    )
    return joined([tag("pre", lines_of([shown, "decbayes show merged.posterior"])), note(told)])


def reading(found: Findings) -> Markup:
    """What the words mean, and what this report cannot say."""
    known = next((each.name for each in found.sureness.values()), "margin")
    texts = [text.format(uncertainty=found.merged.uncertainty, sureness=SURENESS[known]) for text in GLOSSARY]
    return tag("ul", [tag("li", text) for text in texts], class_="note")


def tree(found: Findings) -> Markup | None:
    drawn = dendrogram(found)
    return tag("div", drawn, class_="tree") if drawn is not None else None
