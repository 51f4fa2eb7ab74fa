"""The cures against hallucination, side by side on the same recordings."""
