"""Sequences whose hidden state changes from step to step."""

from decbayes.models.sequences.hidden_markov import HiddenMarkov

__all__ = ["HiddenMarkov"]
