"""Rules of what the Hailo compiler refuses, as in `docs/reference/hailo-graphs.md`."""
