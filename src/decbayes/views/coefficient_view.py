"""Regressions as their coefficients, and whether sites agree on them."""

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

from decbayes.merging import Alignment
from decbayes.merging.reading import Heterogeneity
from decbayes.models.regressions.outcome import FACTOR
from decbayes.posterior import Posterior
from decbayes.remarks import Remark
from decbayes.structure import CoupledSet
from decbayes.views.values import Difference, Estimate
from decbayes.views.view import LEVEL, View


class CoefficientView(View):
    name: ClassVar[str] = "coefficients"

    def estimates(self, posterior: Posterior, *, level: float = LEVEL) -> Sequence[Estimate]:
        rows = self.model.coefficients(posterior, level=level)
        return [Estimate(*bounds(row), null=None if row["term"] == "intercept" else 0.0) for row in rows]

    def between(self, posterior: Posterior, *, level: float = LEVEL) -> Sequence[Estimate]:
        return [Estimate(*bounds(row)) for row in self.model.between(posterior, level=level)]

    def differences(self, alignment: Alignment) -> Sequence[Difference]:
        return self._differences(heterogeneity_of(alignment)) if len(alignment.posteriors) > 1 else ()

    def undecided(self, alignment: Alignment) -> str:
        return heterogeneity_of(alignment).reason if len(alignment.posteriors) > 1 else ""

    def advice(self, alignment: Alignment) -> Iterator[Remark]:
        """Which coefficients differ by more than chance, and how to let them."""
        notable = sorted((term for term in self.differences(alignment) if term.notable), key=lambda term: -term.times)
        if not notable:
            return
        terms = [term for term in self._terms() if self._differs(term, {difference.name for difference in notable})]
        names = ", ".join(f"{difference.name} ({difference.times:.1f} ×)" for difference in notable)
        yield Remark(
            "sites differ",
            f"Sites differ by more than chance in {names}: intervals, which assume equal coefficients, are too narrow.",
            f"Let them differ: --varying {','.join(terms)} in each fit (varying= in Python), then refine.",
            f"p = {heterogeneity_of(alignment).probability[0]:.1g} if the sites were the same.",
        )

    def _differences(self, apart: Heterogeneity) -> list[Difference]:
        (times,), (between,) = (next(iter(part[FACTOR].values())) for part in (apart.times, apart.between))
        unit, _ = self.model.units_and_offset()
        rows = zip(self.model.table.design.labels, times, between * unit, strict=True)
        return [Difference(name, float(t), float(b), place in apart.terms) for place, (name, t, b) in enumerate(rows)]

    def _terms(self) -> list[str]:
        return [*(["intercept"] if self.model.intercept else []), *self.model.terms]

    def _differs(self, term: str, notable: set[str]) -> bool:
        """Whether a term has one of these coefficients, or varies already."""
        design = self.model.table.design
        return term in self.model.varying or bool({design.labels[place] for place in design.places([term])} & notable)


def bounds(row: dict[str, Any]) -> tuple[float, float, float, str, float]:
    return row["mean"], row["low"], row["high"], row["term"], row["deviation"]


def heterogeneity_of(alignment: Alignment) -> Heterogeneity:
    from decbayes.calibration import heterogeneity  # simulates sites, which loads all models

    return heterogeneity(alignment)[CoupledSet((FACTOR,))]
