"""Agents, their group, and questions to them."""
