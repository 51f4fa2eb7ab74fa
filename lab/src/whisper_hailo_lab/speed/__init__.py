"""How fast ours is beside the others on the same weights and the same core."""
