"""Data that keep coming, or do not fit into memory: SDA-Bayes, epochs, one pass, forgetting, and refinement."""

from decbayes.inputs.chunks import Chunks
from decbayes.streams.one_pass import sequential
from decbayes.streams.refinement import Refinement, refine
from decbayes.streams.sda import epochs, merge_batches, sda_bayes
from decbayes.updates.forgetting import forget

__all__ = ["Chunks", "Refinement", "epochs", "forget", "merge_batches", "refine", "sda_bayes", "sequential"]
