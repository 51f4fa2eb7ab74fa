"""The commands for those who build HEFs; `whisper-hailo` finds them by their entry points."""
