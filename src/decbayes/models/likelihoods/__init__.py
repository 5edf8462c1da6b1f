"""Likelihoods of single observations, each with its conjugate family, and passes over them."""

from decbayes.models.likelihoods.likelihood import Likelihood

__all__ = ["Likelihood"]
