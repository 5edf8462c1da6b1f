"""Detecting columns that identify persons: e-mail addresses, phone and record numbers, dates, amounts, names."""

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from decbayes.columns import OTHER, Column
from decbayes.columns.cells import is_missing, number_of, text_of
from decbayes.families import Array

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
# Of these, words that nobody has several of.
RECORDS = {"ssn", "nhs", "mrn", "passport", "iban"}
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
NEARLY_ALL, MOST = 0.9, 0.5
FEW_ROWS = 10
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
    return last in ID | JOINED if not before else last in ID | NUMBERS and before[-1] in PERSON


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
    if counted or (TELLING_IF_MANY & set(words)):
        return "its values are all different whole numbers, as record numbers are. Leave it out"
    return ""


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
