"""Many agents in one process, on a simulated network: the same agents, every fault, every step checked."""

from decbayes.network.simulation.schedule import History, HistoryPlan, run_history
from decbayes.network.simulation.simulator import Simulation, Weather

__all__ = ["History", "HistoryPlan", "Simulation", "Weather", "run_history"]
