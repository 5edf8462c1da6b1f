"""What may leave a site: disclosure rules, what a file reveals, releases, and the ledger of all releases."""

from typing import TYPE_CHECKING

from decbayes.base.lazily import exported

if TYPE_CHECKING:
    from decbayes.disclosure._exposure import exposure as exposure
    from decbayes.disclosure.drafting import load as load
    from decbayes.disclosure.drafting import save as save
    from decbayes.disclosure.guarding import guarded as guarded
    from decbayes.disclosure.ledger import Entry as Entry
    from decbayes.disclosure.ledger import Ledger as Ledger
    from decbayes.disclosure.manifest import Manifest as Manifest
    from decbayes.disclosure.preparing import check_columns as check_columns
    from decbayes.disclosure.preparing import prepared as prepared
    from decbayes.disclosure.previewing import preview as preview
    from decbayes.disclosure.private_merging import private_merge as private_merge
    from decbayes.disclosure.private_merging import private_plan as private_plan
    from decbayes.disclosure.releasing import release as release
    from decbayes.disclosure.rules import Rules as Rules
    from decbayes.models.core.persons import Persons as Persons
else:
    __getattr__, __all__ = exported(
        __name__,
        {
            "._exposure": "exposure",
            ".drafting": "load save",
            ".guarding": "guarded",
            ".ledger": "Entry Ledger",
            ".manifest": "Manifest",
            ".preparing": "check_columns prepared",
            ".previewing": "preview",
            ".private_merging": "private_merge private_plan",
            ".releasing": "release",
            ".rules": "Rules",
            "decbayes.models.core.persons": "Persons",
        },
    )
