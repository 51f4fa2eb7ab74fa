"""Recordings with what is said in them: datasets of others, and the frozen clips."""
