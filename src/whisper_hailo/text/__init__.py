"""Tokens to text and text to files: tokenizer, subtitles, every output format."""
