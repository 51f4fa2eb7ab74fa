"""Speech engines that also give the time of each word; each is one file, opened when first used."""

from training.engines.open import missing_engines, open_engine
from training.engines.sound import Engine, Sound, Word

__all__ = ["Engine", "Sound", "Word", "missing_engines", "open_engine"]
