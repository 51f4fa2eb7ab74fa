"""One engine behind several protocols."""
