"""HEF files, Hailo's compiled networks, read without the vendor's binding, on any machine."""
