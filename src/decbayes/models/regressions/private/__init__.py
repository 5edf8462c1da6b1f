"""Private releases of regressions: bounded statistics of rows, and estimates from their noisy sums."""
