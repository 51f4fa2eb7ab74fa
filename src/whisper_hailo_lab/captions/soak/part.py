"""The measurement: a microphone of so many minutes, a fault in each of them."""

from __future__ import annotations

import logging
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import numpy as np
import soundfile

from whisper_hailo.audio import load_audio
from whisper_hailo.core.types import SAMPLE_RATE_HZ
from whisper_hailo.http.listening import listen
from whisper_hailo.live.options import CaptionOptions
from whisper_hailo_lab.captions.browser import Browser
from whisper_hailo_lab.captions.soak.room import Played, Sound, Speaker
from whisper_hailo_lab.captions.soak.score import (
    Run,
    cues_of,
    heard_in,
    overlaps,
    recorded_s,
    runs_of,
    texts_of,
    undisturbed,
)
from whisper_hailo_lab.captions.soak.service import PARTIAL_S, Service, Weight
from whisper_hailo_lab.captions.stream import captioned, percent_wrong
from whisper_hailo_lab.data.clips import recordings

logger = logging.getLogger(__name__)

_KILL_EACH, _FIRST_KILL = 30, 10
"""Minutes; oftener, and no process would be old enough to say how its memory grows."""

_AWAY_S, _FULL_S, _STOPPED_S = 8.0, 15.0, 20.0
_FLAT_FROM_S: Final = 600.0
_CALM_S: Final = 30.0
"""Into each minute the fault comes: what was said before it is in files, what follows is heard."""


def soak(model: str, minutes: int, keep: Path | None = None, seed: int = 0) -> dict[str, Any]:
    """Captions of a microphone with a fault each minute, by the real command.

    Args:
        model: checkpoint.
        minutes: of real time.
        keep: where its files are to stay.
        seed: of what is said.
    """
    with ExitStack() as stack:
        folder = keep or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        folder.mkdir(parents=True, exist_ok=True)
        sound = stack.enter_context(Sound(folder))
        service = stack.enter_context(Service(model, folder, sound.environment, _free_port()))
        clips = recordings("seen", "unseen")
        speaker = stack.enter_context(Speaker(clips, sound, folder, seed))
        watch = stack.enter_context(_Watch(service))
        browser = stack.enter_context(Browser(service.address, seed))
        faults = _faults(minutes, sound, service, browser)
        speaker.close()
        time.sleep(5.0)  # the last words are heard
        browser.close()
        service.close()
        (folder / "told.txt").write_text("\n".join(service.stderr), encoding="utf-8")
        runs = runs_of(folder / "a.jsonl")
        found = _found(runs, faults, speaker.played, model, folder)
        return {
            "minutes_real": minutes,
            "faults": dict(Counter(kind for kind, _, _ in faults)),
            "starts": service.n_starts,
            **found,
            **_page(runs, browser),
            **_memory(watch.weights),
        }


class _Watch(ExitStack):
    """Weighs the program each ten seconds."""

    def __init__(self, service: Service) -> None:
        super().__init__()
        self._service = service
        self._ended = threading.Event()
        self.weights: list[Weight] = []

    def __enter__(self) -> _Watch:
        thread = threading.Thread(target=self._weigh, name="watch", daemon=True)
        thread.start()
        self.callback(thread.join)
        self.callback(self._ended.set)
        return self

    def _weigh(self) -> None:
        while not self._ended.wait(10.0):
            weight = self._service.weigh()
            if weight is not None:
                self.weights.append(weight)


def _free_port() -> int:
    with listen("127.0.0.1", 0, "a free port", "try again") as listener:
        port: int = listener.getsockname()[1]
        return port


def _faults(
    minutes: int, sound: Sound, service: Service, browser: Browser
) -> list[tuple[str, float, float]]:
    """One in each minute, and when each was."""

    def away() -> None:
        sound.close()
        time.sleep(_AWAY_S)
        sound.open()
        time.sleep(2 * _AWAY_S)  # until it is opened again

    def stop() -> None:
        service.stop(_STOPPED_S)
        time.sleep(10.0)

    kinds: list[tuple[str, Callable[[], None]]] = [
        ("microphone away", away),
        ("disk full", lambda: service.fill_disk(_FULL_S)),
        ("page reloaded", browser.reload),
        ("stopped", stop),
    ]
    harmless, done = {"disk full", "page reloaded"}, []
    begin_s = time.monotonic()
    for minute in range(minutes):
        time.sleep(max(0.0, begin_s + 60 * minute + _CALM_S - time.monotonic()))
        name, cause = kinds[minute % len(kinds)]
        if minute % _KILL_EACH == _FIRST_KILL:
            name, cause = "killed", service.kill
        at_s = time.time()
        cause()
        done.append((name, at_s, at_s if name in harmless else time.time()))
        logger.info("minute %d: %s", minute, name)
    time.sleep(max(0.0, begin_s + 60 * minutes - time.monotonic()))
    return done


def _found(
    runs: list[Run],
    faults: list[tuple[str, float, float]],
    played: list[Played],
    model: str,
    folder: Path,
) -> dict[str, Any]:
    """Against the guarantees, and against what was played while no fault took its sound away."""
    taking = [fault for fault in faults if fault[1] < fault[2]]
    calm = undisturbed(played, taking)
    heard = [heard_in(runs, clip.start_s, clip.end_s) for clip in calm]
    reference = " ".join(clip.text for clip in calm)
    return {
        "violations": [
            breach for run in runs for breach in run.breaches(killed=run is not runs[-1])
        ],
        "doubled": overlaps(runs, taking),
        "clips": len(played),
        "clips_undisturbed": len(calm),
        "clips_not_heard": [clip.text for clip, text in zip(calm, heard, strict=True) if not text],
        "wer": percent_wrong(reference, " ".join(heard)),
        "wer_as_file": percent_wrong(reference, _as_file(calm, folder, model)),
        "segments": sum(len(run.completed) for run in runs),
        "subtitles_differ": int(cues_of(folder) != texts_of(runs)),
        "recorded_s": round(recorded_s(folder), 1),
        "away": sum(line["event"] == "away" for run in runs for line in run.lines),
        "lost": sum(line["event"] == "lost" for run in runs for line in run.lines),
    }


def _as_file(clips: list[Played], folder: Path, model: str) -> str:
    """What is heard of the same clips where nothing happens."""
    pause = np.zeros(2 * SAMPLE_RATE_HZ, np.float32)
    sound = [part for clip in clips for part in (load_audio(clip.path), pause)]
    path = folder / "same.wav"
    soundfile.write(path, np.concatenate(sound), SAMPLE_RATE_HZ)
    return captioned(path, model, CaptionOptions(min_partial_s=PARTIAL_S))


def _page(runs: list[Run], browser: Browser) -> dict[str, Any]:
    """What the page showed, against what was written; runs have their ids for themselves."""
    written = [{line["segment_id"]: line["text"] for line in run.completed} for run in runs]
    shown = list(browser.runs.values())
    return {
        "page_visits": browser.n_visits,
        "page_lost": sum(
            len(texts.keys() - seen.keys()) for texts, seen in zip(written, shown, strict=False)
        ),
        "page_doubled": len(browser.twice),
        "page_not_written": sum(
            seen[index] != texts.get(index)
            for texts, seen in zip(written, shown, strict=False)
            for index in seen
        ),
    }


def _memory(weights: list[Weight]) -> dict[str, Any]:
    """Of the oldest process: medians of each five minutes, and how much it grows after ten."""
    oldest = max(weights, key=lambda weight: weight.age_s).run if weights else 0
    own = [weight for weight in weights if weight.run == oldest]
    late = [weight for weight in own if weight.age_s >= _FLAT_FROM_S]
    slope = (
        float(np.polyfit([w.age_s / 60 for w in late], [w.rss_mib for w in late], 1)[0])
        if len(late) > 2
        else None
    )
    return {
        "memory_mib": [
            round(float(np.median([w.rss_mib for w in own if w.age_s // 300 == part])), 1)
            for part in sorted({w.age_s // 300 for w in own})
        ],
        "memory_mib_per_minute_after_ten": slope,
        "descriptors": max((w.n_descriptors for w in own), default=0),
        "threads_of_process": max((w.n_threads for w in own), default=0),
    }
