"""A view from outside the package, in one class with one registration, is seen wherever results are shown."""

from dataclasses import dataclass

import numpy as np
import pytest

import decbayes as db
from decbayes import views
from decbayes.cli.commands.everyday.show import show
from decbayes.models.core.registry import MODELS
from decbayes.page.describing import described
from decbayes.reporting.reports import page
from decbayes.views.view import VIEWS

CLOCKS = ("late", "early")


class Clocks(views.View):
    """Rates as waiting times."""

    name = "clocks"
    noun = "clock"

    def rows(self, posterior, *, top=10):
        rates = posterior.mean("components")[:, 0]
        return [{"clock": k, "minutes between visits": float(60 / rate)} for k, rate in enumerate(rates)]


class Spoken(Clocks):
    """Rates as words."""

    name = "spoken"

    def parts(self, posterior, **look):
        shares = posterior.mean("weights")
        return [views.Words(((CLOCKS[k % 2], float(share)),)) for k, share in enumerate(shares)]


def fitted(kind, rng):
    """Two sites of a model whose view this is: 4 visits an hour, and 30."""

    @dataclass(frozen=True)
    class Visits(db.PoissonMixture):
        view = kind.name
        caption = ""

    views.register(kind)
    model = db.register(Visits)(2, 1)
    sites = [rng.poisson(rng.permutation(np.repeat([4.0, 30.0], 40)))[:, None] for _ in range(2)]
    return model, [model.fit(counts, rng=rng).posterior for counts in sites]


@pytest.fixture(autouse=True)
def nothing_registered(monkeypatch):
    monkeypatch.setattr(MODELS, "registered", {})
    monkeypatch.setattr(VIEWS, "registered", {})


def test_everybody_shows_what_the_view_says(rng, tmp_path, capsys):
    model, posteriors = fitted(Clocks, rng)
    alignment = db.align(posteriors)
    merged = alignment.merged()
    minutes = sorted(60 / merged.mean("components")[:, 0])
    assert minutes == pytest.approx([2.0, 15.0], rel=0.15)

    report = page(alignment)
    assert report.count('<h3>Clock <span class="no">') == 2
    assert all(f"<dt>minutes between visits</dt><dd>{value:.3g}</dd>" in report for value in minutes)

    shown = described(model, merged, alignment, ["a", "b"]).posterior
    assert (shown["view"], shown["noun"]) == ("clocks", "clock")
    drawn = [component["drawing"]["entries"] for component in shown["components"]]
    assert sorted(drawn, key=lambda entries: float(entries[0][1])) == [
        [["minutes between visits", f"{value:.4g}"]] for value in minutes
    ]

    db.save(merged, tmp_path / "a.posterior")
    show(tmp_path / "a.posterior")
    printed = capsys.readouterr().out
    assert "minutes between visits" in printed
    assert all(f"{value:.4g}" in printed for value in minutes)
    assert f"{minutes[0]:.3g}" in merged._repr_html_()


def test_values_of_a_known_kind_are_drawn_by_everybody(rng):
    """Words are bars in a report, words on the page and a bar chart in a picture, whatever the model."""
    model, posteriors = fitted(Spoken, rng)
    alignment = db.align(posteriors)
    assert page(alignment).count('<ol class="bars"><li><span>') == 2
    shown = described(model, alignment.merged(), alignment, ["a", "b"]).posterior
    assert {component["drawing"]["kind"] for component in shown["components"]} == {"words"}
    pytest.importorskip("matplotlib", reason="needs the plot extra")
    labels = [axes.get_yticklabels()[0].get_text() for axes in db.plot.components(alignment.merged()).axes]
    assert labels == [*CLOCKS]


def test_names_of_views_are_checked():
    class Mine(views.View):
        name = "words"

    with pytest.raises(ValueError, match="ships a view named 'words'"):
        views.register(Mine)
    with pytest.raises(TypeError, match=r"decbayes\.views\.View"):
        views.register(int)

    @dataclass(frozen=True)
    class Lost(db.PoissonMixture):
        view = "nowhere"

    with pytest.raises(LookupError, match=r"'nowhere' \(table, words, images, mixture, points"):
        views.view_of(Lost(2, 1))


@pytest.mark.parametrize("count", [1, 3, 7])
def test_the_largest_values_are_those_of_a_whole_sort(count, rng):
    from decbayes.families.dirichlets.relevance import leading

    values = rng.integers(4, size=(2, 7)).astype(float)  # with ties
    assert leading(values, count).tolist() == np.argsort(-values, axis=1, kind="stable")[:, :count].tolist()


def test_a_model_that_nobody_knows_is_shown_in_numbers(rng):
    structure = db.extending.Structure({"rate": db.families.Gamma()}, {"rate": np.array([[1.0, -2.0]])})
    posterior = db.Posterior.of_prior(structure)
    view = views.view_of(structure)
    assert (view.title, view.captions(posterior), [*view.parts(posterior)]) == ("a model without a name", [], [])
    assert view.rows(posterior)[0]["mean"] == pytest.approx(1.0)
    assert "without a name" in page(db.align([posterior]))
