"""A study by files, from its protocol to its report."""
