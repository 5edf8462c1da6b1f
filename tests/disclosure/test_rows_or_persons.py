"""Rows count as persons only if no column of the file says that persons have several."""

import numpy as np
import pytest
from patients import write_csv

from decbayes.disclosure import load
from decbayes.disclosure.manifest import manifest_in
from decbayes.disclosure.preparing import check_persons
from decbayes.errors import NotDisclosed
from decbayes.files import load_note

ROWS = 60


def codes(persons, start="P"):
    return np.array([f"{start}{number:03d}" for number in np.arange(ROWS) % persons], dtype=object)


IDENTIFY = {
    "patient": codes(3),
    "patient_id": codes(8),
    "PatientNr": np.arange(ROWS) % 8,
    "patientid": np.arange(ROWS) % 30,
    "subject": 1 + np.arange(ROWS) % 6,
    "participant": codes(ROWS - 1),
    "client": codes(20),
    "mrn": 70_000 + np.arange(ROWS) % 20,
    "id": np.arange(ROWS) % 20,
}
DO_NOT = {
    "patient": codes(ROWS),
    "id": np.arange(ROWS),
    "doctor": codes(6, "D"),
    "doctor_id": np.arange(ROWS) % 6,
    "ward_id": np.arange(ROWS) % 6,
    "subject": np.array(["maths", "art", "sport"])[np.arange(ROWS) % 3],
    "patients": np.arange(ROWS) % 9,
    "person": 1 + np.arange(ROWS) % 5,
    "member": np.array(["gold", "silver", "none"])[np.arange(ROWS) % 3],
    "insured": np.array(["yes", "no"])[np.arange(ROWS) % 2],
    "employee": np.arange(ROWS) % 2,
    "visit": np.arange(ROWS) % 6,
    "year": 2000 + np.arange(ROWS) % 20,
}


@pytest.mark.parametrize("name", IDENTIFY)
def test_a_column_that_identifies_persons_with_several_rows_is_named_and_not_quoted(name):
    with pytest.raises(NotDisclosed, match=f"--person {name}") as refused:
        check_persons({name: IDENTIFY[name]})
    assert str(IDENTIFY[name][7]) not in str(refused.value).replace("in 60 rows", "") or name in ("subject", "id")


@pytest.mark.parametrize("name", DO_NOT)
def test_one_row_per_person_and_other_columns_pass(name):
    check_persons({name: DO_NOT[name]})


def test_visits_are_not_taken_for_patients(run, rng, tmp_path):
    patient = np.repeat([f"Q{number:03d}" for number in range(40)], 6)
    table = {"patient": patient, "visit": np.tile(np.arange(6), 40), "score": rng.normal(size=240).round(2)}
    write_csv(tmp_path / "a.csv", table)
    fit = "fit linear-regression a.csv --formula score~visit -o a"
    status, _, errors = run(fit)
    assert (status, (tmp_path / "a").exists()) == (1, False)
    assert "40 in 240 rows" in errors
    assert "--person patient" in errors
    for person, persons, said in (("patient", 40, "40 persons;"), ("none", 240, "240 observations, each counted as")):
        assert run(f"{fit} --person {person}")[0] == 0
        assert said in run("preview a --data a.csv")[1]
        manifest = manifest_in(load_note(tmp_path / "a"))
        assert (manifest.rows, manifest.persons, manifest.person == "patient") == (240, persons, persons == 40)
        assert load(tmp_path / "a").remarks is not None


@pytest.mark.parametrize(("name", "persons"), [("patient_id", 8), ("patient", 3), ("mrn", 20), ("subject", 6)])
def test_lists_of_columns_for_others_have_no_record_numbers_however_few(run, rng, tmp_path, name, persons):
    write_csv(tmp_path / "a.csv", {name: IDENTIFY[name], "score": rng.normal(size=ROWS).round(2)})
    status, printed, errors = run("columns a.csv -o a.columns")
    assert (status, printed, (tmp_path / "a.columns").exists()) == (1, "", False)
    assert "its name says that it identifies persons" in errors
    assert len(np.unique(IDENTIFY[name])) == persons
