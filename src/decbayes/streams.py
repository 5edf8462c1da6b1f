"""Data that keep coming, or do not fit into memory."""

from decbayes.inputs.chunks import Chunks
from decbayes.streaming import Refinement, epochs, merge_batches, sda_bayes, sequential
from decbayes.updates.forgetting import forget

__all__ = ["Chunks", "Refinement", "epochs", "forget", "merge_batches", "sda_bayes", "sequential"]
