"""The model on other processors than this one, emulated or with instructions hidden."""
