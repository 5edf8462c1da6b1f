"""The few compiled kernels. Importing one imports numba, so callers import them where they use them."""
