"""Home Assistant's protocol."""
