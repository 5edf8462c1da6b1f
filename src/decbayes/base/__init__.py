"""Shared foundations that no user types: checks of arguments, lazy rooms, registries, optional packages, tensors in
files, workers, and how results are displayed."""
