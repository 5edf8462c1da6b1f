"""Models: data → local posterior → prediction."""
