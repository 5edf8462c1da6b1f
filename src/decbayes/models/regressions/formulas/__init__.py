"""Formulas as in R: what they say (`formula`), what terms are made of (`factors`), rows as numbers (`design`)."""
