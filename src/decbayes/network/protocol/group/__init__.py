"""Who belongs to a group and what its members have decided: charter, keys, motions, votes and resolutions.

Other rooms ask the roster that follows from these.
"""
