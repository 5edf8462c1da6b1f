"""Rows count as persons only if no column of the file says that persons have several."""

from dataclasses import replace

import numpy as np
import pytest
from patients import write_csv

from decbayes import LinearRegression, Posterior, save
from decbayes.disclosure import Rules, load
from decbayes.disclosure.identifiers import check_persons, check_units, codes_of
from decbayes.disclosure.manifest import manifest_in
from decbayes.errors import NotDisclosed
from decbayes.files import load_note
from decbayes.network.protocol.group.charter import Charter
from decbayes.network.runtime.owner import read_site
from decbayes.secure import Folder

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
    "Fallnummer": 70_000_000 + np.arange(ROWS) % 20,
    "Patienten-Nr": np.arange(ROWS) % 20,
    "case_id": np.arange(ROWS) % 20,
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


def visits(rng, persons=40):
    """Rows of persons, whose sex and birth year do not change, in some order; and the person of each."""
    who = rng.permutation(np.repeat(np.arange(persons), rng.integers(1, 8, persons)))
    sex, born = rng.choice(["f", "m"], persons), rng.integers(1930, 2005, persons)
    return who, {"sex": sex[who], "born": born[who], "score": rng.normal(size=len(who)).round(2)}


CODES = {
    "numbers": lambda rng: rng.permutation(90_000)[:40] + 10_000,
    "running": lambda rng: 1 + np.arange(40),
    "codes": lambda rng: np.array([f"X{number:04d}" for number in rng.permutation(9_000)[:40]], dtype=object),
}


@pytest.mark.parametrize("kind", ["numbers", "running", "codes"])
def test_what_stays_the_same_in_rows_with_one_value_tells_persons_apart(kind, rng):
    who, table = visits(rng)
    table["v17"] = CODES[kind](rng)[who]
    with pytest.raises(NotDisclosed, match=r"same 'v17' always have the same 'sex'.*--person v17.*--person none"):
        check_units(table)
    once = np.unique(who, return_index=True)[1]
    check_units({name: values[once] for name, values in table.items()})
    check_units({"v17": table["v17"], "score": table["score"]})  # nothing stays the same


def test_groups_of_many_rows_and_columns_computed_from_others_are_no_persons(rng):
    age, year = rng.integers(18, 95, 400), rng.integers(1990, 2020, 400)
    ward = rng.integers(100, 112, 400)
    check_units({
        "age": age, "age group": np.where(age < 40, "young", np.where(age < 65, "middle", "old")), "months": 12 * age,
        "year": year, "leap": year % 4 == 0, "ward": ward, "house": ward % 2, "plz": rng.integers(10_000, 10_200, 400),
        "income": (rng.lognormal(8, 1, 400)).round(-2), "visits": rng.poisson(3, 400),
    })  # fmt: skip


def test_lists_of_columns_count_persons_like_fits(run, rng, tmp_path):
    """The only ward of one patient with six rows would be named."""
    patient = np.repeat(np.arange(40), 6)
    ward = np.array(["heart", "bone"], dtype=object)[patient % 2]
    ward[patient == 7] = "burns"
    write_csv(tmp_path / "a.csv", {"patient": patient, "ward": ward, "score": rng.normal(size=240).round(2)})
    for line in ("--columns ward,score", "--formula score~ward --model linear-regression"):
        status, _, errors = run(f"columns a.csv {line} -o a.columns")
        assert (status, (tmp_path / "a.columns").exists()) == (1, False)
        assert "'patient' seems to identify persons, 40 in 240 rows" in errors
        assert run(f"columns a.csv {line} --person patient -o a.columns")[0] == 0
        assert "burns" not in (tmp_path / "a.columns").read_text(encoding="utf-8")
        (tmp_path / "a.columns").unlink()
        assert run(f"columns a.csv {line} --person none -o a.columns")[0] == 0
        (tmp_path / "a.columns").unlink()
    run("study new s --model linear-regression --formula score~ward --sites north --question q --rules usual")
    errors = run("study check a.csv --site north")[2]
    assert 'Name the column: person = "patient" in protocol.toml. If each row' in errors
    assert 'after all: person = "none" in protocol.toml.' in errors
    assert not (tmp_path / "s/sites/north/north.columns").exists()


def test_secure_sums_and_agents_count_persons_like_fits(run, rng, tmp_path):
    who, table = visits(rng)
    write_csv(tmp_path / "a.csv", {"v17": who, **table})
    listed = [["sex", "categorical", "f", "m", "other"], ["score", "real", 0, 1, 0.01]]
    model = LinearRegression("score", columns=listed)
    save(Posterior.of_prior(model.structure), tmp_path / "prior.posterior")
    keys = {name: run(f"keygen {name}.key")[1].strip() for name in "abc"}
    members = " ".join(f"--member {name}={key}" for name, key in keys.items())
    assert run(f"secure new sums --anchor prior.posterior {members}")[0] == 0
    agreed = Folder(tmp_path / "sums").agreement.fingerprint[:16]
    for name in keys:
        status, _, errors = run(f"secure round sums a.csv --key {name}.key --agreed {agreed} --approve Kim")
    assert (status, "--person v17" in errors) == (1, True)
    publics = {name: bytes.fromhex(key) for name, key in keys.items()}
    charter = Charter("g", "LinearRegression", {"target": "score", "columns": listed}, publics, disclosure=Rules())
    with pytest.raises(NotDisclosed, match="--person v17"):
        read_site(charter, tmp_path / "a.csv", "")
    assert read_site(charter, tmp_path / "a.csv", "none")[1] is None
    assert read_site(replace(charter, disclosure=None), tmp_path / "a.csv", "")[1] is None


def test_numbers_and_texts_of_one_column_have_one_order():
    values = [*map(str, range(12)), *(f"P{number}" for number in range(10)), ""]
    assert codes_of(values)[1] == values[:-1]


def test_numbers_have_the_codes_of_their_texts(rng):
    values = rng.integers(-20, 20, size=200) / 4.0
    values[::7] = np.nan
    codes, labels = codes_of(values)
    as_objects, texts = codes_of([*values.tolist(), "text"])
    np.testing.assert_array_equal(codes, as_objects[:-1])
    np.testing.assert_array_equal(labels, [float(text) for text in texts[:-1]])
