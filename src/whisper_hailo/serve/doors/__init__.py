"""The doors of a server, a file each: what one protocol asks, put to the engine."""
