"""Tables of mixed columns with missing values: latent classes, profiles, filled-in values."""

from decbayes.models.tables.latent_classes import LatentClasses

__all__ = ["LatentClasses"]
