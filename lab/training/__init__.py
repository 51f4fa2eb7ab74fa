"""How the bundled model `micro` is made: text, synthesised speech, training, export, evaluation."""
