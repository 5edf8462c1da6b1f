"""An agent's own side: evidence fitted to its data, names of its shards, and publishing."""
