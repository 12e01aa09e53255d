"""Validating a scheduler: does it obey every rule, does it behave, and how far is it from the optimum."""
