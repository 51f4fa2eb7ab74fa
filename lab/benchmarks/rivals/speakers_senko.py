"""Who spoke when, by senko on the processor: AUDIO..., a line of JSON each."""

import contextlib
import json
import resource
import sys
import time
from pathlib import Path

import senko
import soundfile


def main() -> None:
    with contextlib.redirect_stdout(sys.stderr):
        diarizer = senko.Diarizer(device="cpu", warmup=False, quiet=True)
    for path in sys.argv[1:]:
        info = soundfile.info(path)
        start_s = time.process_time()
        with contextlib.redirect_stdout(sys.stderr):
            found = diarizer.diarize(path, generate_colors=False)
        taken_s = time.process_time() - start_s
        segments = found["merged_segments"] if found else []
        result = {
            "name": Path(path).stem,
            "turns": [
                [item["start"], item["end"], str(item["speaker"])] for item in segments
            ],
            "audio_s": info.frames / info.samplerate,
            "processor_s": taken_s,
            "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        }
        print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
