"""Decentralized Bayesian inference: fit where the data lives, broadcast once, merge anywhere."""

__version__ = "0.1.0"
