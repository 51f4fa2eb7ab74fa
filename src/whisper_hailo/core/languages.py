"""Names and codes of the languages that Whisper knows."""

# ruff: noqa: RUF001 - letters of many scripts are meant

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from difflib import get_close_matches
from functools import cache
from typing import Final

AUTO_LANGUAGE: Final = "auto"
"""Detect the language from the first window."""

_NAMES: Final = {
    "af": ("Afrikaans",),
    "am": ("Amharic", "አማርኛ"),
    "ar": ("Arabic", "العربية"),
    "as": ("Assamese", "অসমীয়া"),
    "az": ("Azerbaijani", "Azərbaycanca", "Azərbaycan dili"),
    "ba": ("Bashkir", "Башҡортса"),
    "be": ("Belarusian", "Беларуская"),
    "bg": ("Bulgarian", "Български"),
    "bn": ("Bengali", "বাংলা"),
    "bo": ("Tibetan", "བོད་སྐད་"),
    "br": ("Breton", "Brezhoneg"),
    "bs": ("Bosnian", "Bosanski"),
    "ca": ("Catalan", "Valencian", "Català", "Valencià"),
    "cs": ("Czech", "Čeština", "Česky"),
    "cy": ("Welsh", "Cymraeg"),
    "da": ("Danish", "Dansk"),
    "de": ("German", "Deutsch"),
    "el": ("Greek", "Ελληνικά"),
    "en": ("English",),
    "es": ("Spanish", "Castilian", "Español", "Castellano"),
    "et": ("Estonian", "Eesti", "Eesti keel"),
    "eu": ("Basque", "Euskara"),
    "fa": ("Persian", "Farsi", "فارسی"),
    "fi": ("Finnish", "Suomi"),
    "fo": ("Faroese", "Føroyskt"),
    "fr": ("French", "Français"),
    "gl": ("Galician", "Galego"),
    "gu": ("Gujarati", "ગુજરાતી"),
    "ha": ("Hausa",),
    "haw": ("Hawaiian", "ʻŌlelo Hawaiʻi"),
    "he": ("Hebrew", "עברית"),
    "hi": ("Hindi", "हिन्दी", "हिंदी"),
    "hr": ("Croatian", "Hrvatski"),
    "ht": ("Haitian Creole", "Haitian", "Kreyòl ayisyen"),
    "hu": ("Hungarian", "Magyar"),
    "hy": ("Armenian", "Հայերեն"),
    "id": ("Indonesian", "Bahasa Indonesia"),
    "is": ("Icelandic", "Íslenska"),
    "it": ("Italian", "Italiano"),
    "ja": ("Japanese", "日本語", "Nihongo"),
    "jw": ("Javanese", "Basa Jawa"),
    "ka": ("Georgian", "ქართული"),
    "kk": ("Kazakh", "Қазақша", "Қазақ тілі"),
    "km": ("Khmer", "ខ្មែរ", "ភាសាខ្មែរ"),
    "kn": ("Kannada", "ಕನ್ನಡ"),
    "ko": ("Korean", "한국어"),
    "la": ("Latin", "Latina"),
    "lb": ("Luxembourgish", "Letzeburgesch", "Lëtzebuergesch"),
    "ln": ("Lingala", "Lingála"),
    "lo": ("Lao", "ລາວ", "ພາສາລາວ"),
    "lt": ("Lithuanian", "Lietuvių"),
    "lv": ("Latvian", "Latviešu"),
    "mg": ("Malagasy",),
    "mi": ("Maori", "Te reo Māori"),
    "mk": ("Macedonian", "Македонски"),
    "ml": ("Malayalam", "മലയാളം"),
    "mn": ("Mongolian", "Монгол"),
    "mr": ("Marathi", "मराठी"),
    "ms": ("Malay", "Bahasa Melayu"),
    "mt": ("Maltese", "Malti"),
    "my": ("Myanmar", "Burmese", "မြန်မာ", "မြန်မာဘာသာ"),
    "ne": ("Nepali", "नेपाली"),
    "nl": ("Dutch", "Flemish", "Nederlands", "Vlaams"),
    "nn": ("Nynorsk", "Norsk nynorsk"),
    "no": ("Norwegian", "Norsk", "Bokmål", "Norsk bokmål"),
    "oc": ("Occitan",),
    "pa": ("Punjabi", "Panjabi", "ਪੰਜਾਬੀ"),
    "pl": ("Polish", "Polski"),
    "ps": ("Pashto", "Pushto", "پښتو"),
    "pt": ("Portuguese", "Português"),
    "ro": ("Romanian", "Moldavian", "Moldovan", "Română"),
    "ru": ("Russian", "Русский"),
    "sa": ("Sanskrit", "संस्कृतम्"),
    "sd": ("Sindhi", "سنڌي"),
    "si": ("Sinhala", "Sinhalese", "සිංහල"),
    "sk": ("Slovak", "Slovenčina"),
    "sl": ("Slovenian", "Slovenščina"),
    "sn": ("Shona", "chiShona"),
    "so": ("Somali", "Soomaali"),
    "sq": ("Albanian", "Shqip"),
    "sr": ("Serbian", "Српски", "Srpski"),
    "su": ("Sundanese", "Basa Sunda"),
    "sv": ("Swedish", "Svenska"),
    "sw": ("Swahili", "Kiswahili"),
    "ta": ("Tamil", "தமிழ்"),
    "te": ("Telugu", "తెలుగు"),
    "tg": ("Tajik", "Тоҷикӣ"),
    "th": ("Thai", "ไทย", "ภาษาไทย"),
    "tk": ("Turkmen", "Türkmençe"),
    "tl": ("Tagalog", "Filipino"),
    "tr": ("Turkish", "Türkçe"),
    "tt": ("Tatar", "Татарча"),
    "uk": ("Ukrainian", "Українська"),
    "ur": ("Urdu", "اردو"),
    "uz": ("Uzbek", "Oʻzbekcha", "Oʻzbek"),
    "vi": ("Vietnamese", "Tiếng Việt"),
    "yi": ("Yiddish", "ייִדיש"),
    "yo": ("Yoruba", "Yorùbá"),
    "yue": ("Cantonese", "粵語", "粤语", "廣東話", "广东话"),
    "zh": ("Chinese", "Mandarin", "中文", "汉语", "漢語", "普通话", "國語"),
}
"""Names of each language by its code: the usual English one first, then others, then its own."""

CODES_BY_NAME: Final = {
    name.casefold(): code for code, names in _NAMES.items() for name in names
}
"""Codes of Whisper's languages by their names, in lower case."""

KNOWN_LANGUAGES: Final = frozenset(_NAMES)
"""Codes of Whisper's languages."""

_OTHER_CODES: Final = {
    "cmn": "zh", "zh-yue": "yue", "nb": "no", "jv": "jw", "iw": "he", "in": "id", "ji": "yi",
    "fil": "tl", "mo": "ro",
}  # fmt: skip
"""Whisper's codes by tags of BCP 47 that it does not use itself."""

_MODIFIER: Final = "Lm"
"""Unicode's category of letters that look like an apostrophe, as in `ʻŌlelo`."""

_TAG: Final = re.compile(r"([a-z]{2,3})(-[a-z0-9]{1,8})*")
"""A BCP 47 tag: a language, then script, region and so on."""


def _strip_accents(name: str) -> str:
    """Strip accents and marks, which not every keyboard has."""
    letters = [
        letter
        for letter in unicodedata.normalize("NFKD", name)
        if letter == " "
        or (letter.isalnum() and unicodedata.category(letter) != _MODIFIER)
    ]
    return "".join(letters)


@cache
def _codes_by_stripped_name() -> dict[str, str]:
    """Return codes by names without accents; computed only when a language is not given by code."""
    return {_strip_accents(name): code for name, code in CODES_BY_NAME.items()}


def language_code(language: str) -> str:
    """Return the code of a language.

    Args:
        language: its English name or its own (`German`, `deutsch`), its code in any case (`DE`), a
            tag (`de-AT`, `zh_Hans`), or `auto`. Anything else is returned as it is: only a model
            knows its languages.
    """
    text = language.strip().casefold()
    if text == AUTO_LANGUAGE or text in KNOWN_LANGUAGES:
        return text
    code = _codes_by_stripped_name().get(_strip_accents(text))
    if code is not None:
        return code
    tag = text.replace("_", "-")
    if not _TAG.fullmatch(tag):
        return language
    parts = tag.split("-")
    # `zh-yue` is not Chinese with a region.
    for prefix in ("-".join(parts[:2]), parts[0]):
        if prefix in _OTHER_CODES:
            return _OTHER_CODES[prefix]
        if prefix in KNOWN_LANGUAGES:
            return prefix
    return language


def language_codes(languages: str) -> tuple[str, ...]:
    """Return the codes of languages with commas between, each once; see `language_code`."""
    codes = [language_code(language) for language in languages.split(",")]
    return tuple(dict.fromkeys(codes))


def language_name(code: str) -> str:
    """Return the English name of a language code, such as `German` for `de`."""
    return _NAMES[code][0] if code in _NAMES else code.title()


def similar_language(language: str, codes: Iterable[str]) -> str | None:
    """Return the language of some codes that was likely meant, such as `German (de)`."""
    choices = set(codes)
    names = [name for name, code in CODES_BY_NAME.items() if code in choices]
    matches = get_close_matches(language.strip().casefold(), names)
    if not matches:
        return None
    return f"{matches[0].title()} ({CODES_BY_NAME[matches[0]]})"
