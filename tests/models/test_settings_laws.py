"""A structure tells every setting that has gone into it, however unusual."""

from dataclasses import fields, replace

import numpy as np
import pytest
from zoo import ZOO

UNUSUAL = {"prior_degrees": 6.5, "inclusion_prior": (0.7, 2.3)}
# How fits are made, which is nobody else's business, and numbers of things.
OWN = {"document_steps", "document_tolerance"}


def with_unusual_settings(model):
    """The same kind of model, all of its numbers changed."""
    changed = {}
    for field in fields(model):
        value = getattr(model, field.name)
        if field.name in UNUSUAL:
            changed[field.name] = UNUSUAL[field.name]
        elif isinstance(value, float) and field.name not in OWN:
            changed[field.name] = 1.7 * value + 0.4
    return replace(model, **changed), changed


@pytest.mark.parametrize("name", ZOO)
def test_settings_come_back_from_a_structure(name):
    model, _ = with_unusual_settings(ZOO[name][0])
    back = type(model)(**type(model).settings_of(model.structure))
    assert back.agreed is None, "not by handing the structure on"
    assert back.structure.fingerprint != ZOO[name][0].structure.fingerprint
    for factor, prior in model.structure.prior.items():
        np.testing.assert_allclose(back.structure.prior[factor], prior, rtol=1e-12)
    assert back.structure.model == model.structure.model


@pytest.mark.parametrize("name", ZOO)
def test_every_setting_that_a_structure_tells_is_in_it(name):
    """Of two models that differ in one of these, structures differ."""
    model, changed = with_unusual_settings(ZOO[name][0])
    told = type(model).settings_of(model.structure)
    for setting in changed.keys() & told.keys():
        other = replace(ZOO[name][0], **{setting: changed[setting]})
        if not np.array_equal(getattr(ZOO[name][0], setting), changed[setting]):
            assert other.structure.fingerprint != ZOO[name][0].structure.fingerprint, setting
            assert type(other).settings_of(other.structure)[setting] == pytest.approx(changed[setting]), setting
