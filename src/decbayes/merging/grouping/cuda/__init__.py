"""The same search and division on a GPU."""
