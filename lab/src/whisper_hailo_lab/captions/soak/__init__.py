"""A microphone of minutes or hours with a fault each minute: what is lost, what is doubled."""
