"""Hailo chips: HEF encoders and decoders behind the protocols, everything vendor-specific inside.

`binding` alone imports `hailo_platform`; `faults` translates its failures; `chip` holds the device,
the networks on it, and the leases that survive a chip that comes back.
"""
