"""Is a converted model what its checkpoint is, in every form from its arrays to the chip?"""
