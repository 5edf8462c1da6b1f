"""Rows of a regression: agreed columns as numbers (`table`), observations that count as several rows (`stacking`)."""
