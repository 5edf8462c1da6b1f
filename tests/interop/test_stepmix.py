"""Classes of StepMix become posteriors: with the shares it gives, the counts of a posterior are plain sums."""

import warnings

import numpy as np
import pytest
from on_use import OnUse

import decbayes as db
from decbayes.errors import NotConvertible
from decbayes.interop import from_stepmix, stepmix_data

OnUse("stepmix")


@pytest.fixture
def patients(rng):
    kind = rng.integers(2, size=120)
    frame = {
        "age": rng.normal(np.array([30.0, 60.0])[kind], 5.0),
        "smoker": np.where(rng.random(120) < np.array([0.1, 0.9])[kind], 1.0, 0.0),
        "ward": np.array(["a", "b"])[np.where(rng.random(120) < 0.8, kind, 1 - kind)],
        "pressure": rng.normal(np.array([110.0, 150.0])[kind], 9.0),
    }
    frame["age"][:10] = np.nan
    return frame, kind


def fitted(model, data, components=2):
    from stepmix.stepmix import StepMix

    frame, measurement = stepmix_data(model, data)
    estimator = StepMix(n_components=components, measurement=measurement, random_state=0, progress_bar=0, verbose=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return estimator.fit(frame), estimator.predict_proba(frame)


def test_counts_are_the_sums_of_stepmix_s_shares(patients):
    frame, kind = patients
    model = db.LatentClasses.from_frame(frame, components=2)
    estimator, shares = fitted(model, frame)
    posterior = from_stepmix(estimator, model, frame)
    yes = posterior.parameters("yes_no")["alpha"].ravel() - 0.5
    np.testing.assert_allclose(yes, shares.T @ frame["smoker"])
    ward = posterior.parameters("categorical")["alpha"] - 0.5
    np.testing.assert_allclose(ward[:, 0], shares.T @ (frame["ward"] == "a"))
    assert db.checking.adjusted_rand(kind, model.assign(posterior, frame)) > 0.9


def test_what_has_no_counterpart_is_refused(patients):
    frame, _ = patients
    model = db.LatentClasses.from_frame(frame, components=3)
    estimator, _ = fitted(model, frame)
    with pytest.raises(NotConvertible, match="StepMix has 2 classes, the model 3"):
        from_stepmix(estimator, model, frame)
    counts = db.LatentClasses(components=2, columns={"visits": "count"})
    with pytest.raises(NotConvertible, match="does not support counts"):
        stepmix_data(counts, {"visits": [1, 2]})
