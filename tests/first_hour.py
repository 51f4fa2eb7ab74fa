"""What users of four other Whisper programs type first, and what comes of it here.

Twenty tasks a program: task, words typed, result. `text` prints the text; `writes NAMES` writes
these files.
"""

from __future__ import annotations

from typing import Final, TypeAlias

Task: TypeAlias = tuple[str, str, str]

FIRST_HOUR: Final[dict[str, tuple[Task, ...]]] = {
    "openai-whisper": (
        ("1. text of a recording", "talk.flac", "text"),
        (
            "2. subtitles into a folder",
            "talk.flac --output_format srt --output_dir out",
            "writes talk.srt",
        ),
        (
            "3. all formats",
            "talk.flac --output_format all -o out",
            "writes talk.json, talk.srt, talk.tsv, talk.txt, talk.vtt",
        ),
        ("4. name the language", "talk.ogg --language German", "text"),
        ("5. let it be found out", "talk.ogg", "text"),
        (
            "6. translate to English",
            "talk.ogg --task translate --language German",
            "text",
        ),
        (
            "7. times of words",
            "talk.flac --word_timestamps True --output_format json",
            "writes talk.json",
        ),
        ("8. a beam of 5", "talk.flac --beam_size 5", "text"),
        (
            "9. no second tries",
            "talk.flac --temperature 0 --temperature_increment_on_fallback None",
            "text",
        ),
        ("10. names to expect", "talk.flac --initial_prompt 'Oliver, Vienna'", "text"),
        ("11. leave out silence", "talk.flac --no_speech_threshold 0.5", "text"),
        ("12. 8 bits", "talk.flac --fp16 False", "text"),
        ("13. exact weights", "talk.flac --fp16 False", "text"),
        ("14. two threads", "talk.flac --threads 2", "text"),
        ("15. several recordings", "talk.flac talk.ogg", "text"),
        ("16. times on the terminal", "talk.flac --verbose True", "text"),
        ("17. a stretch of it", "talk.flac --clip_timestamps 8,15", "text"),
        (
            "18. each window sees the text before",
            "talk.flac --condition_on_previous_text True",
            "text",
        ),
        ("19. batches", "talk.flac", "text"),
        ("20. only text, nothing else", "talk.flac --verbose False", "text"),
    ),
    "whisper-ctranslate2": (
        ("1. text of a recording", "talk.flac", "text"),
        ("2. subtitles into a folder", "talk.flac -f srt -o out", "writes talk.srt"),
        (
            "3. all formats",
            "talk.flac --output_format all --output_dir out",
            "writes talk.json, talk.srt, talk.tsv, talk.txt, talk.vtt",
        ),
        ("4. name the language", "talk.ogg --language de", "text"),
        ("5. let it be found out", "talk.ogg", "text"),
        ("6. translate to English", "talk.ogg --task translate --language de", "text"),
        ("7. times of words", "talk.flac --word_timestamps True -f json", "text"),
        ("8. a beam of 5", "talk.flac --beam_size 5", "text"),
        (
            "9. no second tries",
            "talk.flac --temperature_increment_on_fallback None",
            "text",
        ),
        ("10. names to expect", "talk.flac --hotwords 'Oliver Vienna'", "text"),
        ("11. leave out silence", "talk.flac --vad_filter True", "text"),
        ("12. 8 bits", "talk.flac --compute_type int8", "text"),
        ("13. exact weights", "talk.flac --compute_type float32", "text"),
        ("14. two threads", "talk.flac --threads 2", "text"),
        (
            "15. several recordings",
            "talk.flac talk.ogg -o out",
            "writes talk.ogg.txt, talk.txt",
        ),
        ("16. times on the terminal", "talk.flac --print_colors True", "text"),
        ("17. a stretch of it", "talk.flac --clip_timestamps 8,15", "text"),
        (
            "18. each window sees the text before",
            "talk.flac --condition_on_previous_text True",
            "text",
        ),
        ("19. batches", "talk.flac --batched True", "text"),
        ("20. only text, nothing else", "talk.flac --verbose False", "text"),
    ),
    "whisper.cpp": (
        ("1. text of a recording", "-f talk.flac", "text"),
        ("2. subtitles into a folder", "-osrt talk.flac", "writes talk.srt"),
        (
            "3. all formats",
            "-otxt -osrt -oj talk.flac",
            "writes talk.json, talk.srt, talk.txt",
        ),
        ("4. name the language", "talk.ogg -l de", "text"),
        ("5. let it be found out", "talk.ogg -l auto", "text"),
        ("6. translate to English", "talk.ogg -tr -l de", "text"),
        ("7. times of words", "talk.flac -ml 1 -f srt", "text"),
        ("8. a beam of 5", "talk.flac -bs 5", "text"),
        ("9. no second tries", "talk.flac -nf", "text"),
        ("10. names to expect", "talk.flac --prompt 'Oliver, Vienna'", "text"),
        ("11. leave out silence", "talk.flac --vad", "text"),
        ("12. 8 bits", "talk.flac", "text"),
        ("13. exact weights", "talk.flac --no-gpu", "text"),
        ("14. two threads", "talk.flac -t 2", "text"),
        ("15. several recordings", "talk.flac talk.ogg", "text"),
        ("16. times on the terminal", "talk.flac --timestamps", "text"),
        ("17. a stretch of it", "talk.flac --clip-timestamps 8", "text"),
        ("18. each window sees the text before", "talk.flac -mc -1", "text"),
        ("19. batches", "talk.flac -p 1", "text"),
        ("20. only text, nothing else", "talk.flac -np -nt", "text"),
    ),
    "faster-whisper": (
        (
            "1. text of a recording",
            '`from_model("micro")`, `transcribe("talk.flac")`',
            "text",
        ),
        (
            "2. subtitles into a folder",
            '`from_model("micro")`, `transcribe("talk.flac", without_timestamps=False)`',
            "text",
        ),
        (
            "3. all formats",
            '`from_model("micro")`, `transcribe("talk.flac", timestamps=True)`',
            "text",
        ),
        (
            "4. name the language",
            '`from_model("micro")`, `transcribe("talk.ogg", language="de")`',
            "text",
        ),
        (
            "5. let it be found out",
            '`from_model("micro")`, `transcribe("talk.ogg")`',
            "text",
        ),
        (
            "6. translate to English",
            '`from_model("micro")`, `transcribe("talk.ogg", task="translate")`',
            "text",
        ),
        (
            "7. times of words",
            '`from_model("micro")`, `transcribe("talk.flac", word_timestamps=True)`',
            "text",
        ),
        (
            "8. a beam of 5",
            '`from_model("micro")`, `transcribe("talk.flac", beam_size=5)`',
            "text",
        ),
        (
            "9. no second tries",
            '`from_model("micro")`, `transcribe("talk.flac", temperature=0)`',
            "text",
        ),
        (
            "10. names to expect",
            '`from_model("micro")`, `transcribe("talk.flac", hotwords="Oliver Vienna")`',
            "text",
        ),
        (
            "11. leave out silence",
            '`from_model("micro")`, `transcribe("talk.flac", vad_filter=True)`',
            "text",
        ),
        (
            "12. 8 bits",
            '`from_model("micro", compute_type="int8")`, `transcribe("talk.flac")`',
            "text",
        ),
        (
            "13. exact weights",
            '`from_model("micro", compute_type="float32")`, `transcribe("talk.flac")`',
            "text",
        ),
        (
            "14. two threads",
            '`from_model("micro", cpu_threads=2)`, `transcribe("talk.flac")`',
            "text",
        ),
        (
            "15. several recordings",
            '`from_model("micro")`, `transcribe("talk.flac")`, `transcribe("talk.ogg")`',
            "text",
        ),
        (
            "16. times on the terminal",
            '`from_model("micro")`, `transcribe("talk.flac", log_progress=True)`',
            "text",
        ),
        (
            "17. a stretch of it",
            '`from_model("micro")`, `transcribe("talk.flac", clip_timestamps=[8, 15])`',
            "text",
        ),
        (
            "18. each window sees the text before",
            '`from_model("micro")`, `transcribe("talk.flac", condition_on_previous_text=True)`',
            "text",
        ),
        (
            "19. batches",
            '`from_model("micro")`, `transcribe("talk.flac", batch_size=8)`',
            "text",
        ),
        (
            "20. only text, nothing else",
            '`from_model("micro")`, `transcribe("talk.flac")`',
            "text",
        ),
    ),
}
