"""What all HTTP routes share."""
