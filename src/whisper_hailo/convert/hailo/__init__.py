"""Whisper in the form that the Hailo Dataflow Compiler takes; `docs/hailo.md` is its contract."""
