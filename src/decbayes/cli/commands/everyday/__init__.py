"""From data to a merged result."""
