"""What leads to a HEF and proves it: check, calibrate, emulate, compile, validate."""
