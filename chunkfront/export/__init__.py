"""Schedules in the forms of other tools."""
