"""Latent features: each observation is a sum of the features it has."""

from decbayes.models.features.latent_features import LatentFeatures

__all__ = ["LatentFeatures"]
