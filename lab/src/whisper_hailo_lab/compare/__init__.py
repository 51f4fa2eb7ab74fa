"""Comparisons of one thing at a time, each a table of a run file."""
