"""Differential privacy: promises about single persons, noise that keeps them, and merges that account for the noise."""

from typing import TYPE_CHECKING

from decbayes.base.lazily import exported

if TYPE_CHECKING:
    from decbayes.privacy.accounting import Privacy as Privacy
    from decbayes.privacy.accounting import delta_of as delta_of
    from decbayes.privacy.accounting import epsilon_of as epsilon_of
    from decbayes.privacy.accounting import mu_of as mu_of
    from decbayes.privacy.grid import Grid as Grid
    from decbayes.privacy.grid import discrete_gaussian as discrete_gaussian
    from decbayes.privacy.grid import exact_sum as exact_sum
    from decbayes.privacy.grid import quantize as quantize
    from decbayes.privacy.mechanism import Mechanism as Mechanism
    from decbayes.privacy.mechanism import PrivateMerge as PrivateMerge
    from decbayes.privacy.release_files import load_release as load_release
    from decbayes.privacy.release_files import save_release as save_release
    from decbayes.privacy.releasing import Release as Release
    from decbayes.privacy.releasing import summed as summed
else:
    __getattr__, __all__ = exported(
        __name__,
        {
            ".accounting": "Privacy delta_of epsilon_of mu_of",
            ".grid": "Grid discrete_gaussian exact_sum quantize",
            ".mechanism": "Mechanism PrivateMerge",
            ".release_files": "load_release save_release",
            ".releasing": "Release summed",
        },
    )
