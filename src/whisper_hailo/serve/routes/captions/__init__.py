"""The page in a browser: captions to look at, a microphone, controls."""
