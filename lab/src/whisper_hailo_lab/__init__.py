"""Measurement: what the systems get right, how fast, and with how much memory."""
