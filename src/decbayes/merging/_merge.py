"""Align everybody's components, then add: the merge."""

from collections.abc import Iterable, Mapping

from decbayes.errors import StructureMismatch
from decbayes.merging.aligning import Number, aligned, merged_structure
from decbayes.merging.base.canonical import canonical_order
from decbayes.merging.base.coupled import as_sequence
from decbayes.merging.base.problem import OnMatch, Solver
from decbayes.merging.base.products import Assignment, assigned_product, check_assignments
from decbayes.merging.robust.robust import as_robust, robust_merge
from decbayes.merging.robust.weights import Robust
from decbayes.posterior import Posterior
from decbayes.symmetry import CoupledSet


def merge(
    posteriors: Iterable[Posterior],
    *,
    components: Number = None,
    solver: Solver | str | None = None,
    since: Posterior | None = None,
    progress: OnMatch | None = None,
    robust: Robust | bool = False,
) -> Posterior:
    """Combine posteriors of separate data into the posterior of all of it, whatever their labels.

        λ = λ0 + Σ_i (λ_i − λ0 in common slots)

    Sites may have found different things, and different numbers of them. `components` is the number of slots: the
    largest that a posterior has unless given, or "auto" to find it. The result depends on the set of posteriors alone,
    not on their order. To withdraw a posterior, merge the others. `Grouping` is the default solver where an observation
    belongs to one component (mixtures, topics), `Matching` where it has several at once (features).

    `since` is an earlier merge whose components keep their ids and numbers (see `follow`); none of it is added. There
    are at least as many slots then as it has, and they keep to what they hold in it.

    With `robust` a minority of faulty sites has little influence (see `Robust`); posteriors then have one structure.

    `progress` is called now and then while the solver works, from several threads at times.
    """
    if robust:
        if components is not None or since is not None:
            raise StructureMismatch(
                "A robust merge has as many slots as the posteriors have components, and follows no earlier one."
            )
        return robust_merge(posteriors, as_robust(robust), solver=solver, progress=progress).posterior
    return aligned(posteriors, components, solver, since, progress)[0].merged()


def objective(posteriors: Iterable[Posterior], assignments: Iterable[Mapping[CoupledSet, Assignment]]) -> float:
    """J = Σ_j A_j(λ0_j + Σ_i (λ_ij − λ0_j in its slots)), over all factors of the structure."""
    held, given = as_sequence(posteriors), tuple(assignments)
    order, readings = canonical_order(held)
    structure = merged_structure(held, readings, order, None, None)
    check_assignments(given, len(held), structure)
    return assigned_product(held, given, order, structure).log_partition()
