"""Live captions: sources, captioning, events, outputs, the page."""
