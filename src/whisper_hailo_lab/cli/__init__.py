"""The commands that measure; `whisper-hailo` finds them by their entry points."""
