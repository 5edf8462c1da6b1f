"""Models of points that can leave the number of columns open until they see data or a posterior."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import wraps
from math import prod
from typing import Any, ClassVar, Self, TypeVar, cast

from decbayes.columns import Column, Gaussian
from decbayes.errors import InvalidData, InvalidStructure, StructureMismatch
from decbayes.inputs.chunks import is_chunked
from decbayes.models.core.model import Model
from decbayes.models.core.persons import EACH, Persons
from decbayes.models.core.points import as_numbers, without_rare_values
from decbayes.posterior import Posterior

Method = TypeVar("Method", bound=Callable[..., Any])


class OfPoints(Model):
    """A model of points in R^D. `dimension` 0 means open: taken from the data or the posterior."""

    dimension: int

    column: ClassVar[Column] = Gaussian()
    """What every column holds."""

    def for_data(self, data: Any) -> Self:
        return self if self.dimension else self._of(dimension_of(self.opened(data)))

    def for_posterior(self, posterior: Posterior) -> Self:
        if self.dimension:
            return self
        if posterior.structure.model.get("name") != type(self).__name__:
            raise StructureMismatch(f"The posterior belongs to {posterior.structure}, not to {type(self).__name__}.")
        return self._of(self.settings_of(posterior.structure)["dimension"])

    def known_dimension(self) -> int:
        """The number of columns; an error if still open."""
        if not self.dimension:
            raise InvalidStructure(
                f"This {type(self).__name__} does not know yet how many columns the data have. Give `dimension`, or "
                "use `model.for_data(data)`."
            )
        return self.dimension

    def pooled(
        self, data: Any, least: int, least_outcome: int, *, agreed: bool, persons: Persons = EACH
    ) -> tuple[Self, Any, list[str]]:
        """Replace rare values by the most common one; refuse rare values in data that are in files."""
        points, remarks = without_rare_values(self.opened(data), self.column, least, persons)
        return self, points, remarks

    def _of(self, dimension: int) -> Self:
        settings: dict[str, Any] = {"dimension": dimension}
        return replace(self, **settings)


def completed(method: Method) -> Method:
    """Call the method on a model completed by its data or its posterior."""

    @wraps(method)
    def called(model: Model, *given: Any, **options: Any) -> Any:
        posteriors = (value for value in (*given, *options.values()) if isinstance(value, Posterior))
        if (posterior := next(posteriors, None)) is not None:
            return method(model.for_posterior(posterior), *given, **options)
        data = given[0] if given else options.get("data")
        return method(model if data is None else model.for_data(data), *given, **options)

    return cast(Method, called)


def dimension_of(data: Any) -> int:
    """The number of columns; a vector holds points of one dimension, an image has one column per pixel."""
    if isinstance(data, Iterator):
        raise InvalidData("An iterator can be read only once, and does not say how many columns it has. Use Chunks.")
    if is_chunked(data):
        return dimension_of(next(iter(data), ()))
    shape: tuple[int, ...] = data.shape if hasattr(data, "shape") else as_numbers(data).shape
    if not shape or shape == (0,):
        raise InvalidData("There are no observations to count the columns of: give the model its `dimension`.")
    return prod(shape[1:])
