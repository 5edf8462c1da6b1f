"""What may leave a site: rules, what a file reveals, who released it, and what has left so far."""

from decbayes.disclosure._exposure import exposure
from decbayes.disclosure.drafting import load, save
from decbayes.disclosure.guarding import guarded
from decbayes.disclosure.ledger import Entry, Ledger
from decbayes.disclosure.manifest import Manifest
from decbayes.disclosure.preparing import check_columns, prepared
from decbayes.disclosure.previewing import preview
from decbayes.disclosure.releasing import release
from decbayes.disclosure.rules import Rules

__all__ = [
    "Entry",
    "Ledger",
    "Manifest",
    "Rules",
    "check_columns",
    "exposure",
    "guarded",
    "load",
    "prepared",
    "preview",
    "release",
    "save",
]
