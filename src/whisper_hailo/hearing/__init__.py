"""Windows heard: recordings on their way, batches of windows, and what turns them into text."""
