"""The measurement: a microphone for some minutes, with one fault in each."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from whisper_hailo.core.protocols import Closing
from whisper_hailo.http.addresses import Listener
from whisper_hailo_lab.captions.browser import Browser
from whisper_hailo_lab.captions.soak.room import Diary, Fault, SoundServer, Speaker
from whisper_hailo_lab.captions.soak.service import Service
from whisper_hailo_lab.data.clips import find_clips

logger = logging.getLogger(__name__)

_AWAY_S: Final = 8.0
_FULL_S: Final = 15.0
_STOPPED_S: Final = 20.0
_SETTLE_S: Final = 10.0
_SAMPLED_S: Final = 10.0
_LAST_WORDS_S: Final = 5.0

_CALM_S: Final = 30.0
"""Seconds of each minute before its fault: earlier words are in files, later ones are heard."""

_KILL_EVERY: Final = 5
_LAST_KILL: Final = 20
"""Minutes. The process after the last kill grows old enough to judge its memory."""

_SHORT: Final = frozenset({"disk full", "page reloaded"})
"""Faults that lose no sound."""

FaultKind = tuple[str, Callable[[], None]]
"""Name and cause of a fault."""


def run_soak(
    model: str,
    minutes: int,
    folder: Path,
    seed: int = 0,
) -> None:
    """Caption a microphone by the real command, with one fault a minute.

    Args:
        model: checkpoint.
        minutes: minutes of real time.
        folder: folder of files and diary.
        seed: seed of the speech.
    """
    folder.mkdir(parents=True, exist_ok=True)
    diary = Diary(folder)
    clips = find_clips("seen", "unseen")
    with ExitStack() as stack:
        sound = stack.enter_context(SoundServer(folder))
        service = stack.enter_context(
            Service(model, folder, sound.environment, _free_port())
        )
        speaker = stack.enter_context(Speaker(clips, sound, folder, seed, diary.add))
        stack.enter_context(_MemorySampler(service, diary))
        browser = stack.enter_context(Browser(service.address, seed))
        kill = ("killed", service.kill)
        _cause_faults(
            minutes, kill, _other_faults(sound, service, browser), diary, browser
        )
        speaker.close()
        time.sleep(_LAST_WORDS_S)
        browser.close()
        service.close()
        diary.note_page(browser)


class _MemorySampler(Closing):
    """Samples the memory of the program at intervals."""

    def __init__(self, service: Service, diary: Diary) -> None:
        self._service = service
        self._diary = diary
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._sample, name="memory", daemon=True)

    def open(self) -> _MemorySampler:
        self._thread.start()
        return self

    def close(self) -> None:
        self._ended.set()
        self._thread.join()

    def _sample(self) -> None:
        while not self._ended.wait(_SAMPLED_S):
            memory = self._service.sample_memory()
            if memory is not None:
                self._diary.add(memory)


def _free_port() -> int:
    with Listener("127.0.0.1", 0, "http", "try again") as listener:
        return listener.port


def _other_faults(
    sound: SoundServer, service: Service, browser: Browser
) -> list[FaultKind]:
    """Return all faults but the kill."""

    def take_microphone_away() -> None:
        sound.close()
        time.sleep(_AWAY_S)
        sound.open()
        time.sleep(2 * _AWAY_S)  # until the program opens it again

    def freeze() -> None:
        service.freeze(_STOPPED_S)
        time.sleep(_SETTLE_S)

    return [
        ("microphone away", take_microphone_away),
        ("disk full", lambda: service.fill_disk(_FULL_S)),
        ("page reloaded", browser.reload),
        ("stopped", freeze),
    ]


def _cause_faults(
    minutes: int,
    kill: FaultKind,
    others: list[FaultKind],
    diary: Diary,
    browser: Browser,
) -> None:
    """Cause one fault in each minute, and note its time."""
    begin_s = time.monotonic()
    n_others = 0
    for minute in range(minutes):
        fault_s = begin_s + 60 * minute + _CALM_S
        time.sleep(max(0.0, fault_s - time.monotonic()))
        if minute < _LAST_KILL and minute % _KILL_EVERY == _KILL_EVERY - 1:
            name, cause = kill
        else:
            name, cause = others[n_others % len(others)]
            n_others += 1
        start_s = time.time()
        cause()
        over_s = start_s if name in _SHORT else time.time()
        diary.add(Fault(name, start_s, over_s))
        diary.note_page(browser)
        logger.info("minute %d: %s", minute, name)
    end_s = begin_s + 60 * minutes
    time.sleep(max(0.0, end_s - time.monotonic()))
