"""Schedules, one a class of kernel."""
