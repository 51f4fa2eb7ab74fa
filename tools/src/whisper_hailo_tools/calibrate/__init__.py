"""Calibration sets for the Hailo compiler: real speech as the chip's inputs, on disk."""
