"""From audio features to tokens: options and presets, logits rules, the loop."""
