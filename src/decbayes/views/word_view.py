"""Topics as their words."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from decbayes.errors import StructureMismatch
from decbayes.families.matrices import stored
from decbayes.models.topics.quality import FACTOR, CoOccurrence, Quality
from decbayes.posterior import Posterior
from decbayes.remarks import Remark, site_names
from decbayes.views.values import MOST_NUMBERS, Part, Profile, Shape, Words, number
from decbayes.views.view import LEVEL, TOP, Notes, View

if TYPE_CHECKING:
    from decbayes.merging import Alignment

TELLING = 5  # words that distinguish a topic from the others
MOST_COMPARED = 1 << 19  # counts of all sites: comparing more takes longer than the merge


class WordView(View):
    name: ClassVar[str] = "words"

    def parts(
        self, posterior: Posterior, *, shape: Shape | None = None, top: int = TOP, level: float = LEVEL
    ) -> Sequence[Part]:
        """The leading words of each topic, with their probabilities."""
        probability = np.asarray(posterior.mean(FACTOR))
        words = posterior.structure.labels.get(FACTOR) or tuple(map(str, range(probability.shape[1])))
        pairs = zip(probability, posterior.leading(FACTOR, top).tolist(), strict=True)
        return [Words(tuple((words[place], float(row[place])) for place in first)) for row, first in pairs]

    def profiles(self, posterior: Posterior, *, level: float = LEVEL) -> Sequence[Profile]:
        """Empty: topics are described by their names."""
        return ()

    def names(self, posterior: Posterior) -> Sequence[str]:
        """The names that people gave, or the most distinctive words."""
        return self.quality(posterior).names

    def captions(
        self, posterior: Posterior, *, top: int = 4, write: Any = number, most: int = MOST_NUMBERS
    ) -> list[str]:
        return list(self.names(posterior))

    def quality(self, posterior: Posterior, *, top: int = TOP) -> Quality:
        return Quality(posterior, top)

    def advice(self, alignment: "Alignment", names: Sequence[str] = ()) -> Iterator[Remark]:
        """Sites that disagree, unless counts are too many to compare; topics to look at, and how to improve them."""
        from decbayes.views.topic_remarks import MergedTopics

        if sum(stored(posterior.contribution[FACTOR]).size for posterior in alignment.posteriors) <= MOST_COMPARED:
            yield from super().advice(alignment, names)
        yield from MergedTopics(alignment, names or site_names(len(alignment.posteriors))).remarks()

    def notes(self, posterior: Posterior, counts: CoOccurrence | None = None) -> Notes:
        """How distinct topics are, which words distinguish each and, with `counts`, how coherent it is."""
        quality = self.quality(posterior, top=len(counts.words[0]) if counts is not None else TOP)
        telling = [f"distinctive words: {', '.join(words[:TELLING])}" for words in quality.telling]
        if counts is None:
            return Notes(quality.said(), telling)
        if counts.words != quality.words:
            raise StructureMismatch("These counts are for other top words: count again for this merge.")
        values = zip(telling, counts.coherence_texts(), strict=True)
        coherent = [f"{text} · coherence {value}" for text, value in values]
        return Notes(f"{quality.said()}; {counts.said(quality.used)}", coherent)
