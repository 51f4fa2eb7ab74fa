"""Hailo chips: HEF encoders and decoders behind the protocols, everything vendor-specific inside.

`binding` alone imports `hailo_platform`; `faults` makes its failures ours; `chip` holds the device
and the networks on it for the whole process; `network` is one of these; `lease` is a backend's use
of one, which survives a chip that comes back.
"""
