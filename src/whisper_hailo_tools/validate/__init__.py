"""Is a converted model what its checkpoint is, at every rung from its arrays to the chip?"""
