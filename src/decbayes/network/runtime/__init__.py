"""An agent as a process: `service` runs it, with a store, links to neighbours, orders from its owner, and reports.

`spawn` starts agents in processes of their own, for demonstrations and tests.
"""
