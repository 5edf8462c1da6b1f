"""From a posterior back to the model it belongs to: a file is then enough to predict."""

from collections.abc import Callable
from typing import Any

from decbayes.arguments import check_kind
from decbayes.errors import StructureMismatch
from decbayes.models.features import LatentFeatures
from decbayes.models.lda import LatentDirichletAllocation
from decbayes.models.mean import GaussianMean
from decbayes.models.mixture import GaussianMixture
from decbayes.structure import Structure

Shipped = GaussianMean | GaussianMixture | LatentDirichletAllocation | LatentFeatures


def model_for(structure: Structure) -> Shipped:
    """The model whose structure this is, with the settings of its likelihood and exactly this prior.

    What is no part of the agreement (restarts, passes and so on) has its default.
    """
    check_kind(Structure, structure=structure)
    name = str(structure.model.get("name", ""))
    if name not in BUILDERS:
        raise StructureMismatch(
            f"The posterior belongs to {name or 'a model without a name'}, which decbayes does not ship "
            f"({', '.join(BUILDERS)}). Predict with the code that fitted it."
        )
    try:
        model = BUILDERS[name](structure)
        agrees = model.structure.with_prior(structure.prior) == structure
    except (KeyError, TypeError, ValueError) as error:
        raise StructureMismatch(f"The structure is not one of {name} ({type(error).__name__}: {error}).") from None
    if not agrees:
        raise StructureMismatch(f"The structure says {name}, but its factors, symmetry or labels are others.")
    # The arguments of a model cannot express every prior (an earlier epoch's posterior, say); its structure can.
    vars(model)["structure"] = structure
    return model


def gaussian_mean(structure: Structure) -> GaussianMean:
    prior = usual_prior(structure, "mean")
    dimension = prior["mean"].shape[1]
    return GaussianMean(structure.model["variance"], prior["mean"][0], float(prior["variance"][0]), dimension)


def gaussian_mixture(structure: Structure) -> GaussianMixture:
    components, dimension = usual_prior(structure, "components")["mean"].shape
    known = structure.model["variance"]
    return GaussianMixture(
        components,
        dimension,
        variance=known,
        covariance=None if known is not None else structure.model["covariance"],
        columns=structure.labels.get("components", ()),
    )


def latent_dirichlet_allocation(structure: Structure) -> LatentDirichletAllocation:
    return LatentDirichletAllocation(
        len(structure.prior["topics"]), structure.labels["topics"], structure.model["document_prior"]
    )


def latent_features(structure: Structure) -> LatentFeatures:
    features, dimension = usual_prior(structure, "features")["mean"].shape
    return LatentFeatures(features, dimension, structure.model["variance"])


def usual_prior(structure: Structure, factor: str) -> dict[str, Any]:
    return structure.families[factor].usual(structure.prior[factor])


BUILDERS: dict[str, Callable[[Structure], Shipped]] = {
    "GaussianMean": gaussian_mean,
    "GaussianMixture": gaussian_mixture,
    "LatentDirichletAllocation": latent_dirichlet_allocation,
    "LatentFeatures": latent_features,
}
