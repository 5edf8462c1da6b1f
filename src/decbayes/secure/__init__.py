"""Secure sums: members mask their contributions so that nobody sees anything but the sum over all of them."""

from typing import TYPE_CHECKING

from decbayes.base.lazily import exported

if TYPE_CHECKING:
    from decbayes.secure.agreement import Agreement as Agreement
    from decbayes.secure.agreement import Merged as Merged
    from decbayes.secure.anchored import Share as Share
    from decbayes.secure.anchored import in_slots as in_slots
    from decbayes.secure.contributing import contribution as contribution
    from decbayes.secure.folder import Folder as Folder
    from decbayes.secure.masks import Secrets as Secrets
    from decbayes.secure.noise import opened_release as opened_release
    from decbayes.secure.noise import private_terms as private_terms
    from decbayes.secure.private_rounds import PrivateAgreement as PrivateAgreement
    from decbayes.secure.seat import Seat as Seat
    from decbayes.secure.seat import opened as opened
    from decbayes.secure.site import Site as Site
    from decbayes.secure.terms import Message as Message
    from decbayes.secure.terms import Terms as Terms
    from decbayes.secure.terms import message_from as message_from
else:
    __getattr__, __all__ = exported(
        __name__,
        {
            ".agreement": "Agreement Merged",
            ".anchored": "Share in_slots",
            ".contributing": "contribution",
            ".folder": "Folder",
            ".masks": "Secrets",
            ".noise": "opened_release private_terms",
            ".private_rounds": "PrivateAgreement",
            ".seat": "Seat opened",
            ".site": "Site",
            ".terms": "Message Terms message_from",
        },
    )
