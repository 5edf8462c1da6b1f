"""The same searches on a GPU."""
