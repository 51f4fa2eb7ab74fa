"""Live captions: sources, segmenter, captioner, events, views."""
