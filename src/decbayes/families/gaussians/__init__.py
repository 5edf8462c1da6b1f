"""Gaussians over vectors and coefficients, with a known or an unknown precision."""
