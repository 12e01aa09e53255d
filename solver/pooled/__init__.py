"""The pooled relaxation: lower bounds on means and makespan, and schedules close to them, without CP-SAT."""
