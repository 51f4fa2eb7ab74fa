"""From blocks of audio to events: segments, and their text while it grows."""
