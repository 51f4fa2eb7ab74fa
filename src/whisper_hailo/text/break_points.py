"""Where subtitles may break: the units of their text, and how bad a break after each one is.

A unit is a word, or in scripts without spaces a phrase of BudouX, which knows where Chinese,
Japanese and Thai readers accept the end of a line.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Final

from whisper_hailo.core.types import UNSPACED_LANGUAGES, Word
from whisper_hailo.text.function_words import (
    ABBREVIATIONS,
    FUNCTION_WORDS,
    NO_FUNCTION_WORDS,
    FunctionWords,
)

if TYPE_CHECKING:
    from budoux import Parser

SENTENCE: Final = 0.0
CLAUSE: Final = 1.0
CONJUNCTION: Final = 2.0
PREPOSITION: Final = 2.5
NEUTRAL: Final = 4.0
BOUND: Final = 8.0
"""Cost of a break after the end of a sentence or clause, before a conjunction or preposition,
elsewhere, and between words that belong together: article and noun, name and surname, number and
unit. The order is that of subtitling guides; the distances were chosen on long recordings of people
(docs/measurements/subtitles.md)."""

_SENTENCE_ENDS: Final = tuple(".!?…。！？")  # noqa: RUF001 - full-width marks are meant
_CLAUSE_ENDS: Final = tuple(",;:—–、，；：")  # noqa: RUF001 - likewise
_CLOSING: Final = "\"'»”’)]」』）】 "  # noqa: RUF001 - likewise
_OPENING: Final = "\"'«“‘([¿¡「『（【 "  # noqa: RUF001 - likewise

_NUMBER: Final = re.compile(r"[\d０-９][\d０-９.,:/%]*")  # noqa: RUF001 - full-width digits
_KEEPS_TOGETHER: Final = re.compile(r"[\w.,:/%'’０-９-]", re.ASCII)  # noqa: RUF001 - full-width
"""Characters of numbers and Latin words, which no break may split in scripts without spaces."""

_BUDOUX_LOADERS: Final = {
    "ja": "load_default_japanese_parser",
    "zh": "load_default_simplified_chinese_parser",
    "yue": "load_default_simplified_chinese_parser",
    "zh-hant": "load_default_traditional_chinese_parser",
    "th": "load_default_thai_parser",
}


@dataclass(frozen=True, slots=True)
class Unit:
    """Text that stays on one line.

    Attributes:
        text: with its leading space, if it has one.
        break_cost: of a line or cue that ends after it; 0 is the end of a sentence.
    """

    text: str
    start_s: float
    end_s: float
    break_cost: float


def split_units(words: Sequence[Word], language: str) -> list[Unit]:
    """Split the words of one speaker into units, with times that never run backwards."""
    pieces = [
        (word.text, word.start_s, word.end_s) for word in words if word.text.strip()
    ]
    if language in UNSPACED_LANGUAGES and is_latin(
        "".join(piece for piece, _, _ in pieces)
    ):
        language = "en"  # a translation: Whisper's are English
    if language in UNSPACED_LANGUAGES:
        pieces = _split_phrases(pieces, language)
    function_words = FUNCTION_WORDS.get(language, NO_FUNCTION_WORDS)
    units: list[Unit] = []
    begins_sentence = True
    previous_end_s = 0.0
    for index, (text, start_s, end_s) in enumerate(pieces):
        cost = SENTENCE
        if index + 1 < len(pieces):
            cost = find_break_cost(
                text,
                pieces[index + 1][0],
                function_words,
                begins_sentence=begins_sentence,
            )
            if language in UNSPACED_LANGUAGES and _is_pause_mark(
                text, pieces[index + 1][0]
            ):
                cost = min(cost, CONJUNCTION)
        # Word times of neighbouring windows may cross by a few hundredths of a second.
        start_s = max(start_s, previous_end_s)  # noqa: PLW2901
        previous_end_s = max(start_s, end_s)
        units.append(Unit(text, start_s, previous_end_s, cost))
        begins_sentence = cost == SENTENCE
    return units


def find_break_cost(
    left: str,
    right: str,
    function_words: FunctionWords,
    *,
    begins_sentence: bool = False,
) -> float:
    """Return the cost of a break between two words.

    `begins_sentence` says that the left one is a sentence's first, whose capital is no name's.
    """
    bare = left.rstrip(_CLOSING)
    if bare.endswith(_SENTENCE_ENDS):
        return BOUND if _is_abbreviation(bare, right) else SENTENCE
    if bare.endswith(_CLAUSE_ENDS):
        return CLAUSE
    return _find_cost_by_words(
        left, right, function_words, begins_sentence=begins_sentence
    )


def _find_cost_by_words(
    left: str, right: str, function_words: FunctionWords, *, begins_sentence: bool
) -> float:
    """Return the cost of a break between two words without punctuation between them."""
    left_word = _to_plain(left)
    right_word = _to_plain(right)
    leads_on = (
        left_word in function_words.binders or left_word in function_words.prepositions
    )
    if leads_on or left_word in function_words.conjunctions:
        return BOUND
    if right_word in function_words.conjunctions:
        return CONJUNCTION
    if right_word in function_words.prepositions:
        return PREPOSITION
    if _NUMBER.fullmatch(left_word):
        return BOUND
    is_name = not begins_sentence and _is_capitalised(left) and _is_capitalised(right)
    return BOUND if is_name else NEUTRAL


def display_width(text: str) -> int:
    """Return the columns that a text takes: two for wide characters, none for combining marks."""
    columns = 0
    for character in text:
        if unicodedata.category(character) in {"Mn", "Me", "Cf"}:
            continue
        is_wide = unicodedata.east_asian_width(character) in {"W", "F"}
        columns += 2 if is_wide else 1
    return columns


def is_latin(text: str) -> bool:
    """Return whether most letters of a text are ASCII."""
    letters = [character for character in text if character.isalpha()]
    n_latin = sum(letter.isascii() for letter in letters)
    return 2 * n_latin > len(letters)


def _is_pause_mark(left: str, right: str) -> bool:
    """Return whether a space separates phrases, as in Thai, and not two Latin words."""
    has_space = left[-1:].isspace() or right[:1].isspace()
    is_latin = left.strip()[-1:].isascii() and right.strip()[:1].isascii()
    return has_space and not is_latin


def _is_abbreviation(bare: str, right: str) -> bool:
    """Return whether a full stop ends an abbreviation, an initial or an ordinal, not a sentence."""
    if not bare.endswith("."):
        return False
    word = _to_plain(bare)
    # "So do I." ends a sentence.
    is_letter = len(word) == 1 and word.isalpha() and word != "i"
    is_initial = is_letter and bare.strip(_OPENING)[0].isupper()
    # "3. März", "am 5. Tag": an ordinal; a number before a capital may be both.
    is_ordinal = word.isdigit() and right.strip(_OPENING)[:1].islower()
    return word in ABBREVIATIONS or is_initial or is_ordinal


def _is_capitalised(text: str) -> bool:
    letters = text.strip(_OPENING)
    return letters[:1].isupper() and letters != "I"


def _to_plain(text: str) -> str:
    """Return a word in lower case without the marks around it."""
    return text.strip(_OPENING + _CLOSING + ".,;:!?…—–").casefold()  # noqa: RUF001 - a dash


def _split_phrases(
    pieces: Sequence[tuple[str, float, float]], language: str
) -> list[tuple[str, float, float]]:
    """Split text without spaces into phrases, each with the time of its characters.

    A word's time is shared by its characters: phrases and the decoder's words differ.
    """
    text = "".join(piece for piece, _, _ in pieces)
    times: list[tuple[float, float]] = []
    for piece, start_s, end_s in pieces:
        step_s = (end_s - start_s) / len(piece)
        times += [
            (start_s + step_s * n, start_s + step_s * (n + 1))
            for n in range(len(piece))
        ]
    phrases = []
    first = 0
    for end in _find_phrase_ends(text, language):
        phrases.append((text[first:end], times[first][0], times[end - 1][1]))
        first = end
    return [phrase for phrase in phrases if phrase[0].strip()]


def _find_phrase_ends(text: str, language: str) -> list[int]:
    """Return where phrases end, never within a number or a Latin word."""
    variant = (
        "zh-hant" if language in ("zh", "yue") and _is_traditional(text) else language
    )
    parser = _load_parser(variant)
    if parser is None:
        ends = list(range(1, len(text) + 1))
    else:
        ends = []
        for phrase in parser.parse(text):
            ends.append((ends[-1] if ends else 0) + len(phrase))
        # A space is a place to break as well; BudouX may see none in it.
        spaces = [index for index in range(1, len(text)) if text[index].isspace()]
        ends = sorted({*ends, *spaces})
    return [end for end in ends if end == len(text) or may_split(text, end)]


def _is_traditional(text: str) -> bool:
    """Return whether Chinese is written in traditional characters, which Whisper mixes.

    Big5 has the traditional ones, GB 2312 the simplified ones, both have what they share.
    """
    n_traditional = sum(_is_encodable(character, "big5") for character in text)
    n_simplified = sum(_is_encodable(character, "gb2312") for character in text)
    return n_traditional > n_simplified


def _is_encodable(character: str, encoding: str) -> bool:
    try:
        character.encode(encoding)
    except UnicodeEncodeError:
        return False
    return True


def may_split(text: str, index: int) -> bool:
    """Return whether a break before this character splits no number, word or syllable.

    Words of scripts that are written without spaces may be split, those of others may not.
    """
    before = text[index - 1]
    after = text[index]
    is_mark = unicodedata.category(after) in {"Mn", "Mc", "Me"}
    # Thai vowels such as เ stand before their consonant, ะ and ำ behind it.
    is_within_syllable = "\u0e40" <= before <= "\u0e44" or "\u0e2f" <= after <= "\u0e33"
    is_closing = after in _CLOSING.strip() or after in "。、，！？；：…ー"  # noqa: RUF001 - full-width
    is_opening = before in _OPENING.strip()
    is_within_word = bool(
        _KEEPS_TOGETHER.match(before) and _KEEPS_TOGETHER.match(after)
    )
    return not (
        is_mark or is_within_syllable or is_closing or is_opening or is_within_word
    )


@cache
def _load_parser(language: str) -> Parser | None:
    """Return BudouX's parser of a language, if it has one."""
    loader = _BUDOUX_LOADERS.get(language)
    if loader is None:
        return None
    import budoux

    parser: Parser = getattr(budoux, loader)()
    return parser
