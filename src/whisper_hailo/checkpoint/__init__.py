"""Hugging Face Whisper checkpoints: found or fetched, and read array by array."""
