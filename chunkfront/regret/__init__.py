"""Why a schedule is not optimal: regret by kind of decision, and the critical path of one request."""
