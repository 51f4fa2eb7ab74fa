"""Live captions measured: engines and settings on one stream, drafts, an hour of faults."""
