"""How far to believe a result."""
