"""Which engines are installed, and the opening of one by name."""

import shutil
import subprocess
from ctypes.util import find_library

from lab.training.engines.espeak import Espeak
from lab.training.engines.festival import Festival
from lab.training.engines.flite import Flite
from lab.training.engines.sound import Engine

_KINDS: dict[str, type[Espeak] | type[Flite] | type[Festival]] = {
    "espeak": Espeak,
    "flite": Flite,
    "festival": Festival,
}
PACKAGES = {
    "espeak": "espeak-ng",
    "flite": "flite",
    "festival": "festival festvox-kallpc16k festvox-kdlpc16k festvox-us-slt-hts",
}
_FESTIVAL_VOICES = ("kal_diphone", "ked_diphone", "cmu_us_slt_arctic_hts")


def open_engine(name: str) -> Engine:
    """Returns a fresh engine.

    Raises:
        RuntimeError: it is not installed; the message names the Debian packages.
    """
    try:
        return _KINDS[name]()
    except (OSError, RuntimeError) as error:
        message = f"{name} does not start ({error}); install {PACKAGES[name]}"
        raise RuntimeError(
            f"{message}, or leave it out with --without {name}"
        ) from error


def missing_engines(wanted: tuple[str, ...]) -> dict[str, str]:
    """Returns the engines of `wanted` that lack something, with the packages that give it."""
    found = {
        "espeak": find_library("espeak-ng") is not None,
        "flite": all(
            find_library(name)
            for name in (
                "flite",
                *(f"flite_cmu_us_{v}" for v in ("kal16", "awb", "rms", "slt")),
            )
        ),
        "festival": shutil.which("festival") is not None and _festival_is_whole(),
    }
    return {name: PACKAGES[name] for name in wanted if not found[name]}


def _festival_is_whole() -> bool:
    command = ["festival", "-b", "(print (voice.list))"]
    listed = subprocess.run(command, check=False, capture_output=True, text=True).stdout
    return all(voice in listed for voice in _FESTIVAL_VOICES)
