"""Many real agents in one process, on a simulated network with every kind of fault; every step is checked."""

from decbayes.network.simulation.schedule import History, HistoryPlan, run_history
from decbayes.network.simulation.simulator import Simulation, Weather

__all__ = ["History", "HistoryPlan", "Simulation", "Weather", "run_history"]
