"""A second exact formulation for iterations that all last the same: every request is one interval of rounds."""
