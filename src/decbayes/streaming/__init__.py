"""Data that keeps coming, and posteriors that keep improving: SDA-Bayes, epochs, one pass, and refinement."""

from decbayes.streaming.refinement import Refinement, refine
from decbayes.streaming.sda import epochs, merge_batches, sda_bayes
from decbayes.streaming.sequential import sequential

__all__ = ["Refinement", "epochs", "merge_batches", "refine", "sda_bayes", "sequential"]
