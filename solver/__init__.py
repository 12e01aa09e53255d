"""The exact model, combinatorial bounds and the proved frontier."""
