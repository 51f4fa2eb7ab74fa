"""Generated English text: word lists, a grammar over them, and the train/test split."""
