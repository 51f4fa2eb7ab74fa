"""Speech engines and their voices: which ones are trained on and which are kept unheard."""

import re
from dataclasses import asdict, dataclass, replace
from random import Random
from typing import Literal

Engine = Literal["espeak", "flite", "festival"]

ESPEAK_ACCENTS = (
    "en-us",
    "en-gb",
    "en-gb-x-rp",
    "en-gb-scotland",
    "en-gb-x-gbclan",
    "en-gb-x-gbcwmd",
    "en-029",
    "en-us-nyc",
)
_VARIANTS = (
    "f1 f2 f3 f4 f5 m1 m2 m3 m4 m5 m6 m7 m8 Alex Alicia Andrea Andy Annie Denis Diogo Gene Gene2 "
    "Hugo Jacky Lee Marco Mario Michael Mike Nguyen Storm adam anika antonio aunty benjamin caleb "
    "david ed edward grandma grandpa gustave iven iven2 iven3 iven4 john linda marcelo max michel "
    "miguel norbert pablo paul pedro quincy rob robert sandro shelby steph steph2 steph3 travis "
    "victor zac"
)
ESPEAK_VARIANTS = tuple(_VARIANTS.split())
FLITE_VOICES = ("kal16", "awb", "rms", "slt")

FLITE_PITCH_HZ = {"kal16": 105, "awb": 130, "rms": 95, "slt": 165}
"""Mean pitch of each voice when nothing else is asked for."""
FESTIVAL_VOICES = ("kal_diphone", "ked_diphone")
ENGINES = ("espeak", "flite", "festival")

UNHEARD_ESPEAK = ("klatt", "klatt2", "klatt3", "klatt4")
"""A synthesiser of its own inside espeak-ng (Klatt's): no setting of it is trained on."""
UNHEARD_VARIANTS = ("belinda", "boris")
UNHEARD_FESTIVAL = ("cmu_us_slt_arctic_hts",)
FESTIVAL_SHARE = 0.08
FLITE_SHARE = 0.3
"""Part of the trained utterances that flite speaks: four voices beside some 500 of espeak-ng's."""


@dataclass(frozen=True, slots=True)
class Voice:
    """One way of speaking a text.

    Attributes:
        engine: program that speaks.
        name: the engine's name of the voice.
        rate: speed relative to the voice's own, 1.0 is unchanged.
        pitch: espeak-ng's pitch, 0 to 99 (50 is the voice's own); flite's mean in Hz (0: its own).
        warp: factor on the frequency axis (speed and pitch at once) by resampling.
    """

    engine: Engine
    name: str
    rate: float = 1.0
    pitch: int = 50
    warp: float = 1.0

    def as_json(self) -> dict[str, str | float | int]:
        """Returns the fields for a manifest."""
        return asdict(self)


def _flite_voice(rng: Random, rate: float, warp: float) -> Voice:
    name = rng.choice(FLITE_VOICES)
    pitch = rng.choice((0, round(FLITE_PITCH_HZ[name] * rng.uniform(0.85, 1.25))))
    return Voice("flite", name, rate, pitch, warp)


def trained_voice(rng: Random) -> Voice:
    """Returns a random voice of the kind that is trained on ('seen')."""
    rate = round(rng.uniform(0.85, 1.2), 2)
    warp = round(rng.uniform(0.9, 1.12), 2)
    if rng.random() < FLITE_SHARE:
        return _flite_voice(rng, rate, warp)
    name = f"{rng.choice(ESPEAK_ACCENTS)}+{rng.choice(ESPEAK_VARIANTS)}"
    return Voice("espeak", name, rate, rng.randint(25, 75), warp)


def _with_variants(name: str) -> str:
    """Returns an espeak-ng name under which its variant is heard: `en-gb+x` ignores `x`."""
    return re.sub(r"^en-gb(?=$|\+)", "en", name)


def task_voice(rng: Random, language: str, engines: tuple[str, ...] = ENGINES) -> Voice:
    """Returns a random trained voice for `language`, among the engines that may be used.

    German is spoken by espeak-ng alone; English also by flite and by festival's diphone voices,
    and by these alone where espeak-ng is left out.
    """
    chance = rng.random() * (
        1.0 if "espeak" in engines else FESTIVAL_SHARE + FLITE_SHARE
    )
    if language == "en" and chance < FESTIVAL_SHARE and "festival" in engines:
        rate = round(rng.uniform(0.8, 1.25), 2)
        warp = round(rng.uniform(0.86, 1.16), 2)
        return Voice("festival", rng.choice(FESTIVAL_VOICES), rate, 0, warp)
    if (
        language == "en"
        and chance < FESTIVAL_SHARE + FLITE_SHARE
        and "flite" in engines
    ):
        return _flite_voice(
            rng, round(rng.uniform(0.8, 1.25), 2), round(rng.uniform(0.88, 1.14), 2)
        )
    accent = "de" if language == "de" else _with_variants(rng.choice(ESPEAK_ACCENTS))
    rate = round(rng.uniform(0.75, 1.3), 2)
    warp = round(rng.uniform(0.88, 1.14), 2)
    return Voice(
        "espeak",
        f"{accent}+{rng.choice(ESPEAK_VARIANTS)}",
        rate,
        rng.randint(20, 80),
        warp,
    )


def unheard_task_voice(
    rng: Random, language: str, engines: tuple[str, ...] = ENGINES
) -> Voice:
    """Returns a random voice for `language` that is never trained on, whatever the language."""
    if language == "en":
        voice = unheard_voice(rng)
        while voice.engine not in engines:
            voice = unheard_voice(rng)
        return replace(voice, name=_with_variants(voice.name))
    return Voice(
        "espeak", f"{language}+{rng.choice(UNHEARD_ESPEAK + UNHEARD_VARIANTS)}"
    )


def unheard_voice(rng: Random) -> Voice:
    """Returns a random voice that is never trained on ('unseen')."""
    accent = rng.choice(ESPEAK_ACCENTS[:3])
    kind = rng.randrange(3)
    if kind == 0:
        return Voice("espeak", f"{accent}+{rng.choice(UNHEARD_ESPEAK)}")
    if kind == 1:
        return Voice("espeak", f"{accent}+{rng.choice(UNHEARD_VARIANTS)}")
    return Voice("festival", rng.choice(UNHEARD_FESTIVAL))
