"""What streaming, refinement and the network need of a model."""

from typing import Any, Protocol

import numpy as np

from decbayes.models.ascent import Fit, Progress
from decbayes.posterior import Posterior
from decbayes.structure import Structure


class Model(Protocol):
    """Data → local posterior, on top of any prior and from any start."""

    @property
    def structure(self) -> Structure: ...

    def fit(
        self,
        data: Any,
        *,
        rng: np.random.Generator,
        prior: Posterior | None = None,
        start: Posterior | None = None,
        progress: Progress | None = None,
    ) -> Fit: ...
