"""What varies from site to site, and between groups inside sites: own parts, and how far they differ."""
