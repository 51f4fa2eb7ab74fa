"""Engines behind the `Encoder` and `Decoder` protocols, one file each."""
