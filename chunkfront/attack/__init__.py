"""Worst cases: small instances on which a policy is far from the optimum, searched for, shrunk and proved."""
