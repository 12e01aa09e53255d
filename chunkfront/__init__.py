"""What people run: the command line, comparisons, tables and plots."""
