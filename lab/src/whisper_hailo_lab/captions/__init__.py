"""Measurements of live captions: engines, commit policy, faults."""
