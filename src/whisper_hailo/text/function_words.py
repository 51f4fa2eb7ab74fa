"""Words that bind to their neighbours, by language: subtitles break before or after them, or never.

Lists of common function words, not dictionaries. A language without a list breaks at punctuation,
pauses and the middle of its lines.
"""

# ruff: noqa: RUF001 - Russian is written in Cyrillic

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class FunctionWords:
    """The function words of a language, in lower case and without marks: Dutch "'t" is "t".

    Elided ones, as in "l'homme", are no words of their own.

    Attributes:
        conjunctions: begin a clause: the best places to break before, without punctuation.
        prepositions: begin a phrase.
        binders: articles, possessives, titles and such: the next word belongs to them.
    """

    conjunctions: frozenset[str]
    prepositions: frozenset[str]
    binders: frozenset[str]


def _words(conjunctions: str, prepositions: str, binders: str) -> FunctionWords:
    return FunctionWords(
        frozenset(conjunctions.split()),
        frozenset(prepositions.split()),
        frozenset(binders.split()),
    )


NO_FUNCTION_WORDS: Final = _words("", "", "")

FUNCTION_WORDS: Final = {
    "en": _words(
        "and but or nor so yet because although though while when where which who whose whom that "
        "if unless until since as than whether before after",
        "of in on at by for with from to into onto about against between through during without "
        "within among over under upon around across behind beyond near toward towards like",
        "a an the my your his her its our their this these those some any no every each mr mrs ms "
        "dr prof st sir lord lady not very too i'm you're we're they're it's he's she's is are was "
        "were be been am will would can could shall should may might must have has had do does did",
    ),
    "de": _words(
        "und aber oder denn sondern doch weil dass ob wenn als während obwohl damit sodass "
        "bevor nachdem bis seit wie wo welcher welche welches",
        "von in im an am auf bei beim für mit aus nach zu zum zur über unter vor hinter neben "
        "zwischen durch gegen ohne um wegen trotz seit bis ins ans vom",
        "der die das den dem des ein eine einen einem einer eines mein meine dein deine sein seine "
        "ihr ihre unser unsere kein keine keinen dieser diese dieses jeder jede jedes herr frau dr "
        "prof nicht sehr zu so",
    ),
    "fr": _words(
        "et mais ou donc or ni car que qui dont où quand lorsque si comme parce puisque quoique "
        "afin tandis",
        "de du des à au aux en dans par pour sur sous avec sans chez vers entre contre depuis "
        "pendant avant après",
        "le la les un une des mon ma mes ton ta tes son sa ses notre nos votre vos leur leurs "
        "ce cet cette ces chaque quelques m mme mlle dr ne se me te je très plus",
    ),
    "es": _words(
        "y e pero o u ni que porque aunque mientras cuando donde como si sino pues quien cuyo",
        "de del a al en con por para sin sobre entre hasta desde hacia contra según durante ante "
        "bajo tras",
        "el la los las un una unos unas mi mis tu tus su sus nuestro nuestra este esta estos estas "
        "ese esa esos esas aquel aquella cada sr sra dr don doña no muy más se me te le lo",
    ),
    "it": _words(
        "e ed ma o oppure né che perché poiché mentre quando dove come se sebbene affinché cui",
        "di del della dei delle dello a al alla ai alle in nel nella nei nelle con per su sul "
        "sulla da dal dalla tra fra senza verso durante dopo prima",
        "il lo la i gli le un uno una mio mia tuo tua suo sua nostro nostra questo questa "
        "questi queste quel quella ogni sig signor signora dott non molto più si mi ti ci",
    ),
    "pt": _words(
        "e mas ou nem que porque embora enquanto quando onde como se pois quem cujo",
        "de do da dos das a ao à em no na nos nas com por pelo pela para sem sobre entre até "
        "desde contra durante",
        "o a os as um uma uns umas meu minha teu tua seu sua nosso nossa este esta esse essa "
        "aquele aquela cada sr sra dr dom não muito mais se me te lhe",
    ),
    "nl": _words(
        "en maar of want dus dat omdat hoewel terwijl wanneer als toen waar die wie zodat voordat "
        "nadat totdat",
        "van in op aan bij voor met uit naar door over onder tegen tussen zonder om tot sinds te",
        "de het een t mijn jouw je zijn haar ons onze hun deze dit die geen elke ieder meneer "
        "mevrouw dr niet heel zeer te",
    ),
    "pl": _words(
        "i a ale lub albo oraz więc że bo ponieważ chociaż gdy kiedy gdzie jak jeśli który która "
        "które żeby aby",
        "w we z ze na do od po o u przy dla bez nad pod przed za przez między ku",
        "nie się ten ta to te mój moja twój twoja jego jej nasz nasza wasz ich pan pani dr bardzo",
    ),
    "ru": _words(
        "и а но или что чтобы потому если когда где как который которая которое которые хотя пока",
        "в во на с со к ко по от до из у о об при для без над под перед за через между про",
        "не ни этот эта это эти тот та те мой моя твой твоя его её наш наша ваш ваша их очень",
    ),
    "uk": _words(
        "і й та а але чи що щоб бо якщо коли де як який яка яке які хоча поки або",
        "в у на зі із з до по від о об про при для без над під перед за через між біля",
        "не ні цей ця це ці той тому ті мій моя твій твоя його її наш наша ваш ваша їх дуже",
    ),
    "sv": _words(
        "och men eller utan att som därför eftersom medan när där om fast innan",
        "av i på till från med för vid under över genom mellan mot utan hos kring",
        "en ett den det de min mitt mina din ditt dina sin sitt sina hans hennes vår vårt era "
        "deras denna detta dessa inte mycket herr fru dr",
    ),
    "cs": _words(
        "a i ale nebo že protože když kde jak jestli který která které aby ačkoli zatímco",
        "v ve z ze na do od po o u při pro bez nad pod před za přes mezi k ke s se",
        "ne ten ta to ti můj moje tvůj tvoje jeho její náš naše váš jejich pan paní velmi se si",
    ),
}
"""By Whisper's language code."""

_ABBREVIATIONS: Final = (
    "mr mrs ms dr prof st sr jr vs vol fig ca bzw z.b d.h u.a nr hr fr m mme mlle sra dott sig "
    "dhr mevr e.g i.e jan feb apr jun jul aug sep sept oct nov dec"
)
ABBREVIATIONS: Final = frozenset(_ABBREVIATIONS.split())
"""Words whose full stop ends no sentence."""
