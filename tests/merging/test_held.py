"""Data that are in a merge do not count again in the next one."""

import copy
import pickle

import numpy as np
import pytest

import decbayes as db
from decbayes.errors import InvalidPosterior, StructureMismatch


@pytest.fixture(params=["clusters", "coefficients"])
def sites(request, rng):
    if request.param == "coefficients":
        model = db.LogisticRegression("y", columns={"x": "real", "y": "yes/no"})
        tables = [np.column_stack([x := rng.normal(size=40), x + rng.normal(size=40) > 0]) for _ in range(3)]
        return [model.fit_site(table).posterior for table in tables]
    model = db.GaussianMixture(2, 1, variance=1.0, prior_variance=100.0)
    shards = [rng.choice([-5.0, 5.0], (30, 1)) + rng.normal(size=(30, 1)) for _ in range(3)]
    return [fit.posterior for fit in model.fit_many(shards, rng=rng)]


@pytest.mark.parametrize("robust", [False, True])
def test_a_merge_is_refused_beside_a_posterior_that_is_in_it(sites, robust):
    first, second, third = sites
    pair = db.merge([first, second], robust=robust)
    for given in ([pair, first], [third, second, pair]):
        with pytest.raises(StructureMismatch, match="hold the same data: one was merged from the other, or built"):
            db.merge(given, robust=robust)
    with pytest.raises(StructureMismatch, match="posterior 0 and posterior 2 were merged from the same data"):
        db.merge([pair, third, db.merge([second, third])], robust=robust)
    assert set(db.merge([pair, third], robust=robust).merged_from) == set(db.merge(sites).merged_from)


def test_it_may_be_allowed_and_then_counts_twice(sites):
    first, second, _ = sites
    pair = db.merge([first, second])
    twice = db.merge([pair, first], duplicates="allow")
    assert twice.merged_from == pair.merged_from
    name = next(iter(twice.contribution))
    assert twice.contribution[name].shape == pair.contribution[name].shape


def test_what_a_merge_holds_outlasts_copies_files_and_edits_but_is_no_part_of_its_value(sites, tmp_path):
    first, second, third = sites
    pair = db.merge([first, second])
    db.save(pair, tmp_path / "pair.posterior")
    copies = [db.load(tmp_path / "pair.posterior"), pickle.loads(pickle.dumps(pair)), copy.deepcopy(pair)]
    if pair.structure.symmetry:
        copies += [db.merging.name(pair, {0: "left"}), db.merging.drop(pair, 0).posterior]
    for again in copies:
        assert len(again.merged_from) == 2
        with pytest.raises(StructureMismatch, match="would count twice"):
            db.merge([first, again, third])
    plain = db.Posterior(pair.structure, pair.contribution, pair.ids, remarks=pair.remarks)
    assert plain == pair
    assert plain.merged_from == ()


def test_labels_do_not_hide_a_posterior(rng):
    model = db.GaussianMixture(2, 1, variance=1.0, prior_variance=100.0)
    shards = [rng.choice([-5.0, 5.0], (30, 1)) + rng.normal(size=(30, 1)) for _ in range(2)]
    first, second = (fit.posterior for fit in model.fit_many(shards, rng=rng))
    turned = db.Posterior(first.structure, {name: part[::-1] for name, part in first.contribution.items()})
    with pytest.raises(StructureMismatch, match="would count twice"):
        db.merge([db.merge([first, second]), turned])


def test_posteriors_without_data_are_in_no_merge(sites):
    nothing = db.Posterior.of_prior(sites[0].structure)
    assert db.merge([nothing, nothing]).merged_from == ()
    some = db.merge([sites[0], nothing])
    assert db.merge([some, nothing]).merged_from == some.merged_from
    assert len(some.merged_from) == 1


@pytest.mark.parametrize("hashes", [["site a"], [3], ["0" * 63], ["G" * 64]])
def test_other_texts_are_no_hashes(sites, hashes):
    first = sites[0]
    with pytest.raises(InvalidPosterior, match="merged_from"):
        db.Posterior(first.structure, first.contribution, merged_from=hashes)


@pytest.mark.parametrize("kind", ["mean", "clusters", "coefficients", "topics", "states"])
def test_a_fit_on_top_of_a_posterior_is_refused_beside_it(kind, rng, tmp_path):
    """`prior=` makes one posterior of earlier and new data."""
    points = rng.choice([-5.0, 5.0], (60, 1)) + rng.normal(size=(60, 1))
    model, data = {
        "mean": (db.models.GaussianMean(variance=1.0, dimension=1), points),
        "clusters": (db.GaussianMixture(2, 1, variance=1.0, prior_variance=100.0), points),
        "coefficients": (
            db.LinearRegression("y", columns={"x": "real", "y": "real"}),
            np.column_stack([points, points + rng.normal(size=(60, 1))]),
        ),
        "topics": (db.LatentDirichletAllocation(2, list("abcdef")), rng.poisson(1.0, (60, 6))),
        "states": (db.HiddenMarkov(2, columns={"x": "real"}), [points[start : start + 6] for start in range(0, 60, 6)]),
    }[kind]
    third = len(data) // 3
    first, other, more = (model.fit(data[part * third : (part + 1) * third], rng=0).posterior for part in range(3))
    both = model.fit(data[third : 2 * third], prior=first, start=first, rng=0).posterior
    later = model.fit(data[2 * third :], prior=both, start=both, rng=0).posterior
    db.save(both, tmp_path / "both.posterior")
    for given in ([first, both], [more, db.load(tmp_path / "both.posterior"), first], [first, later], [both, later]):
        with pytest.raises(StructureMismatch, match="would count twice"):
            db.merge(given)
    with pytest.raises(StructureMismatch, match="would count twice"):
        db.merge([db.merge([first, other]), both])
    assert db.merge([both, more]).merged_from == tuple(
        sorted({*both.merged_from, *db.merge([more, more], duplicates="allow").merged_from})
    )
    assert model.fit(data[:third], prior=db.Posterior.of_prior(model.structure), rng=0).posterior.merged_from == ()
