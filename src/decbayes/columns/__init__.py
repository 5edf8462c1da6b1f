"""Columns of tables: what each holds, agreed upon across sites, and data frames of them in and out."""

from decbayes.columns.column import Column
from decbayes.columns.frames import agree, coded, columns_of, declared, decoded, plain
from decbayes.columns.kinds import KINDS, OTHER, Categorical, Gaussian, Missing, Poisson, YesNo, register

__all__ = [
    "KINDS",
    "OTHER",
    "Categorical",
    "Column",
    "Gaussian",
    "Missing",
    "Poisson",
    "YesNo",
    "agree",
    "coded",
    "columns_of",
    "declared",
    "decoded",
    "plain",
    "register",
]
