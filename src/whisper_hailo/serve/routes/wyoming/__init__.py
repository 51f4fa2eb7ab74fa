"""Wyoming, Home Assistant's protocol: a recording in pieces, its text in pieces and whole."""
