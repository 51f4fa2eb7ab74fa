"""Hugging Face Whisper checkpoint to ONNX model directory: arrays in, authored graphs out."""
