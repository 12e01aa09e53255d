"""A schedule as spans of time per request: what every picture and trace of a schedule is made from."""
