"""The merge: align the components of all sites, then add."""

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Literal, get_args

from decbayes.errors import StructureMismatch
from decbayes.merging.aligning import aligned, largest_structure
from decbayes.merging.alignment import remarks_in_time
from decbayes.merging.base.canonical import canonical_order
from decbayes.merging.base.compatibility import check_different
from decbayes.merging.base.coupled import as_sequence
from decbayes.merging.base.held import check_separate, held_by
from decbayes.merging.base.problem import Number, OnMatch, Solver
from decbayes.merging.base.products import SiteSlots, assigned_product, check_assignments
from decbayes.posterior import Posterior
from decbayes.remarks import warn_of

if TYPE_CHECKING:
    from decbayes.merging.robust import Robust

Duplicates = Literal["refuse", "allow"]


def merge(
    posteriors: Iterable[Posterior],
    *,
    components: Number = None,
    solver: Solver | str | None = None,
    since: Posterior | None = None,
    progress: OnMatch | None = None,
    robust: "Robust | bool" = False,
    duplicates: Duplicates = "refuse",
) -> Posterior:
    """Combine posteriors of separate data into the posterior of all data, regardless of labels.

        λ = λ0 + Σ_i (λ_i − λ0 in common slots)

    Sites may have found different components, and different numbers of them. The result depends only on the set of
    posteriors, not on their order. To withdraw a posterior, merge the others. The result's `remarks` say what to know
    before relying on it; a `MergeWarning` repeats the most important ones.

    Args:
        posteriors: one per site, fitted with the same prior to separate data. A `Library` reads them from files.
        components: the number of slots; "auto" to estimate it; "largest" for that of the posterior with the most
            components. Default: for mixtures and classes, as many as predict the sites' data well, at least "largest";
            otherwise "largest". `align(…).reason` says why.
        solver: how to search, an object of `db.solvers` or its name. Default: `Grouping` where an observation belongs
            to one component (mixtures, topics), `Matching` where it has several at once (features), `Quadratic` for
            hidden Markov models.
        since: an earlier merge whose components keep their ids and numbers (see `follow`). None of its evidence is
            added. Unless `components` is given, the new merge has at least as many slots.
        progress: called without arguments from time to time while the solver works, possibly from several threads.
        robust: True, or a `Robust` rule, to leave out sites that clearly disagree with most others (see
            `robust_merge`, which names them).
        duplicates: "refuse" a posterior that is given twice, or beside a merge that it is in, because its data would
            count twice; or "allow" it.

    >>> model = db.GaussianMixture(2, 1, variance=1.0, prior_variance=100.0)
    >>> rng = np.random.default_rng(0)
    >>> sites = [model.fit(0.01 * n + np.array([[-9.0], [-8.0], [9.0]]), rng=rng).posterior for n in range(3)]
    >>> merged = db.merge(sites)
    >>> np.sort(merged.mean("components")[:, 0]).round()
    array([-8.,  9.])
    >>> merged == db.merge(sites[::-1])
    True
    """
    posteriors = as_sequence(posteriors)
    if duplicates not in get_args(Duplicates):
        raise ValueError(f"duplicates is 'refuse' or 'allow', not {duplicates!r}.")
    if isinstance(robust, str):
        raise TypeError(f"robust is True, False or a Robust rule, not {robust!r}.")
    if duplicates == "refuse" and not robust:
        check_different(posteriors)
    if robust:
        if since is not None:
            raise StructureMismatch("A robust merge cannot follow an earlier one. Leave out `since` or `robust`.")
        from decbayes.merging.robust import Robust, robust_merge

        rule = robust if isinstance(robust, Robust) else None
        outcome = robust_merge(posteriors, rule, components=components, solver=solver, progress=progress)
        merged, doubts = outcome.posterior, outcome.warnings()
    else:
        alignment, _ = aligned(posteriors, components, solver, since, progress)
        remarks, doubts = remarks_in_time(alignment)
        merged = replace(alignment.merged(), remarks=remarks)
    held = held_by(posteriors)
    if duplicates == "refuse":
        check_separate(posteriors, held)
    warn_of(doubts)
    return replace(merged, merged_from=sorted(set().union(*held)))


def objective(posteriors: Iterable[Posterior], assignments: Iterable[SiteSlots]) -> float:
    """The objective of an alignment: J = Σ_j A_j(λ0_j + Σ_i (λ_ij − λ0_j in its slots)), over all factors.

    Args:
        assignments: per posterior and coupled set, the slot of each component, as in `Alignment.assignments`.

    >>> alignment = db.align(sites, solver="matching")
    >>> bool(np.isclose(db.merging.objective(sites, alignment.assignments), alignment.objective[-1]))
    True
    """
    sites, slots = as_sequence(posteriors), tuple(assignments)
    order, readings = canonical_order(sites)
    structure = largest_structure(readings)
    check_assignments(slots, len(sites), structure)
    return assigned_product(sites, slots, order, structure).log_partition()
