"""festival as a process that stays: Scheme commands in, a WAV file and word times out."""

import subprocess
import tempfile
from pathlib import Path

import soundfile

from lab.training.engines.sound import Sound, matched
from lab.training.voices import Voice

_DONE = "sentence done"
_SETUP = """
(define (speak_into text file)
  (let ((utt (utt.synth (eval (list 'Utterance 'Text text)))))
    (utt.save.wave utt file 'riff)
    (mapcar
     (lambda (word)
       (format t "word %s %f %f\\n" (item.name word)
               (item.feat word "word_start") (item.feat word "word_end")))
     (utt.relation.items utt 'Word))
    (format t "sentence done\\n")
    (fflush nil)))
"""


class Festival:
    """One running festival."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            ["festival", "--pipe"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self._folder = tempfile.TemporaryDirectory(prefix="festival-")
        self._voice = ""
        self._send(_SETUP)

    def _send(self, command: str) -> None:
        if self._process.stdin is None:
            raise RuntimeError("festival has no input")
        self._process.stdin.write(command + "\n")
        self._process.stdin.flush()

    def speak(self, text: str, voice: Voice) -> Sound:
        """Speaks one sentence; festival has no pitch of its own here."""
        if voice.name != self._voice:
            self._send(f"(voice_{voice.name})")
            self._voice = voice.name
        self._send(f"(Parameter.set 'Duration_Stretch {1 / voice.rate:.3f})")
        file = Path(self._folder.name) / "spoken.wav"
        said = text.replace("\\", "").replace('"', "")
        self._send(f'(speak_into "{said}" "{file}")')
        words = self._answer(voice)
        samples, rate_hz = soundfile.read(file, dtype="int16")
        return Sound(samples, rate_hz, matched(text, words))

    def _answer(self, voice: Voice) -> list[tuple[str, float, float]]:
        words: list[tuple[str, float, float]] = []
        for line in self._process.stdout or ():
            if line.strip() == _DONE:
                return words
            kind, *rest = line.split()[:4] or [""]
            if kind == "word" and len(rest) == 3:
                words.append((rest[0], float(rest[1]), float(rest[2])))
        raise RuntimeError(f"festival ended; is its voice {voice.name} installed?")

    def close(self) -> None:
        """Ends the process."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        if self._process.stdout is not None:
            self._process.stdout.close()
        self._process.wait()
        self._folder.cleanup()

    def __del__(self) -> None:
        """Ends the process with its owner."""
        if self._process.poll() is None:
            self.close()
