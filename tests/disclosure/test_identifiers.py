"""Columns that name persons are refused, ordinary ones are not; no value is quoted."""

import numpy as np
import pytest

import decbayes as db
from decbayes.disclosure import Rules, check_columns, prepared
from decbayes.errors import NotDisclosed

ROWS = 60


def check(name, values):
    frame = {name: np.asarray(values, dtype=object)}
    columns = db.columns.columns_of(frame, report=lambda text: None)
    check_columns(columns, db.columns.coded(frame, columns), Rules())


def dates(rng, form):
    return [form.format(y=rng.integers(1940, 2020), m=rng.integers(1, 13), d=rng.integers(1, 29)) for _ in range(ROWS)]


PERSONAL = {
    "names": lambda rng: [f"Person {number}" for number in range(ROWS)],
    "e-mail": lambda rng: [f"{rng.choice(['kim', 'jo'])}@example.org" for _ in range(ROWS)],
    "ISO dates": lambda rng: dates(rng, "{y}-{m:02d}-{d:02d}"),
    "German dates": lambda rng: dates(rng, "{d:02d}.{m:02d}.{y}"),
    "American dates": lambda rng: dates(rng, "{m}/{d}/{y}"),
    "times": lambda rng: dates(rng, "{y}-{m:02d}-{d:02d} 10:30"),
    "dates as numbers": lambda rng: [int(text) for text in dates(rng, "{y}{m:02d}{d:02d}")],
    "thousands": lambda rng: [
        f"{rng.integers(1, 99)},{rng.integers(100, 999)},{rng.integers(100, 999)}" for _ in range(60)
    ],
    "decimal commas": lambda rng: [f"{rng.integers(1, 99)},{rng.integers(0, 99):02d}" for _ in range(ROWS)],
    "percents": lambda rng: [f"{rng.integers(0, 99)}.{rng.integers(0, 9)} %" for _ in range(ROWS)],
    "phones": lambda rng: [f"+49 30 {rng.integers(100000, 999999)}" for _ in range(ROWS)],
    "records": lambda rng: [f"MRN-{rng.integers(10000, 99999)}" for _ in range(ROWS)],
    "running numbers": lambda rng: [1000 + number for number in range(ROWS)],
}
ORDINARY = {
    "ward": lambda rng: rng.choice(["heart", "bone", "skin"], ROWS),
    "age": lambda rng: rng.integers(20, 90, ROWS),
    "income": lambda rng: rng.normal(30_000, 9_000, ROWS).round(2),
    "year": lambda rng: rng.integers(1940, 2020, ROWS),
    "code": lambda rng: rng.choice(["A10", "B20", "C30"], ROWS),
    "room_number": lambda rng: rng.integers(1, 9, ROWS),
    "answer": lambda rng: rng.choice(["yes", "no"], ROWS),
    "grade": lambda rng: rng.choice(["1", "2", "3"], ROWS),
    "solution": lambda rng: rng.choice(["5%", "10 %"], ROWS),
    "phone_service": lambda rng: rng.choice(["yes", "no"], ROWS),
    "phone calls": lambda rng: rng.integers(0, 9, ROWS),
    "no_of_children": lambda rng: rng.integers(0, 5, ROWS),
    "patients": lambda rng: rng.integers(0, 40, ROWS),
    "number of patients": lambda rng: rng.integers(0, 40, ROWS),
    "patients per ward": lambda rng: rng.integers(0, 40, ROWS),
    "ward_id": lambda rng: rng.integers(0, 15, ROWS),
    "customer_id_type": lambda rng: rng.integers(0, 15, ROWS),
    "patient": lambda rng: rng.integers(0, 9, ROWS),
}


@pytest.mark.parametrize("kind", PERSONAL)
def test_what_names_persons_is_refused_without_quoting_it(kind, rng):
    values = PERSONAL[kind](rng)
    with pytest.raises(NotDisclosed, match="Column 'field'") as refusal:
        check("field", values)
    assert not any(str(value) in str(refusal.value) for value in values)


@pytest.mark.parametrize("kind", ORDINARY)
def test_ordinary_columns_pass(kind, rng):
    check(kind, ORDINARY[kind](rng))


@pytest.mark.parametrize("name", ["email", "Last Name", "lastName", "patient_phone", "date_of_birth", "dob", "SSN"])
def test_names_of_columns_tell(name, rng):
    if name == "date_of_birth":
        name = "birth_date"
    with pytest.raises(NotDisclosed, match="identifies persons"):
        check(name, rng.choice(["a", "b"], ROWS))


@pytest.mark.parametrize("name", ["patient", "PatientNr", "customer_id", "Name", "user"])
def test_names_of_persons_with_many_rows_each_are_still_names(name):
    with pytest.raises(NotDisclosed, match="names or record numbers"):
        check(name, np.repeat([f"Q{number:02d}" for number in range(20)], 30))


@pytest.mark.parametrize("name", ["patient_id", "PatientNr", "ids", "subject", "person id", "Customer Number"])
def test_numbers_of_persons_with_several_rows_each_are_still_record_numbers(name, rng):
    with pytest.raises(NotDisclosed, match=r"identifies persons\. Leave it out, or name it as --person"):
        check(name, np.repeat(rng.permutation(500)[:25], 4))


@pytest.mark.parametrize("values", [[f"Weiß{letter}, Anna {letter}" for letter in "ABCDEFGHIJKLMN"],
                                    [f"C-{number}" for number in range(7_310_001, 7_310_020)]])  # fmt: skip
def test_so_are_values_that_look_like_it(values):
    with pytest.raises(NotDisclosed, match="names or record numbers"):
        check("field", values * 30)


@pytest.mark.parametrize("name", ["patient_region", "drug name", "region", "diagnosis"])
def test_other_columns_may_have_as_many_categories(name):
    check(name, np.repeat([f"c{number}" for number in range(20)], 30))


def test_postal_codes_are_refused_under_their_name(rng):
    with pytest.raises(NotDisclosed, match="record numbers"):
        check("PLZ", rng.permutation(90_000)[:ROWS] + 10_000)


def test_all_refused_columns_are_named_at_once():
    frame = {"email": ["a@b.org"] * 30, "dob": ["1.1.1980"] * 30, "age": list(range(30, 60))}
    columns = db.columns.columns_of(frame, report=lambda text: None)
    with pytest.raises(NotDisclosed, match=r"'email'.*'dob'"):
        check_columns(columns, db.columns.coded(frame, columns), Rules())


def test_whole_numbers_that_are_all_different_are_records_only_under_such_a_name(rng):
    values = rng.permutation(100_000)[:ROWS]
    check("platelets", values)
    for name in ("patient_id", "seqn"):
        with pytest.raises(NotDisclosed, match="record numbers"):
            check(name, values)


def test_clusters_are_not_made_of_record_numbers(rng):
    rows = np.column_stack([np.arange(ROWS), rng.normal(size=ROWS)])
    model = db.GaussianMixture(2, 2, columns=("id", "x"))
    with pytest.raises(NotDisclosed, match="'id': nearly all its values are different whole numbers"):
        prepared(model, rows, Rules())
    assert not prepared(db.GaussianMixture(2, 2, columns=("y", "x")), rng.normal(size=(ROWS, 2)), Rules()).changed
