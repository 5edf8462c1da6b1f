"""Data that keep coming or do not fit in memory: SDA-Bayes, epochs, one pass, forgetting, and refinement."""

from typing import TYPE_CHECKING

from decbayes.base.lazily import exported

if TYPE_CHECKING:
    from decbayes.inputs.chunks import Chunks as Chunks
    from decbayes.streams.one_pass import sequential as sequential
    from decbayes.streams.refinement import Refinement as Refinement
    from decbayes.streams.refinement import refine as refine
    from decbayes.streams.sda import epochs as epochs
    from decbayes.streams.sda import merge_batches as merge_batches
    from decbayes.streams.sda import sda_bayes as sda_bayes
    from decbayes.updates.forgetting import forget as forget
else:
    __getattr__, __all__ = exported(
        __name__,
        {
            "decbayes.inputs.chunks": "Chunks",
            ".one_pass": "sequential",
            ".refinement": "Refinement refine",
            ".sda": "epochs merge_batches sda_bayes",
            "decbayes.updates.forgetting": "forget",
        },
    )
