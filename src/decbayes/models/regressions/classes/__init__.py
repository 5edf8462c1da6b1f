"""Class membership: regressions whose outcome is a latent class."""
