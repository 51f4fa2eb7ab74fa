"""A room with a microphone that is real to PortAudio: PulseAudio's, which hears what is played."""

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
from whisper_hailo_lab.data.clips import text_beside

PROGRAMS: Final = ("pulseaudio", "pactl", "paplay")
PACKAGES: Final = (
    "pulseaudio",
    "pulseaudio-utils",
    "libportaudio2",
    "libasound2-plugins",
)
"""Debian's packages of the server, its programs, and PortAudio's way to it."""

_ALSA: Final = (
    'pcm.!default { type pulse hint.description "Default" }\n'
    "ctl.!default { type pulse }\n"
)
_PAUSES_S: Final = (1.5, 3.0)
_PATIENCE_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class Played:
    """A clip that was played.

    Attributes:
        path: path of the clip.
        text: its words.
        start_s: start, in seconds since 1970.
        end_s: end.
        whole: the player reported no error.
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
        runtime = str(folder / "run")
        self.environment = os.environ | {
            "HOME": str(folder),
            "XDG_RUNTIME_DIR": runtime,
        }
        self._server: subprocess.Popen[bytes] | None = None

    def open(self) -> Self:
        """Start the server.

        Raises:
            DeviceError: it is not installed, or does not start.
        """
        missing = [program for program in PROGRAMS if shutil.which(program) is None]
        if missing:
            raise DeviceError(
                f"no {', '.join(missing)} here; sudo apt install {' '.join(PACKAGES)}"
            )
        (self._folder / "run").mkdir(mode=0o700, exist_ok=True)
        (self._folder / ".asoundrc").write_text(_ALSA, encoding="utf-8")
        command = ["pulseaudio", "--daemonize=no", "--exit-idle-time=-1", "-n"]
        command += ["-L", "module-native-protocol-unix"]
        command += ["-L", "module-null-sink sink_name=played"]
        self._server = subprocess.Popen(
            command, env=self.environment, stderr=subprocess.DEVNULL
        )
        end_s = time.monotonic() + _PATIENCE_S
        while not self._answers():
            if self._server.poll() is not None or time.monotonic() > end_s:
                raise DeviceError(
                    "pulseaudio does not start; is another one in its folder?"
                )
            time.sleep(0.1)
        return self

    def _answers(self) -> bool:
        command = ["pactl", "info"]
        done = subprocess.run(
            command, env=self.environment, capture_output=True, check=False
        )
        return done.returncode == 0

    def close(self) -> None:
        if self._server is not None:
            self._server.terminate()
            self._server.wait(_PATIENCE_S)
            self._server = None


class Speaker(Closing):
    """Plays clips one after the other, with pauses.

    Args:
        clips: clips to draw from, their texts beside them.
        sound: server to play to.
        folder: folder for the clip that is played.
        seed: seed of the order.
        report: called with each clip that was played.
    """

    def __init__(
        self,
        clips: Sequence[Path],
        sound: SoundServer,
        folder: Path,
        seed: int,
        report: Callable[[Played], None],
    ) -> None:
        self._clips = clips
        self._sound = sound
        self._wav = folder / "clip.wav"
        self._rng = np.random.default_rng(seed)
        self._report = report
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
            is_whole = False
            with suppress(subprocess.TimeoutExpired):
                done = subprocess.run(
                    ["paplay", self._wav],
                    env=self._sound.environment,
                    capture_output=True,
                    timeout=_PATIENCE_S,
                    check=False,
                )
                is_whole = done.returncode == 0
            self._report(
                Played(
                    str(clip),
                    text_beside(clip),
                    start_s,
                    time.time(),
                    is_whole,
                )
            )
            self._closed.wait(float(self._rng.uniform(*_PAUSES_S)))


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault that was caused.

    Attributes:
        kind: name of the fault.
        start_s: start, in seconds since 1970.
        end_s: end; equal to the start where it took no sound.
    """

    kind: str
    start_s: float
    end_s: float

    @property
    def takes_sound(self) -> bool:
        """Whether words may be missing meanwhile."""
        return self.start_s < self.end_s


@dataclass(frozen=True, slots=True)
class PageText:
    """What a page has shown so far.

    Attributes:
        runs: final texts by segment id, for each run.
        twice: ids that came with two texts.
        n_visits: number of connections.
    """

    runs: list[dict[int, str]]
    twice: list[int]
    n_visits: int


Entry = Fault | Played | HeldMemory
_KINDS: Final[dict[str, type[Entry]]] = {
    kind.__name__.lower(): kind for kind in (Fault, Played, HeldMemory)
}


class Diary:
    """Diary of one soak, in its folder."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "diary.jsonl"
        self._page = folder / "page.json"
        self._lock = threading.Lock()

    def add(self, entry: Entry) -> None:
        """Add an entry, from any thread."""
        line = json.dumps({"entry": type(entry).__name__.lower(), **asdict(entry)})
        with self._lock, self._path.open("a", encoding="utf-8") as file:
            file.write(line + "\n")

    def note_page(self, browser: Browser) -> None:
        """Replace what is noted about the page."""
        runs = [dict(texts) for texts in list(browser.runs.values())]
        page = PageText(runs, sorted(browser.twice), browser.n_visits)
        write_file(self._page, json.dumps(asdict(page)))

    def entries(self) -> Iterator[Entry]:
        """Yield all entries, in order."""
        for line in self._path.read_text(encoding="utf-8").splitlines():
            entry = json.loads(line)
            yield _KINDS[entry.pop("entry")](**entry)

    def page(self) -> PageText:
        """Return what was last noted about the page."""
        page = PageText(**json.loads(self._page.read_text(encoding="utf-8")))
        runs = [
            {int(index): text for index, text in texts.items()} for texts in page.runs
        ]
        return PageText(runs, page.twice, page.n_visits)
