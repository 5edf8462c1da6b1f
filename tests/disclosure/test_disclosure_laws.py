"""Laws of the disclosure rules, for every model: a model without an attack in `planted` fails the first of them."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from planted import ATTACKS, rows

import decbayes as db
from decbayes.disclosure import Rules, guarded, prepared
from decbayes.disclosure.origin import holds_sums_of
from decbayes.errors import NotDisclosed
from decbayes.files import load
from decbayes.models.core.registry import MODELS

RULES = Rules()
COUNT = 200


@cache
def fitted(name, seed, rare=True, safe=False):
    model, data, planted = ATTACKS[name].draw(np.random.default_rng(seed), COUNT, rare)
    model = replace(model, ascent=replace(model.ascent, restarts=min(model.ascent.restarts, 1)))
    if safe:
        ready = prepared(model, data, RULES)
        model, data = ready.model, ready.data
    return model, data, model.fit(data, rng=seed).posterior, planted


def test_every_model_has_an_attack():
    # Membership in classes is a multinomial regression whose targets are shares; `test_membership.py` has its attack.
    assert set(MODELS.shipped) - {"ClassMembership"} == set(ATTACKS)


def test_a_model_that_does_not_say_what_its_numbers_count_writes_no_file_for_others():
    from extension.single_rate import SingleRate

    model = SingleRate()
    with pytest.raises(NotDisclosed, match="does not say what its numbers count"):
        prepared(model, np.arange(60.0), RULES)


@pytest.mark.parametrize("name", ATTACKS)
def test_what_is_planted_is_read_without_rules_and_not_with_them(name):
    *_, posterior, planted = fitted(name, 0)
    assert ATTACKS[name].read(posterior) == pytest.approx(planted, rel=0.02, abs=0.02)
    _, data, posterior, _ = fitted(name, 0, safe=True)
    db.save(posterior, "a", data=data)
    assert not abs(ATTACKS[name].read(load("a")) - planted) < 0.05 * planted


@pytest.mark.parametrize("name", ATTACKS)
def test_guarding_twice_changes_nothing_more(name):
    model, data, posterior, _ = fitted(name, 0, safe=True)
    once = guarded(model, posterior, data, RULES)
    again = guarded(model, once.posterior, data, RULES)
    assert again.posterior == once.posterior


@pytest.mark.parametrize("name", sorted(set(ATTACKS) - {"LatentFeatures"}))
def test_guarding_keeps_all_evidence(name):
    model, data, posterior, _ = fitted(name, 0, safe=True)
    safe = guarded(model, posterior, data, RULES).posterior
    for factor in posterior.contribution:
        before, after = (rows(each, factor).sum(axis=0) for each in (posterior, safe))
        if name == "LatentDirichletAllocation" or posterior.structure.families[factor].over_components:
            before, after = before.sum(), after.sum()
        np.testing.assert_allclose(after, before, rtol=1e-9, atol=1e-6)


@pytest.mark.parametrize("name", ATTACKS)
def test_where_nothing_is_rare_nothing_changes(name):
    model, data, posterior, _ = fitted(name, 0, rare=False)
    ready = prepared(model, data, RULES)
    assert ready.model == model
    assert ready.changed == ()
    assert model.fit(ready.data, rng=0).posterior.digest == posterior.digest
    safe = guarded(model, posterior, data, RULES)
    assert safe.posterior.digest == posterior.digest
    assert safe.changed == ()


@pytest.mark.parametrize("name", ATTACKS)
def test_what_was_prepared_once_is_ready(name):
    model, data, _ = ATTACKS[name].draw(np.random.default_rng(0), COUNT, True)
    once = prepared(model, data, RULES)
    assert prepared(once.model, once.data, RULES).changed == ()
    assert prepared(once.model, once.data, RULES, agreed=True).changed == ()


def test_a_site_whose_rows_are_all_of_one_kind_can_still_take_part(rng):
    """Every level but one is rare at this site, and all count as that one."""
    columns = {"ward": db.columns.Categorical("heart", "bone", "other"), "age": db.columns.Gaussian(50, 20)}
    table = {"ward": ["heart"] * 37 + ["bone"] * 3, "age": rng.normal(50, 20, 40)}
    for model in (db.LatentClasses(2, columns=columns), db.LinearRegression(target="age", columns=columns)):
        ready = prepared(model, table, RULES, agreed=True)
        db.save(ready.model.fit(ready.data, rng=0).posterior, "a", data=ready.data)
    alone = prepared(db.LatentClasses.from_frame(table, components=2), table, RULES)
    assert alone.model.columns["ward"].categories == ("heart", "other")
    assert len(alone.model.fit(alone.data, rng=0).bound)


@pytest.mark.parametrize("name", ATTACKS)
def test_the_sums_in_a_file_are_those_of_its_data_and_of_no_others(name):
    model, data, posterior, _ = fitted(name, 0, safe=True)
    db.save(posterior, "a", data=data)
    sent = load("a")
    assert holds_sums_of(model, sent, data) is not False
    _, other, _ = ATTACKS[name].draw(np.random.default_rng(1), COUNT, False)
    # Where features were left out, sums are incomplete.
    assert holds_sums_of(model, sent, model.joined([other])) is (None if name == "LatentFeatures" else False)
    assert holds_sums_of(model, sent, data, "on top") is None
    if posterior.structure.symmetry and name != "LatentFeatures":
        assert holds_sums_of(model, sent, data, "round")
        assert not holds_sums_of(model, sent, model.joined([other]), "round")


@pytest.mark.parametrize(("people", "whose"), [(None, "documents"), (range(100, 122), "persons")])
def test_topics_of_few_documents_are_not_said_to_be_of_few_persons(people, whose):
    counts = np.kron([[1, 0], [0, 1]], np.ones((1, 2), dtype=int))[np.repeat([0, 1], [20, 2])] * 9
    model = db.LatentDirichletAllocation(2, tuple("abcd"))
    posterior = model.fit(counts, rng=0).posterior
    said = guarded(model, posterior, counts, RULES, persons=people).changed
    assert f"1 topic of fewer than 5 {whose} joins another." in said


@pytest.mark.parametrize("small", [1, 2])
def test_what_is_said_of_small_components_fits_their_number(small, rng):
    centres = np.repeat([0.0, 40.0, 80.0][: small + 1], [50, 3, 3][: small + 1])
    model = db.GaussianMixture(small + 1, 1, variance=1.0, prior_variance=1000.0)
    rows, kinds = centres[:, None] + rng.normal(size=(len(centres), 1)), np.searchsorted([40.0, 80.0], centres, "right")
    (remark,) = guarded(model, model.from_assignments(rows, kinds), rows, RULES).remarks
    what = (
        "1 component of fewer than 5 persons joins another"
        if small == 1
        else "2 components of fewer than 5 persons join"
    )
    assert what in remark.what
    assert not {"it", "It", "one"} & {*remark.advice.replace(",", " ").split()}, "neither of one only, nor of several"
