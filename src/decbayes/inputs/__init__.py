"""Observations from files: tables, arrays, counts and texts."""
