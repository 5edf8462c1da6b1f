"""`decbayes fit`: the posterior of one site's data."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from cyclopts import App, Parameter
from cyclopts.types import NonNegativeInt, PositiveFloat, PositiveInt

from decbayes.cli.documents import Documents, LeastDocuments, MostShare, read_documents, read_vocabulary
from decbayes.cli.inputs import Table, has_names, read_table
from decbayes.cli.outputs import check_output
from decbayes.cli.terminal import fitting, messages
from decbayes.errors import DecbayesError, InvalidData, InvalidStructure, StructureMismatch
from decbayes.files import load, save
from decbayes.models.ascent import FitInterrupted
from decbayes.models.features import LatentFeatures
from decbayes.models.lda import LatentDirichletAllocation
from decbayes.models.mean import GaussianMean
from decbayes.models.mixture import Covariance, GaussianMixture
from decbayes.models.registry import Shipped, model_for

app = App(name="fit", help="Fit a model to one site's data and write its posterior.")

Data = Annotated[Path, Parameter(help="A .csv, .tsv, .parquet, .npy, .npz or .mtx file; CSV may have a header.")]
Output = Annotated[Path, Parameter(name=["--output", "-o"], help="Where to write the posterior.")]
Like = Annotated[Path | None, Parameter(help="Take model, prior and names from another site's posterior.")]
PriorMean = Annotated[float, Parameter(help="The prior mean, in every dimension.")]
PriorVariance = Annotated[PositiveFloat, Parameter(help="The prior variance of a (known-variance) mean.")]
Seed = Annotated[NonNegativeInt, Parameter(help="The same seed gives the same fit.")]
Columns = Annotated[str, Parameter(help="Columns to use, separated by commas; all of them if not given.")]


@app.command
def mixture(
    data: Data,
    /,
    *,
    output: Output,
    components: Annotated[PositiveInt, Parameter(help="How many clusters.")] = 3,
    variance: Annotated[PositiveFloat | None, Parameter(help="The clusters' known variance.")] = None,
    covariance: Annotated[Covariance, Parameter(help="What is learned of each cluster's shape.")] = "full",
    prior_mean: PriorMean = 0.0,
    prior_variance: PriorVariance = 1.0,
    prior_strength: Annotated[PositiveFloat, Parameter(help="How many observations the prior mean weighs.")] = 0.01,
    prior_scale: Annotated[PositiveFloat, Parameter(help="The variance that the prior expects of a cluster.")] = 1.0,
    weight_prior: Annotated[PositiveFloat, Parameter(help="α of the clusters' weights.")] = 1.0,
    columns: Columns = "",
    like: Like = None,
    seed: Seed = 0,
) -> None:
    """Clusters of points: a Gaussian mixture.

    With --variance all clusters share that known variance; else --covariance says what is learned.

    For example:

    ```sh
    decbayes fit mixture geyser.csv --columns duration,waiting -o a.posterior
    ```
    """

    def build(table: Table) -> GaussianMixture:
        return GaussianMixture(
            components,
            table.values.shape[1],
            variance=variance,
            covariance=None if variance is not None else covariance,
            prior_mean=prior_mean,
            prior_variance=prior_variance,
            prior_strength=prior_strength,
            prior_scale=prior_scale,
            weight_prior=weight_prior,
            columns=table.columns,
        )

    check_output(output, data)
    table = points(data, columns, load(like).structure.labels.get("components", ()) if like is not None else ())
    fit_and_save(agreed(GaussianMixture, like, build, table), table.values, output, seed)


@app.command
def mean(
    data: Data,
    /,
    *,
    output: Output,
    variance: Annotated[PositiveFloat, Parameter(help="The known variance of the points.")] = 1.0,
    prior_mean: PriorMean = 0.0,
    prior_variance: PriorVariance = 1.0,
    columns: Columns = "",
    like: Like = None,
    seed: Seed = 0,
) -> None:
    """The mean of points with known variance, where a merge is exact.

    For example:

    ```sh
    decbayes fit mean heights.csv --variance 50 --prior-mean 170 -o a.posterior
    ```
    """

    def build(table: Table) -> GaussianMean:
        return GaussianMean(variance, prior_mean, prior_variance, table.values.shape[1])

    check_output(output, data)
    table = points(data, columns)
    fit_and_save(agreed(GaussianMean, like, build, table), table.values, output, seed)


@app.command
def topics(
    data: Annotated[
        Path, Parameter(help="Texts (.jsonl, or .txt with one a line), or documents × words counts (.mtx, .npz, .csv).")
    ],
    /,
    *,
    output: Output,
    topics: Annotated[PositiveInt, Parameter(help="How many topics.")] = 20,
    document_prior: Annotated[PositiveFloat, Parameter(help="α of the topics in a document.")] = 0.1,
    topic_prior: Annotated[PositiveFloat, Parameter(help="α of the words in a topic.")] = 0.01,
    vocabulary: Annotated[Path | None, Parameter(help="The words that all sites count, one a line.")] = None,
    least_documents: LeastDocuments = 5,
    most_share: MostShare = 0.5,
    like: Like = None,
    seed: Seed = 0,
) -> None:
    """Topics of documents: latent Dirichlet allocation of texts (JSON lines) or of word counts.

    Sites must count the same words: give all the same --vocabulary, or the later ones --like the first. Without either
    the words are the file's own, less the rarest and those that most documents have: a smaller --most-share makes
    topics more telling.

    For example:

    ```sh
    decbayes fit topics letters.jsonl --vocabulary words.txt -o a.posterior
    ```
    """

    def build(documents: Documents) -> LatentDirichletAllocation:
        return LatentDirichletAllocation(topics, documents.vocabulary, document_prior, topic_prior)

    check_output(output, data, vocabulary)
    if like is not None and vocabulary is not None:
        raise DecbayesError(f"{like} has a vocabulary already; leave --vocabulary out, or --like.")
    words = read_vocabulary(vocabulary) if vocabulary is not None else ()
    if like is not None:
        words = load(like).structure.labels.get("topics", ())
    documents = read_documents(data, words, least_documents=least_documents, most_share=most_share)
    if documents.unknown:
        cause = "not in the vocabulary" if words else f"in fewer than {least_documents} documents or in too many"
        messages().print(f"{documents.unknown:,} words of the texts are {cause} and do not count.")
    fit_and_save(agreed(LatentDirichletAllocation, like, build, documents), documents.counts, output, seed)


@app.command
def features(
    data: Data,
    /,
    *,
    output: Output,
    features: Annotated[PositiveInt, Parameter(help="How many features.")] = 5,
    variance: Annotated[PositiveFloat, Parameter(help="The known variance of the noise.")] = 0.04,
    prior_variance: PriorVariance = 1.0,
    columns: Columns = "",
    like: Like = None,
    seed: Seed = 0,
) -> None:
    """Features that points or images share: a latent feature model.

    For example:

    ```sh
    decbayes fit features faces.npy --features 10 -o a.posterior
    ```
    """

    def build(table: Table) -> LatentFeatures:
        return LatentFeatures(features, table.values.shape[1], variance, prior_variance)

    check_output(output, data)
    table = points(data, columns)
    fit_and_save(agreed(LatentFeatures, like, build, table), table.values, output, seed)


def points(data: Path, columns: str, agreed_names: Sequence[str] = ()) -> Table:
    """A table of points: images become rows, a single column stays one.

    Where no columns are asked for, those that sites have agreed on are taken out of a file that names its columns.
    """
    asked = [name.strip() for name in columns.split(",") if name.strip()]
    table = read_table(data, asked or (agreed_names if agreed_names and has_names(data) else ()))
    values = np.asarray(table.values.toarray() if hasattr(table.values, "toarray") else table.values)
    if not values.size:
        raise InvalidData(f"{data} holds no observations.")
    return Table(np.atleast_1d(values).reshape(len(np.atleast_1d(values)), -1), table.columns)


def agreed(kind: type[Shipped], like: Path | None, build: Callable[[Any], Shipped], data: Any) -> Shipped:
    """The model of another site's posterior, or a new one."""
    if like is None:
        try:
            return build(data)
        except ValueError as error:
            raise InvalidStructure(str(error)) from None
    model = model_for(load(like).structure)
    if not isinstance(model, kind):
        raise StructureMismatch(f"{like} is a posterior of {type(model).__name__}, not of {kind.__name__}.")
    names = model.structure.labels.get("components", ())
    if isinstance(data, Table) and data.columns and names and data.columns != names:
        raise StructureMismatch(f"{like} has the columns {', '.join(names)}; these data {', '.join(data.columns)}.")
    return model


def fit_and_save(model: Shipped, data: Any, output: Path, seed: int) -> None:
    """Fit with a progress bar and write the posterior; on Ctrl-C the best state so far is written."""
    rng = np.random.default_rng(seed)
    starts = model.ascent.restarts + 1 if hasattr(model, "ascent") else 1
    try:
        with fitting(starts) as report:
            fit = model.fit(data, rng=rng, progress=report)
    except FitInterrupted as interruption:
        save(interruption.fit.posterior, output)
        messages().print(f"Interrupted; the best state so far is in {output}.")
        raise
    save(fit.posterior, output)
    end = "converged" if fit.converged else "not converged yet"
    messages().print(
        f"{output}: {data.shape[0]:,} observations, bound {fit.bound[-1]:,.2f} after {len(fit.bound)} passes, {end}; "
        f"structure {model.structure.fingerprint[:12]}"
    )
