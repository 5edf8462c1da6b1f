"""What one site does with its data and the other sites' contributions, wherever these come from."""

from decbayes.updates.update import Epoch, Update, without

__all__ = ["Epoch", "Update", "without"]
