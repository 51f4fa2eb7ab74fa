"""Optimum's ONNX export of a Whisper checkpoint: `python write_optimum.py CHECKPOINT OUT`.

Runs in an environment of its own (`lab/requirements/optimum.txt`), whose Transformers is older.
"""

from __future__ import annotations

import sys

from optimum.exporters.onnx import main_export


def main() -> None:
    main_export(
        sys.argv[1],
        output=sys.argv[2],
        task="automatic-speech-recognition-with-past",
        device="cpu",
        library_name="transformers",
    )


if __name__ == "__main__":
    main()
