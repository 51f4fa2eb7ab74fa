"""Models behind several protocols."""
