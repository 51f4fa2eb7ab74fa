"""Phones of texts, the targets of the auxiliary CTC loss.

Phones rather than tokens: a phone is heard where it is spoken, in any word, so that the encoder
learns to listen long before it has met each word often enough; and the loss over some fifty
classes costs next to nothing. They come from espeak-ng's dictionary of American English, word by
word, and serve all voices: an accent differs from them about as it does from the spelling.
"""

import json
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

from lab.training.text.grammar import canonical

_MARKS = re.compile(r"[',%=|:;!-]")
"""Stress, length and pauses of espeak-ng's notation: too fine for a target."""


_VOICES = {"en": "en-us", "de": "de"}


def key(word: str, language: str) -> str:
    """Returns a word's name in the dictionary: English words stand alone, others after a code."""
    return word if language == "en" else f"{language}:{word}"


def spell(word: str, language: str = "en") -> list[str]:
    """Returns the phones of a word in espeak-ng's ASCII notation, without stress."""
    command = ["espeak-ng", "-q", "-x", "--sep=_", "-v", _VOICES[language], word]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    phones = [
        _MARKS.sub("", phone) for phone in output.strip().replace(" ", "_").split("_")
    ]
    return [phone for phone in phones if phone]


@dataclass(frozen=True, slots=True)
class Phones:
    """A pronouncing dictionary, its phones numbered.

    Attributes:
        words: phones of each word (see `key`), as numbers; languages share a phone of one name.
        names: the phones.
    """

    words: dict[str, list[int]]
    names: list[str]

    def of(self, text: str, language: str = "en") -> list[int]:
        """Returns the phones of `text`.

        Raises:
            KeyError: a word is not in the dictionary.
        """
        words = canonical(text).split()
        return [phone for word in words for phone in self.words[key(word, language)]]


def make_phones(
    words: set[str], file: Path, german: frozenset[str] = frozenset()
) -> Phones:
    """Reads the dictionary `file`, or asks espeak-ng for each word and writes it.

    Args:
        words: English words.
        file: where the dictionary is or will be.
        german: German words.
    """
    if file.exists():
        stored = json.loads(file.read_text(encoding="utf-8"))
        return Phones(stored["words"], stored["names"])
    spelt = {word: spell(word) for word in sorted(words)}
    spelt |= {key(word, "de"): spell(word, "de") for word in sorted(german)}
    names = sorted({phone for phones in spelt.values() for phone in phones})
    numbers = {name: number for number, name in enumerate(names)}
    phones = Phones({word: [numbers[p] for p in spelt[word]] for word in spelt}, names)
    stored = {"names": phones.names, "words": phones.words}
    file.write_text(json.dumps(stored) + "\n", encoding="utf-8")
    return phones
