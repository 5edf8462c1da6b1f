"""Many real agents in one process, on a simulated network with every kind of fault; every step is checked."""
