"""Routes: what the server answers, by protocol."""
