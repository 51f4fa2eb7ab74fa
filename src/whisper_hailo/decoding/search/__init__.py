"""Which tokens are taken: greedily, by sampling or beam search, again when doubtful, by a draft."""
