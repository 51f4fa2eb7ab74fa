"""What leads to a HEF: check, calibrate, emulate, compile."""
