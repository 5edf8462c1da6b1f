"""Links to neighbours: endpoints and certificates, the zenoh transport, sealed messages, and questions to an agent.

`transport` and `ask` load zenoh; import them from there.
"""

from decbayes.network.runtime.links.endpoints import Links, Tls

__all__ = ["Links", "Tls"]
