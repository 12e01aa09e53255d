"""HTML pages that hold all that they need and work off-line."""
