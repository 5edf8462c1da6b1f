"""The same climb on a GPU, of one site or of many at once."""
