"""Comes first: what the package does for its users' privacy, it does for that of its tests."""

import whisper_hailo  # noqa: F401 - before a test imports ONNX Runtime by itself
