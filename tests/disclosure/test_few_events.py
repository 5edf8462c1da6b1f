"""Regressions of outcomes that one to four persons have: a file says that they are few, and sites are not selected."""

import numpy as np
import pytest
from scipy import stats
from scipy.special import expit

import decbayes as db
from decbayes.disclosure import Ledger, Rules, prepared, preview
from decbayes.disclosure.drafting import drafted
from decbayes.disclosure.releasing import difference, person_digests
from decbayes.errors import NotDisclosed

REAL = db.columns.Gaussian(0, 1)
MODELS = {
    "logistic": db.LogisticRegression("y", columns={"y": "yes/no", "x": REAL, "z": "yes/no"}),
    "poisson": db.PoissonRegression("y", columns={"y": "count", "x": REAL, "z": "yes/no"}),
    "survival": db.SurvivalRegression(
        "y", columns={"y": "yes/no", "x": REAL, "t": "real"}, terms=["x"], time="t", cuts=(1.0,), rate=0.1
    ),
}


def site(rng, rows=60):
    return np.column_stack([np.zeros(rows), rng.normal(size=rows), rng.random(rows) < 0.5]).astype(np.float64)


def with_events(rows, events):
    changed = rows.copy()
    changed[events, 0] = 1.0
    return changed


def safe(model, rows, **options):
    return prepared(model, rows, Rules(), agreed=True, **options)


@pytest.mark.parametrize("kind", MODELS)
def test_files_are_the_same_whoever_has_the_outcome_and_however_many(kind, rng):
    model, rows = MODELS[kind], site(rng)
    rows[:, 2] += 0.5 if kind == "survival" else 0.0
    files = []
    for events in ([3], [7, 9], [1, 2, 3, 4], [0, 20, 40, 59]):
        ready = safe(model, with_events(rows, events))
        posterior = model.fit_site(ready.data, rng=0).posterior
        draft, manifest = drafted(posterior, ready.data, Rules(), changed=ready.changed)
        files.append((draft.digest, manifest.changed, draft.remarks))
    assert len(set(files)) == 1
    assert files[0][1][0].startswith("Fewer than 5 persons differ in 'y': the file says that there are some and hides")
    # The likelihood is that of one to four events, and a person may have many.
    assert ("one event per person" in files[0][1][0]) == (kind == "poisson")
    for events in ([], np.flatnonzero(rows[:, 2] < 1.0)[:5]):  # in one interval
        assert safe(model, with_events(rows, events)).changed == ()


@pytest.mark.parametrize("kind", ["poisson", "survival"])
def test_settings_found_in_the_data_do_not_tell_how_many_have_the_outcome(kind, rng):
    """A site without agreed columns takes the mean count, or cuts and a rate, from its rows."""
    x, t = rng.normal(size=60), rng.uniform(1, 30, 60).round(1)
    files, stated = set(), set()
    for least, events in ((5, [3]), (5, [7, 9]), (5, [1, 2, 3, 4]), (20, [3]), (20, np.arange(0, 60, 4))):
        counts = np.zeros(60)
        counts[events] = 1.0 if kind == "survival" else np.arange(2, len(events) + 2)
        if kind == "survival":
            frame = {"x": x, "t": t, "y": counts.astype(bool)}
            model = db.SurvivalRegression.from_frame(frame, "Surv(t, y) ~ x")
            fixed = db.SurvivalRegression.from_frame(frame, "Surv(t, y) ~ x", cuts=(9.0,), rate=0.5)
            ready = prepared(fixed, frame, Rules(least_cell=least))
            stated.add((ready.model.cuts, ready.model.rate))
        else:
            frame = {"x": x, "y": counts}
            model = db.PoissonRegression.from_frame(frame, "y ~ x", kinds={"y": "count"})
        ready = prepared(model, frame, Rules(least_cell=least))
        files.add((least, ready.model.fit_site(ready.data, rng=0).posterior.digest))
    assert len(files) == 2  # one for each rule
    assert stated <= {((9.0,), 0.5)}


def test_the_ends_of_a_spline_do_not_tell_the_dose_of_the_only_person_who_has_one(rng):
    dose = np.zeros(60)
    dose[7] = 37.5
    quiet = {"report": lambda text: None}
    frame = {"dose": dose, "x": rng.normal(size=60).round(2), "y": rng.normal(size=60).round(2)}
    for spline in ("bs(dose, degree=3)", "ns(dose, df=2)"):
        with pytest.raises(NotDisclosed, match="differ in 'dose', and the ends of a spline of it would tell by how"):
            prepared(db.LinearRegression.from_frame(frame, f"y ~ {spline}", **quiet), frame, Rules())
        prepared(db.LinearRegression.from_frame(frame, f"y ~ {spline.replace('dose', 'x')}", **quiet), frame, Rules())


def test_the_few_without_a_common_outcome_are_hidden_too(rng):
    rows = site(rng)
    model, few = MODELS["logistic"], with_events(rows, [3, 5])
    many = few.copy()
    many[:, 0] = 1.0 - few[:, 0]
    one, other = (model.fit_site(safe(model, part).data).posterior.natural["coefficients"] for part in (few, many))
    np.testing.assert_allclose(one[0, 3:], other[0, 3:], rtol=1e-3)
    np.testing.assert_allclose(one[0, :3], -other[0, :3], rtol=1e-3)


@pytest.mark.parametrize("kind", ["logistic", "poisson"])
def test_a_file_has_the_slope_of_the_probability_of_one_to_four_events(kind, rng):
    """By finite differences of SciPy's Poisson distribution, at the site's own estimate and elsewhere."""
    model, rows = MODELS[kind], site(rng)
    mean_of = {"logistic": expit, "poisson": np.exp}[kind]
    design = np.column_stack([np.ones(60), rows[:, 1:]])

    def height(coefficients):
        return float(np.log(np.diff(stats.poisson.cdf([0, 4], mean_of(design @ coefficients).sum()))[0]))

    data = safe(model, with_events(rows, [3, 5])).data
    for at in (np.array([-3.0, 0.0, 0.0]), np.array([-2.0, 0.6, -0.4])):
        believed = model.outcome.family.natural(mean=at[None], covariance=0.01 * np.eye(3))
        sent = model.contributed(db.Posterior.from_natural(model.structure, {"coefficients": believed}), data)
        shift, square = np.split(sent.contribution["coefficients"].ravel(), [3])
        slope = shift + 2.0 * square.reshape(3, 3) @ at
        steps = 1e-5 * np.eye(3)
        np.testing.assert_allclose(slope, [(height(at + s) - height(at - s)) / 2e-5 for s in steps], rtol=1e-4)
        assert np.linalg.matrix_rank(square.reshape(3, 3), tol=1e-8) == 1


def test_sites_with_few_events_are_not_selected_away(rng):
    """Of 6 %, the sites with five events or none would make 10 %."""
    model, rate, sites = MODELS["logistic"], 0.06, []
    for _ in range(16):
        rows = site(rng)
        rows[:, 0] = rng.random(60) < rate
        sites.append(rows)
    shown = [rows for rows in sites if not 0 < rows[:, 0].sum() < 5]
    assert 2 < len(shown) < 8

    def intercept(parts):
        merged = db.merge([model.fit_site(part, rng=0).posterior for part in parts])
        return float(merged.mean("coefficients")[0] @ [1.0, 0.0, 0.5]), model.coefficients(merged)[0]["deviation"]

    true = np.log(rate / (1 - rate))
    selected, _ = intercept(shown)
    assert selected - true > 0.3
    found, deviation = intercept([safe(model, part).data for part in sites])
    assert abs(found - true) < min(2.0 * deviation, 0.3)


@pytest.mark.parametrize(
    ("model", "persons"),
    [
        (MODELS["logistic"], np.arange(60) // 2),
        (db.LogisticRegression("y", columns=MODELS["logistic"].columns, varying=["intercept"]), None),
        (db.LogisticRegression("y", columns={"y": "yes/no", "x": REAL, "n": "real"}, weights="n"), None),
        (db.NegativeBinomialRegression("y", columns=MODELS["poisson"].columns, dispersion=1.0), None),
    ],
)
def test_other_sites_with_few_events_are_refused_with_what_that_does(model, persons, rng):
    with pytest.raises(NotDisclosed, match="A merge without such sites overestimates the rare outcome"):
        safe(model, with_events(site(rng), [3, 8]), persons=persons)


def test_scores_stay_at_the_site_and_previews_do_not_change_the_data(rng):
    model, rows = MODELS["logistic"], with_events(site(rng), [3, 5])
    with pytest.raises(NotDisclosed, match="Add up the scores of the other sites; for robust errors, merge and"):
        safe(model, rows, fitted=False)
    ready = safe(model, rows).data
    before = ready.copy()
    page = preview(model.fit_site(ready).posterior, ready)
    np.testing.assert_array_equal(ready, before)
    assert page.may_leave
    assert not len(page.deviations)


@pytest.mark.parametrize("kind", ["logistic", "poisson"])
def test_a_release_that_differs_by_one_person_is_noticed(kind, rng, tmp_path):
    """The share that hides the outcome depends on the number of rows."""
    model, rows, ledger = MODELS[kind], with_events(site(rng, 61), [3, 5]), Ledger(tmp_path / "a.ledger")
    first, second = (person_digests(model, safe(model, part).data, ledger) for part in (rows[:-1], rows))
    assert difference(first, second) == 1


def test_a_list_of_columns_says_what_fits_make_of_a_rare_answer(run, rng, tmp_path):
    rows = with_events(site(rng), [3, 5])
    lines = [f"{x:.2f},{int(y)}" for y, x, _ in rows]
    (tmp_path / "a.csv").write_text("\n".join(["age,ill", *lines]) + "\n")
    said = run("columns a.csv -o a.columns")
    assert "fewer than 5 persons gave one of the two answers" in str(said)
    assert "count as 'no'" not in str(said)
