"""The problem, the answer, and what makes an answer valid; no algorithms."""
