"""Accuracy with real checkpoints on human speech, beside other systems."""
