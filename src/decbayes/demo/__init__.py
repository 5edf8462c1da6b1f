"""The parts of `decbayes demo`: the problem, the course of events, the live view and the picture."""
