"""Speech engines that also give the time of each word; each is one file, opened when first used."""

from lab.training.engines.open import missing_engines, open_engine
from lab.training.engines.sound import Engine, Sound, Word

__all__ = ["Engine", "Sound", "Word", "missing_engines", "open_engine"]
