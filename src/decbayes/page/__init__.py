"""A page in a browser about a running agent or group. It reads, and changes nothing.

    agent ──newest values──▶ `Page` ──pipe──▶ process: `Board` ──server-sent events──▶ browsers

Whoever is shown hands plain values to a `Page` and goes on at once. A process of its own serves them: it may die, and
browsers may hang, and nobody else is slower for it. Of what is shown under one name only the newest value counts,
at every step of the way; events that come too fast are counted instead of kept.

`describing` and `drawing` say what a merged posterior is, in plain values; `static/` draws them.
"""

from decbayes.page.feed import Page as Page
from decbayes.page.feed import PageAddress as PageAddress

__all__ = ["Page", "PageAddress"]
