"""Communication with neighbours: messages as bytes, gossip, and proofs of identity."""
