"""The protocol: what agents say to each other and what they make of it. No input or output."""
