"""What one site does with its data and everybody else's evidence: the same in process, in files and on a network."""

from decbayes.updates.epoch import Epoch
from decbayes.updates.update import Update, without

__all__ = ["Epoch", "Update", "without"]
