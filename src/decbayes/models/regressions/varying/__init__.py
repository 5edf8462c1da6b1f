"""Variation between sites, and between groups inside sites: their deviations, and the size of these."""
