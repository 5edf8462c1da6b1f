"""The protocol without I/O: calls and bytes in, effects out.

`agent` is the state machine, `effects` are its outputs, `events` what it reports, `limits` bound what members may ask
of each other. Each room uses only those before it: group, records, then site (an agent's own data) and talk (with
neighbours).
"""
