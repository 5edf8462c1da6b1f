"""The list of mutants fits the source: `make mutants` can try each of them."""

from pathlib import Path

import pytest
from catalogue import ROOT, areas, mutants, patched

ALL = [mutant for area in areas() for mutant in mutants(area)]


@pytest.mark.parametrize("mutant", ALL, ids=lambda mutant: f"{mutant.area}-{mutant.name}")
def test_a_mutant_changes_one_place_and_names_tests_that_exist(mutant):
    text = (ROOT / mutant.path).read_text(encoding="utf-8")
    changed = mutant.applied(text)
    assert changed != text
    if mutant.file.endswith(".py"):
        compile(changed, mutant.file, "exec")
    assert mutant.breaks
    assert mutant.tests
    for test in mutant.tests:
        file, *names = test.split("::")
        content = (ROOT / "tests" / file).read_text(encoding="utf-8")
        assert all(f" {name.split('[')[0]}" in content for name in names), test


def test_there_are_enough_of_them_in_all_areas():
    assert {"families", "kernels", "merging", "models", "network", "streaming"} <= set(areas())
    assert len(ALL) >= 100
    assert len({(mutant.area, mutant.name) for mutant in ALL}) == len(ALL)
    for test in (each.test for area in areas() for each in patched(area)):
        assert (ROOT / "tests" / Path(test.split("::")[0])).is_file()
