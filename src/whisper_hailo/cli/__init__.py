"""The `whisper-hailo` command: one file per sub-command; the only layer that prints."""
