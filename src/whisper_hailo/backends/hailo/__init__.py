"""Hailo chips: HEF encoders and decoders behind the protocols, everything vendor-specific inside.

`binding` imports `hailo_platform`, `faults` translates its failures, `chip` holds the device.
"""
