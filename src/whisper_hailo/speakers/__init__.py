"""Who spoke when: turns of speakers in a recording, and words given to them."""
