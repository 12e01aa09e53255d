"""Scheduling policies and the simulator that runs them."""
