"""Columns of tables: what each holds, agreed upon across sites, and data frames of them in and out."""

from decbayes.columns.frames import (
    Columns,
    agree,
    coded,
    columns_of,
    declared,
    decoded,
    is_frame,
    known,
    names_in,
    plain,
    warn,
)
from decbayes.columns.kinds import KINDS, Categorical, Column, Gaussian, Missing, Poisson, YesNo

__all__ = [
    "KINDS",
    "Categorical",
    "Column",
    "Columns",
    "Gaussian",
    "Missing",
    "Poisson",
    "YesNo",
    "agree",
    "coded",
    "columns_of",
    "declared",
    "decoded",
    "is_frame",
    "known",
    "names_in",
    "plain",
    "warn",
]
