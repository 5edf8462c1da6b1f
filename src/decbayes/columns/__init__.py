"""Columns of tables: what each holds, agreed upon across sites, and data frames of them in and out."""

from decbayes.columns.frames import (
    Columns,
    agree,
    coded,
    columns_of,
    declared,
    decoded,
    is_frame,
    names_in,
    plain,
    warn,
)
from decbayes.columns.kinds import KINDS, Categorical, Column, Gaussian, Poisson, YesNo

__all__ = [
    "KINDS",
    "Categorical",
    "Column",
    "Columns",
    "Gaussian",
    "Poisson",
    "YesNo",
    "agree",
    "coded",
    "columns_of",
    "declared",
    "decoded",
    "is_frame",
    "names_in",
    "plain",
    "warn",
]
