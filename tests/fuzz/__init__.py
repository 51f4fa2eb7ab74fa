"""The fuzz lane: many broken inputs, in processes with limits; see CONTRIBUTING.md."""
