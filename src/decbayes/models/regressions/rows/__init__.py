"""Rows of a regression: columns as numbers (`table`), rare levels (`rare`), several rows of one (`stacking`)."""
