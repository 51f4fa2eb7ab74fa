"""Types, protocols, the model description and errors: what every layer may import."""
