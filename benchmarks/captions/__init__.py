"""Live captions, measured; see `__main__`."""
