"""Formulas as in R: parsing (`formula`), parts of terms (`factors`, `expressions`), rows as numbers (`design`)."""
