"""What the chip's 8 and 16 bits cost the bundled model."""
