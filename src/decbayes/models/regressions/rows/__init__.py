"""Rows of a regression: columns as numbers (`table`), without what few have (`rare`), several of one (`stacking`)."""
