"""An agent as a process: `service` runs it with a store, links to neighbours, its owner's orders, and reports.

`spawn` starts agents in processes of their own, for demonstrations and tests.
"""
