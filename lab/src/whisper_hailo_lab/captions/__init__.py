"""Measurements of live captions: engines, commit policy, and the guarantees of their events."""
