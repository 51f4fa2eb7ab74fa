"""Recordings longer than a window: which windows they are cut into, and how results join."""
