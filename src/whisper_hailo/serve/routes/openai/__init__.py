"""OpenAI's API for recordings."""
