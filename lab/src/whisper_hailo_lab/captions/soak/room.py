"""A room whose microphone is real to PortAudio: PulseAudio's, which hears what is played."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final, Self

import numpy as np
import soundfile

from whisper_hailo.audio import load_audio
from whisper_hailo.core.atomic_files import write_file
from whisper_hailo.core.errors import DeviceError
from whisper_hailo.core.protocols import Closing
from whisper_hailo.core.types import SAMPLE_RATE_HZ
from whisper_hailo_lab.captions.browser import Browser
from whisper_hailo_lab.captions.soak.service import HeldMemory
from whisper_hailo_lab.data.clips import said

PROGRAMS: Final = ("pulseaudio", "pactl", "paplay")
PACKAGES: Final = ("pulseaudio", "pulseaudio-utils", "libportaudio2", "libasound2-plugins")
"""Of Debian: the server, its programs, and what PortAudio reaches it through."""

_ALSA: Final = (
    'pcm.!default { type pulse hint.description "Default" }\nctl.!default { type pulse }\n'
)
_PAUSES_S: Final = (1.5, 3.0)
_PATIENCE_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class Played:
    """A clip that was played.

    Attributes:
        path: of the clip.
        text: what is said in it.
        start_s: when it began, in seconds since 1970.
        end_s: when it was over.
        whole: the player had nothing to complain of.
    """

    path: str
    text: str
    start_s: float
    end_s: float
    whole: bool


class SoundServer(Closing):
    """A sound server with one microphone, which can be taken away."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.environment = os.environ | {
            "HOME": str(folder),
            "XDG_RUNTIME_DIR": str(folder / "run"),
        }
        self._server: subprocess.Popen[bytes] | None = None

    def open(self) -> Self:
        """Begin to hear.

        Raises:
            DeviceError: there is no such server here, or it does not start.
        """
        missing = [program for program in PROGRAMS if shutil.which(program) is None]
        if missing:
            raise DeviceError(
                f"no {', '.join(missing)} here; sudo apt install {' '.join(PACKAGES)}"
            )
        (self._folder / "run").mkdir(mode=0o700, exist_ok=True)
        (self._folder / ".asoundrc").write_text(_ALSA, encoding="utf-8")
        self._server = subprocess.Popen(
            [
                *("pulseaudio", "--daemonize=no", "--exit-idle-time=-1", "-n"),
                *("-L", "module-native-protocol-unix"),
                *("-L", "module-null-sink sink_name=played"),
            ],
            env=self.environment,
            stderr=subprocess.DEVNULL,
        )
        end_s = time.monotonic() + _PATIENCE_S
        while subprocess.run(
            ["pactl", "info"], env=self.environment, capture_output=True, check=False
        ).returncode:
            if self._server.poll() is not None or time.monotonic() > end_s:
                raise DeviceError("pulseaudio does not start; is another one in its folder?")
            time.sleep(0.1)
        return self

    def close(self) -> None:
        server, self._server = self._server, None
        if server is not None:
            server.terminate()
            server.wait(_PATIENCE_S)


class Speaker(Closing):
    """Plays one clip after the other, with pauses.

    Args:
        clips: drawn from, with their texts beside them.
        sound: where.
        folder: for what is played.
        seed: of the order.
        told: each clip that was played.
    """

    def __init__(
        self,
        clips: Sequence[Path],
        sound: SoundServer,
        folder: Path,
        seed: int,
        told: Callable[[Played], None],
    ) -> None:
        self._clips = clips
        self._sound = sound
        self._wav = folder / "clip.wav"
        self._rng = np.random.default_rng(seed)
        self._told = told
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._speak, name="speaker", daemon=True)

    def open(self) -> Self:
        self._thread.start()
        return self

    def close(self) -> None:
        self._closed.set()
        self._thread.join(_PATIENCE_S)

    def _speak(self) -> None:
        while not self._closed.is_set():
            clip = self._clips[int(self._rng.integers(len(self._clips)))]
            soundfile.write(self._wav, load_audio(clip), SAMPLE_RATE_HZ)
            start_s = time.time()
            whole = False
            with suppress(subprocess.TimeoutExpired):
                done = subprocess.run(
                    ["paplay", self._wav],
                    env=self._sound.environment,
                    capture_output=True,
                    timeout=_PATIENCE_S,
                    check=False,
                )
                whole = done.returncode == 0
            self._told(Played(str(clip), said(clip), start_s, time.time(), whole))
            self._closed.wait(float(self._rng.uniform(*_PAUSES_S)))


@dataclass(frozen=True, slots=True)
class Fault:
    """One that was made.

    Attributes:
        kind: what it was.
        start_s: when it began, in seconds since 1970.
        end_s: when it was over; the same where it took no sound.
    """

    kind: str
    start_s: float
    end_s: float

    @property
    def takes_sound(self) -> bool:
        """Whether what was said meanwhile may be missing."""
        return self.start_s < self.end_s


@dataclass(frozen=True, slots=True)
class PageText:
    """What a page was shown so far.

    Attributes:
        runs: final texts by the segment's id, of each run.
        twice: ids that came with two texts.
        n_visits: times that it connected.
    """

    runs: list[dict[int, str]]
    twice: list[int]
    n_visits: int


Entry = Fault | Played | HeldMemory
_KINDS: Final[dict[str, type[Entry]]] = {
    kind.__name__.lower(): kind for kind in (Fault, Played, HeldMemory)
}


class Diary:
    """Of one soak, in its folder."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "diary.jsonl"
        self._page = folder / "page.json"
        self._lock = threading.Lock()

    def note(self, entry: Entry) -> None:
        """Add one, from any thread."""
        line = json.dumps({"entry": type(entry).__name__.lower(), **asdict(entry)})
        with self._lock, self._path.open("a", encoding="utf-8") as file:
            file.write(line + "\n")

    def note_page(self, browser: Browser) -> None:
        """What it was shown until now, in place of what was noted before."""
        runs, twice = list(browser.runs.values()), sorted(browser.twice)
        shown = PageText([dict(texts) for texts in runs], twice, browser.n_visits)
        write_file(self._page, json.dumps(asdict(shown)))

    def entries(self) -> Iterator[Entry]:
        """All that were noted, in order."""
        for line in self._path.read_text(encoding="utf-8").splitlines():
            entry = json.loads(line)
            yield _KINDS[entry.pop("entry")](**entry)

    def shown(self) -> PageText:
        """What was noted of the page last."""
        found = PageText(**json.loads(self._page.read_text(encoding="utf-8")))
        runs = [{int(index): text for index, text in texts.items()} for texts in found.runs]
        return PageText(runs, found.twice, found.n_visits)
