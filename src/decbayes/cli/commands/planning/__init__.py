"""Before there are data: plans, simulations, a demonstration."""
