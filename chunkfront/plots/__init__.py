"""Figures of finished results; one per file."""
