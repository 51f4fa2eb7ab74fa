"""The measurement: a microphone of so many minutes, a fault in each of them."""

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
from whisper_hailo_lab.data.clips import recordings

logger = logging.getLogger(__name__)

_AWAY_S, _FULL_S, _STOPPED_S = 8.0, 15.0, 20.0
_WEIGHED_S: Final = 10.0
_CALM_S: Final = 30.0
"""Into each minute the fault comes: what was said before it is in files, what follows is heard."""

_KILL_EACH, _KILLS_END = 5, 20
"""Minutes; none later, so that the process that follows grows old enough to tell of its memory."""

_SHORT: Final = frozenset({"disk full", "page reloaded"})
"""Faults that take no sound away."""


def soak(model: str, minutes: int, folder: Path, seed: int = 0) -> None:
    """Captions of a microphone with a fault each minute, by the real command.

    Args:
        model: checkpoint.
        minutes: of real time.
        folder: of its files and its diary.
        seed: of what is said.
    """
    folder.mkdir(parents=True, exist_ok=True)
    diary = Diary(folder)
    with ExitStack() as stack:
        sound = stack.enter_context(SoundServer(folder))
        service = stack.enter_context(Service(model, folder, sound.environment, _free_port()))
        clips = recordings("seen", "unseen")
        speaker = stack.enter_context(Speaker(clips, sound, folder, seed, diary.note))
        stack.enter_context(_Watch(service, diary))
        browser = stack.enter_context(Browser(service.address, seed))
        _faults(minutes, _causes(sound, service, browser), diary, browser)
        speaker.close()
        time.sleep(5.0)  # the last words are heard
        browser.close()
        service.close()
        diary.note_page(browser)


class _Watch(Closing):
    """Weighs the program again and again."""

    def __init__(self, service: Service, diary: Diary) -> None:
        self._service = service
        self._diary = diary
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._weigh, name="watch", daemon=True)

    def open(self) -> _Watch:
        self._thread.start()
        return self

    def close(self) -> None:
        self._ended.set()
        self._thread.join()

    def _weigh(self) -> None:
        while not self._ended.wait(_WEIGHED_S):
            weight = self._service.weigh()
            if weight is not None:
                self._diary.note(weight)


def _free_port() -> int:
    with Listener("127.0.0.1", 0, "http", "try again") as listener:
        return listener.port


def _causes(
    sound: SoundServer, service: Service, browser: Browser
) -> list[tuple[str, Callable[[], None]]]:
    def away() -> None:
        sound.close()
        time.sleep(_AWAY_S)
        sound.open()
        time.sleep(2 * _AWAY_S)  # until it is opened again

    def stop() -> None:
        service.stop(_STOPPED_S)
        time.sleep(10.0)

    return [
        ("killed", service.kill),
        ("microphone away", away),
        ("disk full", lambda: service.fill_disk(_FULL_S)),
        ("page reloaded", browser.reload),
        ("stopped", stop),
    ]


def _faults(
    minutes: int, causes: list[tuple[str, Callable[[], None]]], diary: Diary, browser: Browser
) -> None:
    """One in each minute, and when each was."""
    begin_s = time.monotonic()
    (killed, *others), n_others = causes, 0
    for minute in range(minutes):
        time.sleep(max(0.0, begin_s + 60 * minute + _CALM_S - time.monotonic()))
        if minute < _KILLS_END and minute % _KILL_EACH == _KILL_EACH - 1:
            name, cause = killed
        else:
            name, cause = others[n_others % len(others)]
            n_others += 1
        at_s = time.time()
        cause()
        diary.note(Fault(name, at_s, at_s if name in _SHORT else time.time()))
        diary.note_page(browser)
        logger.info("minute %d: %s", minute, name)
    time.sleep(max(0.0, begin_s + 60 * minutes - time.monotonic()))
