"""A site's updates: its data combined with the other sites' contributions, wherever these come from."""

from decbayes.updates.update import Epoch, Update, without

__all__ = ["Epoch", "Update", "without"]
