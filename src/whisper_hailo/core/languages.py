"""Names of the languages that Whisper knows, for people who do not think in codes."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Final

AUTO_LANGUAGE: Final = "auto"
"""Detect the language from the first window."""

_CODES: Final = """
af Afrikaans; am Amharic; ar Arabic; as Assamese; az Azerbaijani; ba Bashkir; be Belarusian;
bg Bulgarian; bn Bengali; bo Tibetan; br Breton; bs Bosnian; ca Catalan, Valencian; cs Czech;
cy Welsh; da Danish; de German; el Greek; en English; es Spanish, Castilian; et Estonian; eu Basque;
fa Persian; fi Finnish; fo Faroese; fr French; gl Galician; gu Gujarati; ha Hausa; haw Hawaiian;
he Hebrew; hi Hindi; hr Croatian; ht Haitian Creole, Haitian; hu Hungarian; hy Armenian;
id Indonesian; is Icelandic; it Italian; ja Japanese; jw Javanese; ka Georgian; kk Kazakh; km Khmer;
kn Kannada; ko Korean; la Latin; lb Luxembourgish, Letzeburgesch; ln Lingala; lo Lao; lt Lithuanian;
lv Latvian; mg Malagasy; mi Maori; mk Macedonian; ml Malayalam; mn Mongolian; mr Marathi; ms Malay;
mt Maltese; my Myanmar, Burmese; ne Nepali; nl Dutch, Flemish; nn Nynorsk; no Norwegian; oc Occitan;
pa Punjabi, Panjabi; pl Polish; ps Pashto, Pushto; pt Portuguese;
ro Romanian, Moldavian, Moldovan; ru Russian; sa Sanskrit; sd Sindhi; si Sinhala, Sinhalese;
sk Slovak; sl Slovenian; sn Shona; so Somali; sq Albanian; sr Serbian; su Sundanese; sv Swedish;
sw Swahili; ta Tamil; te Telugu; tg Tajik; th Thai; tk Turkmen; tl Tagalog; tr Turkish; tt Tatar;
uk Ukrainian; ur Urdu; uz Uzbek; vi Vietnamese; yi Yiddish; yo Yoruba; yue Cantonese;
zh Chinese, Mandarin
"""


def _by_name() -> dict[str, str]:
    names = {AUTO_LANGUAGE: AUTO_LANGUAGE}
    for entry in _CODES.split(";"):
        code, listed = entry.strip().split(" ", 1)
        names[code] = code
        for name in listed.split(","):
            names[name.strip().casefold()] = code
    return names


_BY_NAME: Final = _by_name()


def language_code(language: str) -> str:
    """The code of a language that was named, such as `de` for `German`, `german` or `DE`.

    `auto` is taken in any case, too. What is no name is given back as it is: only a model knows
    which languages it takes.
    """
    return _BY_NAME.get(language.strip().casefold(), language)


def similar_language(language: str, known: Iterable[str]) -> str | None:
    """The language among the codes `known` that was likely meant, such as `German (de)`."""
    codes = set(known)
    names = [name for name, code in _BY_NAME.items() if code in codes and name != code]
    found = get_close_matches(language.strip().casefold(), names, n=1)
    return f"{found[0].title()} ({_BY_NAME[found[0]]})" if found else None
