"""One file per command, in the groups that `decbayes --help` shows."""
