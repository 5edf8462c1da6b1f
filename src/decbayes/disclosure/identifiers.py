"""Detecting columns that identify persons: e-mail addresses, phone and record numbers, dates, amounts, names.

And persons with several rows, by the name of a column or by what stays the same in rows with one of its values.
"""

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from shlex import quote
from typing import Any

import numpy as np
from numpy.typing import NDArray

from decbayes.columns import OTHER, Column
from decbayes.columns.cells import is_missing, number_of, text_of
from decbayes.errors import NotDisclosed
from decbayes.families import Array
from decbayes.models.core.model import Model

EMAIL = re.compile(r"[^@\s]+@[^@\s]+\.[^@\s]+")
MONTH = r"(?:jan|feb|mar|apr|may|mai|jun|jul|aug|sep|okt|oct|nov|dec|dez)[a-zäé]*"
DATE = re.compile(
    r"(?:\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[-/.]\d{1,2}[-/.](?:\d{4}|\d{2})"
    rf"|\d{{1,2}}\.?[ -]{MONTH}\.?,?[ -]\d{{2,4}}|{MONTH}\.? \d{{1,2}},? \d{{4}})(?:[T ,].*)?",
    re.IGNORECASE,
)
SEPARATED = re.compile(r"[-+]?[$€£]?\s?\d{1,3}(?:[,.' ]\d{3})+(?:[,.]\d+)?|[-+]?[$€£]?\s?\d+,\d+|[$€£]\s?\d+(?:\.\d+)?")
PERCENT = re.compile(r"[-+]?\d+(?:[.,]\d+)?\s?%")
PHONE = re.compile(r"(?:\+|00|0|\()[\d()][\d\s()/.-]{5,}\d")
RECORD = re.compile(r"[A-Za-z]{0,5}[-_/#. ]?\d{4,}(?:[-_/.]?\d+)*")
SHORT_RECORD = re.compile(r"[A-Za-z]{0,3}[-_/#. ]?\d+")
LONG_RECORD = re.compile(r"[A-Za-z]{0,5}[-_/#. ]?\d{6,}(?:[-_/.]?\d+)*")
SURNAME_FIRST = re.compile(r"[A-ZÀ-Þ][\w'’-]+(?: [A-ZÀ-Þ][\w'’-]+)?, ?[A-ZÀ-Þ][\w'’.-]*(?: [A-ZÀ-Þ][\w'’.-]*)*")
# Splits the name of a column into words.
WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")
ALWAYS_TELLING = {
    *("surname", "forename", "firstname", "lastname", "fullname", "email", "phone", "telephone", "mobile", "fax"),
    *("ssn", "nhs", "mrn", "passport", "iban", "dob", "birthdate", "birthday", "street", "vorname", "nachname"),
}
# Of these, words that nobody has several of; Fallnummer, Patientennr.
STEMS = ("fall", "aufnahme", "patienten", "probanden", "versicherten", "personal", "kunden", "mitglieds", "matrikel")
RECORDS = {"ssn", "nhs", "mrn", "passport", "iban", "kvnr"}
RECORDS |= {f"{stem}{end}" for stem in STEMS for end in ("nummer", "nr", "id", "kennung")}
ALWAYS_TELLING |= RECORDS
PAIRS = {
    ("first", "name"),
    ("last", "name"),
    ("full", "name"),
    ("family", "name"),
    ("given", "name"),
    ("birth", "date"),
}
PAIRS |= {("date", "birth"), ("e", "mail"), ("home", "address"), ("street", "address")}
# Words for persons and their identifiers.
PERSON = {
    *("patient", "pat", "person", "subject", "participant", "proband", "client", "customer", "kunde", "member", "user"),
    *("student", "employee", "respondent", "author", "insured"),
}
# Of these, words that do not count persons.
SUBJECT = {"patient", "pat", "subject", "participant", "proband", "respondent"}
ID = {"id", "ids", "identifier", "uuid", "guid", "pseudonym"}
OF_PERSONS = {*PERSON, *ID, "patients", "patienten", "persons", "personen", "account", "insurance"}
NAME = {"name", "names", "nom", "nombre", "naam", "namen"}
NUMBERS = {"number", "nr", "no", "num", "key", "code", "record", "case"}
TELLING_IF_MANY = {
    *OF_PERSONS,
    *NAME,
    *NUMBERS,
    *("address", "index", "row", "seq", "seqn", "serial", "pid", "sid"),
    *("plz", "zip", "zipcode", "postcode", "postal", "postleitzahl"),
}
# patientid, subjid
JOINED = {f"{word}{end}" for word in (*PERSON, "subj", "usubj") for end in (*ID, *NUMBERS)}
NEARLY_ALL, MOST, ROUND = 0.9, 0.5, 0.3
FEW_ROWS = 10
# Rows that are compared, at most. Persons have fewer rows each than groups such as wards, and similar numbers of them.
ROWS, ROWS_EACH, UNEVEN = 20_000, 20, 10
YEARS = range(1800, 2101)
# Rows of one person agree, up to slips; that they do so by chance must be this unlikely.
AGREE, CHANCE = 0.98, 1e-6
# A column computed from another one, such as age groups from ages, changes rarely, or in one direction, along it.
TURNS = 0.25

Codes = NDArray[np.intp]
LEAVE_OUT = "its name says that it identifies persons. Leave it out"
OR_PERSON = "or name it as --person if they have several rows"


def why_refused(name: str, column: Column, numbers: Array) -> str:
    """Why a column may identify persons, and what to do; "" if nothing suggests it. No value is quoted."""
    words = [word.lower() for word in WORDS.findall(name)]
    known = numbers[~np.isnan(numbers)]
    telling = ALWAYS_TELLING & {*words, "".join(words)} or any(pair in PAIRS for pair in pairwise(words))
    if telling and not counts_only(column, known, words):
        return LEAVE_OUT
    labels = [label for label in column.entries if label and label != OTHER]
    if labels:
        return labels_refused(labels, known, words)
    return numbers_refused(known, words) if not column.shown_as_share else ""


def counts_only(column: Column, known: Array, words: Sequence[str]) -> bool:
    """Whether values are yes or no, or a few numbers, such as whether there is a phone or how many calls were made."""
    most = 2 if RECORDS & {*words} else max(2, MOST * len(known))
    return column.entries == ("",) and len(np.unique(known)) <= most


def labels_refused(labels: Sequence[str], known: Array, words: Sequence[str]) -> str:
    if any(EMAIL.search(label) for label in labels):
        return "its values are e-mail addresses. Leave it out"
    if share_of(DATE, labels) > MOST:
        return "its values are dates. Turn them into years, or into days since an agreed event"
    if share_of(SEPARATED, labels) > MOST or (len(labels) > FEW_ROWS and share_of(PERCENT, labels) > MOST):
        return "its values are numbers written with separators or signs. Write them as plain numbers: 10068202, 3.14"
    if len(labels) >= FEW_ROWS and share_of(PHONE, labels) > MOST:
        return "its values look like phone numbers. Leave it out"
    often = len(known) < FEW_ROWS or len(np.unique(known)) <= MOST * len(known)
    if not often:
        return "nearly every row has a value of its own, as names and record numbers have. Leave it out"
    if len(labels) <= FEW_ROWS:
        return f"{LEAVE_OUT}, {OR_PERSON}" if few_persons(labels, words) else ""
    # A name is still a name if its person has many rows.
    telling = names_persons(words) or max(share_of(LONG_RECORD, labels), share_of(SURNAME_FIRST, labels)) > MOST
    many = len(labels) > 0.1 * len(known)
    if telling or (many and (share_of(RECORD, labels) > MOST or TELLING_IF_MANY & set(words))):
        return "its values look like names or record numbers. Leave it out"
    return ""


def names_persons(words: Sequence[str]) -> bool:
    """Whether a column is called patient, patient number, customer_id, name or the like."""
    *before, last = words or ("",)
    if last in NAME:
        return not before or before[-1] in OF_PERSONS
    return last in OF_PERSONS or (last in NUMBERS and bool(OF_PERSONS & {*before[-1:]}))


def numbers_persons(words: Sequence[str]) -> bool:
    """Whether a column of numbers is called patient, patient number, customer_id, id or the like; not ward_id."""
    return says_number(words) or (len(words) == 1 and words[0] in PERSON)


def says_number(words: Sequence[str]) -> bool:
    """Whether a column is called patient number, customer_id, id or the like."""
    *before, last = words or ("",)
    if RECORDS & {*words}:
        return True
    return last in ID | JOINED if not before else last in ID | NUMBERS and before[-1] in {*PERSON, *STEMS, "case"}


def few_persons(labels: Sequence[str], words: Sequence[str]) -> bool:
    """Whether these are the numbers of a few persons: two may be a yes and a no, and wards are no numbers."""
    numbered = numbers_persons(words) and share_of(SHORT_RECORD, labels) > MOST
    return len(labels) > 2 and (says_number(words) or numbered)


def may_identify(name: str) -> bool:
    """Whether the name of a column says that it identifies persons, whatever it holds."""
    return numbers_persons([word.lower() for word in WORDS.findall(name)])


def repeated(name: str, values: Sequence[Any]) -> tuple[int, int]:
    """The rows and the persons in a column that identifies persons with several rows each; (0, 0) if it does not."""
    texts = [text_of(value) for value in values if not is_missing(value)]
    labels, words = sorted(set(texts)), [word.lower() for word in WORDS.findall(name)]
    numbers = np.array([number_of(label) for label in labels])
    if not 2 < len(labels) < len(texts):
        return 0, 0
    many = len(labels) > FEW_ROWS and may_identify(name)
    few = few_persons(labels, words) if np.isnan(numbers).any() else few_numbers(numbers, words)
    return (len(texts), len(labels)) if many or few else (0, 0)


def numbers_refused(known: Array, words: Sequence[str]) -> str:
    if len(known) < FEW_ROWS:
        return ""
    whole = bool((known == np.rint(known)).all())
    different = len(np.unique(known))
    if whole and np.mean(calendar_days(known)) > NEARLY_ALL and different > 3:
        return "its values are dates. Turn them into years, or into days since an agreed event"
    persons = (different > FEW_ROWS and numbers_persons(words)) or few_numbers(known, words)
    if whole and persons and different < NEARLY_ALL * len(known):
        return f"{LEAVE_OUT}, {OR_PERSON}"
    if not whole or different < NEARLY_ALL * len(known):
        return ""
    steps = np.diff(np.unique(known))
    counted = bool(np.mean(steps == 1) > NEARLY_ALL and different == len(known) and len(known) > 2 * FEW_ROWS)
    if counted or (TELLING_IF_MANY & set(words)) or numbers_persons(words) or long_numbers(known):
        return "nearly all its values are different whole numbers, as record numbers are. Leave it out"
    return ""


def long_numbers(numbers: Array) -> bool:
    """Whether whole numbers have equally many digits, at least seven, and are not rounded, as amounts are."""
    digits = np.floor(np.log10(np.maximum(numbers, 1.0)))
    return bool(digits[0] >= 6 and (digits == digits[0]).all() and np.mean(numbers % 10 == 0) < ROUND)


def few_numbers(numbers: Array, words: Sequence[str]) -> bool:
    """Whether these are the numbers of a few persons; counts of persons begin at 0."""
    named = says_number(words) or (numbers_persons(words) and SUBJECT & {*words} and numbers.min() >= 1.0)
    return bool(named) and len(np.unique(numbers)) > 2


def calendar_days(numbers: Array) -> Array:
    """Which numbers are days written as YYYYMMDD."""
    year, month, day = numbers // 10_000, numbers // 100 % 100, numbers % 100
    return np.asarray((year >= 1850) & (year <= 2150) & (month >= 1) & (month <= 12) & (day >= 1) & (day <= 31))


def share_of(pattern: re.Pattern[str], labels: Sequence[str]) -> float:
    return sum(pattern.fullmatch(label.strip()) is not None for label in labels) / max(len(labels), 1)


def check_rows_are_persons(path: Path, model: Model | None = None) -> None:
    """Refuse to count the rows of a table as persons, or its sequences, if persons seem to have several."""
    if model is not None and model.many_files:
        return
    from decbayes.inputs.mixed_tables import read_frame  # topics need no tables
    from decbayes.inputs.tables import column_names

    sequences, *groups = (getattr(model, setting, "") for setting in ("sequences", "by", "within"))
    names = [name for name in column_names(path) if name not in (sequences, *groups)]
    telling = [name for name in names if may_identify(name)]
    if telling:
        frame = first_rows(read_frame(path, [*telling, *filter(None, [sequences])]), sequences)
        check_persons({name: frame[name] for name in telling})
    if names and not sequences:
        check_units({name: values for name, values in read_frame(path, most=ROWS).items() if name in names})


def first_rows(frame: Mapping[str, Any], sequences: str) -> dict[str, Any]:
    """The first row of each sequence; all rows if there are none."""
    first = np.unique(frame[sequences].astype(str), return_index=True)[1] if sequences else slice(None)
    return {name: values[first] for name, values in frame.items()}


def check_persons(frame: Mapping[str, Any]) -> None:
    """Refuse to count rows as persons if a column identifies persons, by its name, who have several rows each."""
    for name, values in frame.items():
        rows, persons = repeated(name, values)
        if rows:
            raise NotDisclosed(
                f"Column '{name}' seems to identify persons, {persons:,} in {rows:,} rows, and each row would count as "
                f"a person. Name the column: --person {quote(name)}. If each row is another person after all: --person "
                "none."
            )


def check_units(frame: Mapping[str, Any]) -> None:
    """Refuse to count rows as persons if rows with one value of a column always agree in another, as a person's do."""
    unit, same = repeated_units(frame)
    if unit:
        raise NotDisclosed(
            f"Rows with the same '{unit}' always have the same '{same}'. If they are of one person, name the column: "
            f"--person {quote(unit)}. If each row is another person: --person none."
        )


def repeated_units(frame: Mapping[str, Any]) -> tuple[str, str]:
    """A column of codes or whole numbers, with a few rows each, and another that is the same in all rows of each; two
    empty names if there are none.
    """
    columns = {name: codes_of(values[:ROWS]) for name, values in frame.items()}
    for name, (codes, labels) in columns.items():
        if not numbers_units(codes, labels):
            continue
        for other, (values, _) in columns.items():
            if other != name and stays(codes, values):
                return name, other
    return "", ""


def codes_of(values: Sequence[Any]) -> tuple[Codes, Sequence[Any]]:
    """The place of each value among the sorted labels, −1 if missing, and the labels: numbers, then texts."""
    numbers = np.asarray(values)
    if numbers.dtype.kind == "f":  # many are different, and texts of all would take long
        different, places = np.unique(numbers, return_inverse=True)
        return np.where(np.isnan(numbers), -1, places), different[~np.isnan(different)]
    texts = ["" if is_missing(value) else text_of(value) for value in values]
    labels = sorted({*texts} - {""}, key=in_order)
    place_of = {label: place for place, label in enumerate(labels)}
    return np.array([place_of.get(text, -1) for text in texts], dtype=np.intp), labels


def in_order(text: str) -> tuple[bool, float, str]:
    """Sort key that puts numbers first: NaN has no place among them."""
    number = number_of(text)
    return (True, 0.0, text) if np.isnan(number) else (False, number, text)


def numbers_units(codes: Codes, labels: Sequence[Any]) -> bool:
    """Whether these look like numbers or codes of units with a few rows each."""
    rows = int((codes >= 0).sum())
    if len(labels) <= FEW_ROWS or not FEW_ROWS <= rows - len(labels) <= (ROWS_EACH - 1) * len(labels):
        return False
    if np.bincount(codes[codes >= 0]).max() > UNEVEN * rows / len(labels):
        return False
    numbers = np.array([number_of(label) for label in labels])
    if np.isfinite(numbers).all():
        return bool((numbers == np.rint(numbers)).all() and numbers[0] >= 0.0 and not {*numbers} <= {*YEARS})
    texts = [*map(str, labels)]
    return max(share_of(RECORD, texts), share_of(SHORT_RECORD, texts)) > MOST


def stays(codes: Codes, values: Codes) -> bool:
    """Whether a column is the same in all rows of each unit, which is neither chance nor computed from the units."""
    known = (codes >= 0) & (values >= 0)
    _, first, place = np.unique(codes[known], return_index=True, return_inverse=True)
    values = values[known]
    each = values[first]
    again = np.ones(len(values), dtype=np.bool_)
    again[first] = False
    if again.sum() < FEW_ROWS or (values == each[place])[again].mean() < AGREE:
        return False
    shares = np.bincount(values) / len(values)
    if again.sum() * np.log(max(float(shares @ shares), 1e-300)) > np.log(CHANCE):
        return False
    return not computed(each.astype(np.float64))


def computed(along: Array) -> bool:
    """Whether values along sorted units change less often than in random order, or in one direction."""
    steps = np.diff(along)
    different = 1.0 - float(np.sum((np.unique(along, return_counts=True)[1] / len(along)) ** 2))
    turns = min((steps > 0).sum(), (steps < 0).sum()) / len(steps)
    return bool(turns < TURNS * different / 2.0)
