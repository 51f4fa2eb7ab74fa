"""Names and codes of the languages that Whisper knows."""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches
from typing import Final

AUTO_LANGUAGE: Final = "auto"
"""Detect the language from the first window."""

_CODES: Final = """
af Afrikaans; am Amharic; ar Arabic; as Assamese; az Azerbaijani; ba Bashkir; be Belarusian;
bg Bulgarian; bn Bengali; bo Tibetan; br Breton; bs Bosnian; ca Catalan, Valencian; cs Czech;
cy Welsh; da Danish; de German; el Greek; en English; es Spanish, Castilian; et Estonian; eu Basque;
fa Persian, Farsi; fi Finnish; fo Faroese; fr French; gl Galician; gu Gujarati; ha Hausa;
haw Hawaiian; he Hebrew; hi Hindi; hr Croatian; ht Haitian Creole, Haitian; hu Hungarian;
hy Armenian; id Indonesian; is Icelandic; it Italian; ja Japanese; jw Javanese; ka Georgian;
kk Kazakh; km Khmer; kn Kannada; ko Korean; la Latin; lb Luxembourgish, Letzeburgesch; ln Lingala;
lo Lao; lt Lithuanian; lv Latvian; mg Malagasy; mi Maori; mk Macedonian; ml Malayalam; mn Mongolian;
mr Marathi; ms Malay; mt Maltese; my Myanmar, Burmese; ne Nepali; nl Dutch, Flemish; nn Nynorsk;
no Norwegian; oc Occitan; pa Punjabi, Panjabi; pl Polish; ps Pashto, Pushto; pt Portuguese;
ro Romanian, Moldavian, Moldovan; ru Russian; sa Sanskrit; sd Sindhi; si Sinhala, Sinhalese;
sk Slovak; sl Slovenian; sn Shona; so Somali; sq Albanian; sr Serbian; su Sundanese; sv Swedish;
sw Swahili; ta Tamil; te Telugu; tg Tajik; th Thai; tk Turkmen; tl Tagalog, Filipino; tr Turkish;
tt Tatar; uk Ukrainian; ur Urdu; uz Uzbek; vi Vietnamese; yi Yiddish; yo Yoruba; yue Cantonese;
zh Chinese, Mandarin
"""

_OTHER_CODES: Final = {
    "cmn": "zh", "zh-yue": "yue", "nb": "no", "jv": "jw", "iw": "he", "in": "id", "ji": "yi",
    "fil": "tl", "mo": "ro",
}  # fmt: skip
"""Tags of languages that Whisper calls otherwise."""

CODES_BY_NAME: Final = {
    name.casefold(): code
    for code, listed in (entry.split(" ", 1) for entry in " ".join(_CODES.split()).split("; "))
    for name in listed.split(", ")
}
"""Codes of Whisper's languages by their names, in lower case."""

KNOWN_LANGUAGES: Final = frozenset(CODES_BY_NAME.values())
"""Codes of Whisper's languages."""


def language_code(language: str) -> str:
    """Return the code of a language, or `auto`.

    It is given by its English name (`German`), its code in any case (`DE`), or a BCP 47 tag
    (`de-AT`, `zh_Hans`). Anything else is returned as it is: only a model knows its languages.
    """
    text = language.strip().casefold()
    if text == AUTO_LANGUAGE or text in KNOWN_LANGUAGES:
        return text
    if (code := CODES_BY_NAME.get(text)) is not None:
        return code
    tag = text.replace("_", "-")
    if not re.fullmatch(r"[a-z]{2,3}(-[a-z0-9]{1,8})*", tag):
        return language
    for size in (2, 1):
        begin = "-".join(tag.split("-")[:size])
        if (code := _OTHER_CODES.get(begin)) is not None or begin in KNOWN_LANGUAGES:
            return code or begin
    return language


def language_name(code: str) -> str:
    """Return the English name of a language code, such as `German` for `de`."""
    names = (name for name, known in CODES_BY_NAME.items() if known == code)
    return next(names, code).title()


def similar_language(language: str, known: Iterable[str]) -> str | None:
    """Return the known language that was likely meant, such as `German (de)`."""
    codes = set(known)
    names = [name for name, code in CODES_BY_NAME.items() if code in codes]
    found = get_close_matches(language.strip().casefold(), names)
    return f"{found[0].title()} ({CODES_BY_NAME[found[0]]})" if found else None
