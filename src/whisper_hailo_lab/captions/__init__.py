"""Live captions measured: engines and settings on one stream."""
