"""A microphone for minutes or hours with one fault a minute: what is lost or doubled."""
