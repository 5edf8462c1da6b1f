"""Sums on a network that open only if all members take part. No I/O.

The messages, masks and terms are those of `decbayes.secure`. This room decides who takes part, and when:

1. A sum is over the seats that count under one version of the charter (`Chain`), all of them or none. A missing member
   must be removed by a resolution; the round then starts again over the others, as another sum with other keys.
2. An agent opens each round over only one set of keys. So of two sums of a round over different members at most one
   opens, and no difference of two sums reveals a member's numbers. Masking for two sets is harmless, because each
   packet has a mask of its own that only its opening reveals.
3. Once a member that still counts has opened a round, the round is finished over its members, even if some are removed
   meanwhile: a member that has opened takes part in no other sum of this round.
4. Members add everything in the first round and only changes in later ones. So a later round may be over fewer members,
   and removed members count as before. Nobody can join later: the change would show the new member's data alone.
5. Rounds begin only under the charter in force, and all rounds use the data of the first one.
6. One part of the opening may be missing if no larger set can have a sum of this round: the others' pieces replace it.
7. Members show what they have added if a resolution asks for it, they have voted for it, and enough others consent
   (`audit`).
8. A key, masked numbers and an opening are durable before they are sent, and each is made once. An agent that receives
   a message of its own that its store does not know has lost its store, and no longer takes part in these sums.
9. Two different messages of one kind for one sum prove that their key cannot be trusted, as two votes do.
"""

from decbayes.network.protocol.sums.group_sums import Packet, Sums, packet_from
from decbayes.network.protocol.sums.participation import Due, Participation, SumPart, sum_part_from

__all__ = ["Due", "Packet", "Participation", "SumPart", "Sums", "packet_from", "sum_part_from"]
