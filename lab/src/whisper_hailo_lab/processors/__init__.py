"""The model on other processors, emulated or with instructions hidden."""
