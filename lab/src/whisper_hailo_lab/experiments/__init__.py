"""Measurements of this project itself, each a program that keeps its result and fills its tables.

python -m whisper_hailo_lab.experiments.NAME --help
"""
