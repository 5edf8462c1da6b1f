"""Many agents in one process, on a simulated network: the same agents, every fault, every step checked."""
