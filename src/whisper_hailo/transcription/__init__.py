"""Recordings, captions and requests through the stages: one path for a window."""
