"""Shared by all merges: the problem that solvers see, canonical order, sums in slots, division of counts."""
