"""Signed records that members publish, the notes in them, and how they are checked, pooled and merged."""
