"""A site's updates: its data combined with the other sites' contributions, wherever these come from."""

from typing import TYPE_CHECKING

from decbayes.base.lazily import exported

if TYPE_CHECKING:
    from decbayes.updates.update import Epoch as Epoch
    from decbayes.updates.update import Update as Update
    from decbayes.updates.update import without as without
else:
    __getattr__, __all__ = exported(__name__, {".update": "Epoch Update without"})
