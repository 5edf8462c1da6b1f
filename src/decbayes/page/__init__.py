"""A read-only page in a browser about a running agent or group.

    agent ──newest values──▶ `Page` ──pipe──▶ process: `Board` ──server-sent events──▶ browsers

An agent hands plain values to a `Page` and continues at once. A separate process serves them: if it dies or browsers
hang, the agent is no slower. Every step keeps only the newest value of each name; events that come too fast are counted
instead of kept.

`describing` turns a merged posterior into plain values; `static/` draws them.
"""

from decbayes.page._feed import Page as Page
from decbayes.page._feed import PageAddress as PageAddress

__all__ = ["Page", "PageAddress"]
