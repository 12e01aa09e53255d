"""A frontier as one HTML page: question, instance, points, heuristics, proofs, settings."""
