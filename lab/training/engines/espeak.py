"""espeak-ng through its library (`speak_lib.h`), whose events tell where each word starts."""

import ctypes
from ctypes import POINTER, c_int, c_int64, c_short, c_uint, c_void_p

import numpy as np

from lab.training.engines.sound import Sound, Word
from lab.training.voices import Voice

# Values of speak_lib.h.
_SYNCHRONOUS = 2
_POSITION_CHARACTER = 1
_UTF8 = 1
_RATE = 1
_PITCH = 3
_EVENT_LAST = 0
_EVENT_WORD = 1
_EVENT_END = 5
WORDS_PER_MINUTE = 175


class _Event(ctypes.Structure):
    """`espeak_EVENT`; positions in text count characters from 1."""

    _fields_ = (
        ("type", c_int),
        ("unique_identifier", c_uint),
        ("text_position", c_int),
        ("length", c_int),
        ("audio_position", c_int),
        ("sample", c_int),
        ("user_data", c_void_p),
        ("id", c_int64),
    )


_Callback = ctypes.CFUNCTYPE(c_int, POINTER(c_short), c_int, POINTER(_Event))


class Espeak:
    """The library, of which a process has one."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL("libespeak-ng.so.1")
        self._rate_hz = self._library.espeak_Initialize(_SYNCHRONOUS, 0, None, 0)
        if self._rate_hz <= 0:
            raise RuntimeError("espeak-ng found no data")
        self._chunks: list[np.ndarray] = []
        self._events: list[tuple[int, int, int]] = []
        self._callback = _Callback(self._take)
        self._library.espeak_SetSynthCallback(self._callback)

    def _take(
        self,
        samples: "ctypes._Pointer[c_short]",
        n_samples: int,
        events: "ctypes._Pointer[_Event]",
    ) -> int:
        """Keeps what the library hands out while it speaks."""
        number = 0
        while events[number].type != _EVENT_LAST:
            event = events[number]
            self._events.append((event.type, event.text_position, event.sample))
            number += 1
        if n_samples > 0:
            self._chunks.append(np.ctypeslib.as_array(samples, (n_samples,)).copy())
        return 0

    def speak(self, text: str, voice: Voice) -> Sound:
        """Speaks one sentence; a word ends where the next starts, or its clause ends."""
        self._chunks = []
        self._events = []
        if self._library.espeak_SetVoiceByName(voice.name.encode()) != 0:
            raise RuntimeError(f"espeak-ng has no voice {voice.name!r}")
        self._library.espeak_SetParameter(
            _RATE, round(WORDS_PER_MINUTE * voice.rate), 0
        )
        self._library.espeak_SetParameter(_PITCH, voice.pitch, 0)
        data = text.encode() + b"\0"
        self._library.espeak_Synth(
            data, len(data), 0, _POSITION_CHARACTER, 0, _UTF8, None, None
        )
        samples = np.concatenate(self._chunks or [np.zeros(0, np.int16)])
        return Sound(samples, self._rate_hz, self._words(text))

    def _words(self, text: str) -> tuple[Word, ...]:
        """Returns the words with their times; none if the text's first word had no event.

        espeak-ng speaks some words as one (`in the`): they share its time by their letters.
        """
        groups: list[tuple[list[str], int]] = []
        at = 0
        for written in text.split():
            first = text.index(written, at) + 1
            at = first - 1 + len(written)
            inside = [
                k
                for k, (kind, position, _) in enumerate(self._events)
                if kind == _EVENT_WORD and first <= position <= at
            ]
            if inside:
                groups.append(([written], inside[0]))
            elif groups:
                groups[-1][0].append(written)
            else:
                return ()
        words: list[Word] = []
        for number, (together, event) in enumerate(groups):
            limit = (
                groups[number + 1][1] if number + 1 < len(groups) else len(self._events)
            )
            later = self._events[event + 1 : limit + 1]
            ends = [k for kind, _, k in later if kind == _EVENT_END] or [
                k for *_, k in later[-1:]
            ]
            if not ends:
                return ()
            start_s = self._events[event][2] / self._rate_hz
            end_s = ends[0] / self._rate_hz
            words += shared(together, start_s, end_s)
        return tuple(words)


def shared(together: list[str], start_s: float, end_s: float) -> list[Word]:
    """Returns words spoken as one, each with a part of the time by its number of letters."""
    bounds = np.cumsum([0, *map(len, together)]) / sum(map(len, together))
    times = [float(start_s + part * (end_s - start_s)) for part in bounds]
    return [Word(word, times[k], times[k + 1]) for k, word in enumerate(together)]
