"""Who spoke when: conversations with known turns, error rates, and systems that are compared."""
