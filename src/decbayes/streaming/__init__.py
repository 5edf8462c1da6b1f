"""Streams of data, and refinement of posteriors: SDA-Bayes, epochs, one pass, and refinement."""

from decbayes.streaming.one_pass import sequential
from decbayes.streaming.refinement import Refinement, refine
from decbayes.streaming.sda import epochs, merge_batches, sda_bayes

__all__ = ["Refinement", "epochs", "merge_batches", "refine", "sda_bayes", "sequential"]
