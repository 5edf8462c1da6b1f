"""What sites agree on by sums: cuts and rates of survival, dispersions of counts."""

import json
from itertools import permutations

import numpy as np
import pytest

import decbayes as db
from decbayes.columns.sums import Dispersion, Events, coarser, earliest
from decbayes.disclosure.preparing import listed, prepared
from decbayes.errors import InvalidData, InvalidStructure
from decbayes.models.core.persons import Persons
from decbayes.models.regressions._making import model_of_list
from decbayes.models.tables.tabular import columns_file, read_columns, read_list

FORMULA = "Surv(days, died) ~ old"


def patients(rng, size, scale=300.0):
    old = rng.random(size) < 0.5
    died, lost = rng.exponential(scale * np.where(old, 0.6, 1.0)), rng.uniform(50, 600, size)
    return {"days": np.minimum(died, lost).round(1) + 0.1, "died": died < lost, "old": old}


def lists(frames, rules=None):
    """The list of each site, through its text."""
    for frame in frames:
        rows, _ = listed(db.SurvivalRegression.from_frame(frame, FORMULA), frame, rules)
        yield db.columns.declared(json.loads(columns_file(rows)))


@pytest.mark.parametrize("sizes", [(300, 300, 300), (800, 60, 40), (45,) * 12])
def test_cuts_are_near_quantiles_of_all_events_and_every_site_may_release_its_file(rng, sizes):
    frames = [patients(rng, size) for size in sizes]
    events = db.columns.agree(*lists(frames, db.disclosure.Rules()))["Surv(days, died)"]
    times = np.concatenate([frame["days"][frame["died"]] for frame in frames])
    shares = np.array([(times <= cut).mean() for cut in events.cuts])
    assert events.cuts
    assert (np.abs(shares[:, None] - np.arange(1, 6) / 6).min(axis=1) < 0.06).all()
    assert len(events.cuts) == 5 or min(sizes) < 100
    all_days = np.concatenate([frame["days"] for frame in frames])
    assert events.rate == pytest.approx(len(times) / all_days.sum(), rel=0.15)
    for frame in frames:
        model = db.SurvivalRegression.from_frame(frame, FORMULA, cuts=events.cuts, rate=events.rate)
        prepared(model, frame, db.disclosure.Rules(), agreed=True)


def test_no_step_shows_fewer_events_than_rules_allow(rng):
    frame = patients(rng, 400)
    happened = np.sort(frame["days"][frame["died"]])
    for least in (5, 12):
        rules = db.disclosure.Rules(least_cell=least)
        ((at_risk, end, *steps),) = next(lists([frame], rules))["Surv(days, died)"].parts
        counts = np.array([count for _, count in steps])
        assert np.diff([0, *counts]).min() >= least
        assert [(happened <= time).sum() for time, _ in steps] == counts.tolist()
        assert len(happened) - counts[-1] < least
        censored = frame["days"][~frame["died"]]
        assert (censored > 0.99 * end - 0.001).sum() >= least > (censored > end).sum()
        assert at_risk == float(f"{frame['days'].sum():.3g}")


def test_the_last_events_of_a_site_are_not_listed_and_the_text_does_not_count_them():
    """Thirteen events in steps of five: three remain, and saying that there are ten would be false."""
    times = np.arange(1.0, 14.0)
    events = Events.of(times, np.ones(13), np.arange(13), 91.0, least=5)
    assert events.text().startswith("at least 10 events; ")


def test_events_of_one_person_are_no_group(rng):
    times, events = np.arange(1.0, 41.0), np.ones(40)
    alone, several = np.zeros(40), np.arange(40) // 4
    assert Events.of(times, events, alone, 99.0).parts == ((99.0, 1.0),)
    assert Events.of(times, events, several, 99.0).parts == ((99.0, 33.0, (17.0, 17), (33.0, 33)),)
    model = db.SurvivalRegression.from_frame({"t": times, "e": rng.random(40) < 2}, "Surv(t, e) ~ 1")
    row = model.sums(model.points({"t": times, "e": events}), least=5, persons=Persons(several.astype(np.intp)))
    assert row == {"Surv(t, e)": Events((820.0, 33.0, (17.0, 17), (33.0, 33)))}


def test_lists_join_alike_in_any_order_and_in_steps(rng):
    sites = [*lists(patients(rng, 120) for _ in range(3))]
    joined = [db.columns.agree(*order)["Surv(days, died)"] for order in permutations(sites)]
    stepwise = db.columns.agree(db.columns.agree(sites[2], sites[0]), sites[1])["Surv(days, died)"]
    assert all(events == stepwise for events in joined)


def test_a_site_with_short_follow_up_takes_late_cuts_away_only():
    long = (1e5, 1000.0, *((20.0 * step, 5 * step) for step in range(1, 51)))
    short = (1e4, 200.0, (50.0, 6), (100.0, 12), (150.0, 18), (200.0, 24))
    assert len(Events(long).cuts) == 5
    cuts = Events(long, short).cuts
    assert cuts
    assert cuts[-1] <= 150
    assert Events((5.0, 1.0), (5.0, 1.0)).cuts == ()


def test_few_who_are_observed_to_the_end_allow_no_late_cut():
    site = (1e5, 1000.0, *((100.0 * step, 10 * step) for step in range(1, 11)))
    assert Events(site).cuts == (170.0, 330.0, 500.0, 670.0, 830.0)
    assert Events((1e5, 500.0, *site[2:])).cuts == (170.0, 330.0)


def test_sites_with_few_events_have_cuts_if_there_can_be_any():
    """Sites of 15 to 21 events, none of whose quantiles leaves each of them a whole step on both sides."""
    sites = (
        (816.0, 6.0, (0.21, 5), (1.2, 10), (2.5, 15), (5.1, 20)),
        (497.0, 5.8, (0.52, 5), (2.3, 10), (3.8, 15)),
        (1380.0, 5.9, (1.1, 5), (2.3, 11), (2.8, 16), (4.9, 21)),
        (1050.0, 6.0, (1.2, 5), (2.2, 10), (4.3, 15)),
    )
    assert Events(*sites).cuts == (1.2,)
    assert Events(*sites, (127.0, 5.4, (2.7, 5))).cuts == (), "all events of one site are one step"
    longer = [(*site, (20.0, site[-1][1] + 5), (21.0, site[-1][1] + 10), (22.0, site[-1][1] + 15)) for site in sites]
    steps = [np.array([(0.0, 0.0), *site[2:]]) for site in longer]
    assert earliest(steps) == [1.2, 3.8, 20.0, 21.0]


@pytest.mark.parametrize(("time", "grid"), [(0.0034, 0.0034), (341.2, 350), (99.01, 100), (100.0, 100), (101, 110)])
def test_the_grid_has_two_digits(time, grid):
    assert coarser(time) == grid


def test_a_dispersion_of_all_sites_is_that_of_their_sums(rng, tmp_path):
    sites = []
    for _ in range(6):
        ward = rng.choice(["bone", "heart"], 400)
        mean = np.where(ward == "heart", 6.0, 2.0)
        sites.append({"ward": ward, "visits": rng.poisson(mean * rng.gamma(2.0, 0.5, 400))})
    model = db.NegativeBinomialRegression.from_frame(sites[0], "visits ~ ward")
    rows = db.columns.agree(*(listed(model, frame, db.disclosure.Rules())[0] for frame in sites))
    visits, heart = (np.concatenate([frame[name] for frame in sites]) for name in ("visits", "ward"))
    mean = np.where(heart == "heart", *(visits[heart == ward].mean() for ward in ("heart", "bone")))
    expected = (mean**2).sum() / ((visits - mean) ** 2 - mean).sum()
    path = tmp_path / "agreed.columns"
    path.write_text(columns_file(rows), encoding="utf-8")
    fitted = model_of_list(db.NegativeBinomialRegression, path, "visits ~ ward", "", {})
    assert fitted.dispersion == pytest.approx(expected, rel=0.05)
    assert model_of_list(db.NegativeBinomialRegression, path, "visits ~ ward", "", {"dispersion": 9.0}).dispersion == 9
    assert [*read_columns(path)] == ["ward", "visits"]
    assert [*read_list(path)] == ["ward", "visits", "Dispersion(visits)"]


def test_what_sums_cannot_settle_is_said(rng, tmp_path):
    path = tmp_path / "agreed.columns"
    columns = db.columns.declared({"visits": "count", "days": "real", "died": "yes/no", "old": "yes/no"})
    for rows, model, formula, said in (
        ({}, db.SurvivalRegression, FORMULA, "no counts of Surv"),
        ({"Surv(days, died)": Events((9.0, 1.0))}, db.SurvivalRegression, FORMULA, "No site has enough events"),
        ({}, db.NegativeBinomialRegression, "visits ~ old", "no sums for the dispersion"),
        ({"Dispersion(visits)": Dispersion((-1.0, 2.0))}, db.NegativeBinomialRegression, "visits ~ old", "no more"),
    ):
        path.write_text(columns_file(columns | rows), encoding="utf-8")
        with pytest.raises(InvalidData, match=said):
            model_of_list(model, path, formula, "", {})
        assert model_of_list(db.PoissonRegression, path, "visits ~ old", "", {}).target == "visits"


@pytest.mark.parametrize(
    "row",
    [
        ["s", "events"], ["s", "events", 3], ["s", "events", [-1.0, 1]], ["s", "events", [9.0, 9, [2, 5], [1, 9]]],
        ["s", "events", [9.0, 9, [1, 5], [2, 5]]], ["s", "events", [9.0, 9, [1, 5.5]]], ["s", "events", [9.0, 9, [1]]],
        ["s", "events", ["a"]],
        ["s", "events", [9.0, 9, ["1", 5]]], ["s", "events", [9.0, 0]], ["s", "events", [9.0]],
        ["s", "dispersion"], ["s", "dispersion", [1.0]],
        ["s", "dispersion", [1.0, 0.0]], ["s", "dispersion", ["1", 2.0]], ["s", "dispersion", [float("nan"), 2.0]],
    ],
)  # fmt: skip
def test_wrong_sums_of_others_are_refused(row):
    with pytest.raises(InvalidStructure):
        db.columns.declared([row])


def test_no_column_holds_sums():
    with pytest.raises(InvalidData, match="No column holds events"):
        db.columns.columns_of({"age": [1.5, 2.5]}, {"age": "events"})
    with pytest.raises(ValueError, match="ships a kind"):
        db.columns.register(Events)
