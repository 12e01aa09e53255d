"""Real traces as instances: one reader per file format, windows, and the way into an `Instance`."""
