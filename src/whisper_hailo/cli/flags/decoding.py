"""Options of decoding: language, cures, search, gates, times and prompts together."""

from __future__ import annotations

from dataclasses import dataclass

from whisper_hailo.cli.flags.cures import CureFlags
from whisper_hailo.cli.flags.gates import GateFlags
from whisper_hailo.cli.flags.language import RecordingLanguageFlags
from whisper_hailo.cli.flags.prompts import PromptFlags
from whisper_hailo.cli.flags.search import SearchFlags
from whisper_hailo.cli.flags.times import TimeFlags
from whisper_hailo.decoding.options import Cures, DecodingOptions


@dataclass(frozen=True, slots=True)
class DecodingFlags:
    """All groups of decoding together."""

    language: RecordingLanguageFlags
    cures: CureFlags
    search: SearchFlags
    gates: GateFlags
    times: TimeFlags
    prompts: PromptFlags

    def options(self, start: Cures, *, timestamps: bool, fallback: float) -> DecodingOptions:
        """Decoding options.

        Args:
            start: the decoder's default cures.
            timestamps: whether the model writes times where the user did not say, nor asked for
                what needs them.
            fallback: the decoder's default step of temperature for doubtful text.

        Raises:
            OptionError: a value out of range.
        """
        asked = self.times.timestamps
        timestamps = timestamps or self.times.hallucination_silence is not None
        return DecodingOptions(
            language=self.language.language,
            task=self.language.task,
            cures=self.cures.cures(start),
            max_new_tokens=self.cures.max_new_tokens,
            timestamps=timestamps if asked is None else asked,
            max_initial_timestamp_s=self.times.max_initial_timestamp,
            detect_each_window=self.language.detect_each_window,
            search=self.search.search(fallback),
            gates=self.gates.gates(),
            limits=self.cures.limits(),
            prompts=self.prompts.prompts(),
            words=self.times.words(),
        )
