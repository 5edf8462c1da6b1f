"""The example dashboard and alerts ask for numbers that agents serve."""

import json
import re
from pathlib import Path

import pytest

from decbayes.network.runtime.reports.metrics import metrics_text

FOLDER = Path(__file__).parents[2] / "docs" / "monitoring"
NAME = re.compile(r"\bdecbayes_\w+")


@pytest.mark.parametrize("file", ["alerts.yml", "grafana.json"])
def test_every_number_asked_for_is_served(file):
    text = (FOLDER / file).read_text(encoding="utf-8")
    served = set(re.findall(r"^# TYPE (\w+)", metrics_text({}), re.MULTILINE))
    asked = set(NAME.findall(text))
    assert asked
    assert asked <= served


def test_every_panel_has_a_place_and_a_question():
    panels = json.loads((FOLDER / "grafana.json").read_text(encoding="utf-8"))["panels"]
    places = [tuple(panel["gridPos"][key] for key in "xy") for panel in panels]
    assert len(set(places)) == len(panels)
    assert all(target["expr"] for panel in panels for target in panel["targets"])


def test_a_panel_of_something_rare_shows_zero_before_it_has_happened():
    """Prometheus has no series of a counter by reason until there is one: Grafana would say "No data"."""
    panels = json.loads((FOLDER / "grafana.json").read_text(encoding="utf-8"))["panels"]
    (refused,) = [target["expr"] for panel in panels for target in panel["targets"] if "refused" in target["expr"]]
    assert refused.endswith("or vector(0)")
    assert not re.search(r"^decbayes_refused_total", metrics_text({}), re.MULTILINE)
