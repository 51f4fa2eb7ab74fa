"""Words: split from tokens, timed by cross-attention, put right where that is wrong."""
