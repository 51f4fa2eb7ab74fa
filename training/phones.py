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

from training.text.sentences import canonical

_MARKS = re.compile(r"[',%=|:;!-]")
"""Stress, length and pauses of espeak-ng's notation: too fine for a target."""


def spell(word: str) -> list[str]:
    """Returns the phones of a word in espeak-ng's ASCII notation, without stress."""
    command = ["espeak-ng", "-q", "-x", "--sep=_", "-v", "en-us", word]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    phones = [_MARKS.sub("", phone) for phone in output.strip().replace(" ", "_").split("_")]
    return [phone for phone in phones if phone]


@dataclass(frozen=True, slots=True)
class Phones:
    """A pronouncing dictionary, its phones numbered.

    Attributes:
        words: phones of each word, as numbers.
        names: the phones.
    """

    words: dict[str, list[int]]
    names: list[str]

    def of(self, text: str) -> list[int]:
        """Returns the phones of `text`.

        Raises:
            KeyError: a word is not in the dictionary.
        """
        return [phone for word in canonical(text).split() for phone in self.words[word]]


def make_phones(words: set[str], file: Path) -> Phones:
    """Reads the dictionary `file`, or asks espeak-ng for each word and writes it."""
    if file.exists():
        stored = json.loads(file.read_text(encoding="utf-8"))
        return Phones(stored["words"], stored["names"])
    spelt = {word: spell(word) for word in sorted(words)}
    names = sorted({phone for phones in spelt.values() for phone in phones})
    numbers = {name: number for number, name in enumerate(names)}
    phones = Phones({word: [numbers[p] for p in spelt[word]] for word in spelt}, names)
    stored = {"names": phones.names, "words": phones.words}
    file.write_text(json.dumps(stored) + "\n", encoding="utf-8")
    return phones
