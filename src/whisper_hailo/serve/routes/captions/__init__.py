"""The caption page in a browser: captions to read, a microphone, controls."""
