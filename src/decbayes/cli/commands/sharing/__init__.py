"""See what a file says before it leaves; release it; and look up what has left."""
