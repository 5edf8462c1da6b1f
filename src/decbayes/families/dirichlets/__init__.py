"""Distributions of probabilities: Beta, Dirichlet rows, mixture weights, transition matrices."""
