"""Experiments: each runs as a program and keeps its result in `lab/benchmarks/results`."""
