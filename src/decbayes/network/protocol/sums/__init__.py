"""Sums that open only together, on a network: what is heard of them, and this member's own part. No input or output.

The messages, masks and terms are those of `decbayes.secure`, by files or not. Here is who adds up, and when:

1. A sum is over the seats that count under one version of the charter (`Chain`), all of them or none. Whoever is
   missing is removed by a resolution, and the round begins again over the others, as another sum with other keys.
2. An agent opens each round over one set of keys only. So of two sums of a round over different members at most one
   opens, and no difference of two sums shows what a member has. Masking for two sets is harmless: each packet has a
   mask of its own that only its opening gives away.
3. Once somebody who still counts has opened a round, it is finished over its members, whoever is removed meanwhile:
   who has opened takes part in no other one of this round.
4. Members add all that they have in the first round, and what has changed in later ones. So a later round may be over
   fewer members, and who was removed counts as before. Nobody is added: its first part would be alone in the change.
5. Rounds begin under the charter in force only, and the data of the first round are those of all.
6. A part of the opening may be missing, where no larger set could have a sum of this round: the others' pieces make it.
7. Members show what they have added if a resolution says so, they have voted for it, and enough others agree (`audit`).
8. A key, masked numbers and an opening are durable before they are sent, and each is made once. An agent that hears a
   message of its own that its store does not know has lost its store, and takes part in these sums no more.
9. Two different messages of one kind for one sum prove that their key cannot be trusted, as two votes do.
"""

from decbayes.network.protocol.sums.chains import Chain as Chain
from decbayes.network.protocol.sums.chains import SignedMessage as SignedMessage
from decbayes.network.protocol.sums.heard import Packet as Packet
from decbayes.network.protocol.sums.heard import Sums as Sums
from decbayes.network.protocol.sums.heard import packet_from as packet_from
from decbayes.network.protocol.sums.part import Due as Due
from decbayes.network.protocol.sums.part import Participation as Participation
from decbayes.network.protocol.sums.part import Played as Played
from decbayes.network.protocol.sums.part import played_from as played_from
from decbayes.network.protocol.sums.part import spending_in as spending_in
