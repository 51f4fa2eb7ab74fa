"""Checkpoints in the formats of rivals, so that all systems hear with the same weights."""
