"""Whisper graphs for the Hailo Dataflow Compiler, as in `docs/reference/hailo-graphs.md`."""
