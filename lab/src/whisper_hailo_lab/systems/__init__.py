"""The systems that are compared: ours and its rivals, each behind one protocol."""
