"""Recordings with their reference texts: folders, LibriSpeech's layout, JSONL manifests.

Nothing is dropped: a recording without a text, a text without a recording and an unreadable line
become problems, which an evaluation reports and counts as failed files.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from whisper_hailo.audio import AUDIO_SUFFIXES
from whisper_hailo.core.atomic_files import write_file
from whisper_hailo.core.errors import AudioError, OptionError, OutputError, display_path
from whisper_hailo.core.paths import is_hidden, list_files
from whisper_hailo.core.read_files import read_text, split_json_lines

TRANSCRIPTS: Final = "*.trans.txt"
"""LibriSpeech's transcript files: one line per utterance, its id first."""

_NOT_REFERENCES: Final = frozenset(
    {"readme", "license", "speakers", "chapters", "books"}
)
"""Names of text files that belong to no recording."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One recording with its text.

    Attributes:
        id: unique in its dataset: path without suffix, or LibriSpeech's utterance id.
        audio: path of the recording.
        reference: raw text; empty for recordings without speech.
        language: language code such as `en`.
    """

    id: str
    audio: Path
    reference: str
    language: str = "en"


@dataclass(frozen=True, slots=True)
class Problem:
    """A file of a dataset that cannot be used, and why."""

    id: str
    message: str


@dataclass(frozen=True, slots=True)
class Dataset:
    """The samples of one folder or manifest, in the order of their ids.

    Attributes:
        name: last part of the path.
        path: folder or manifest.
        samples: recordings that can be transcribed.
        problems: files that cannot be used.
    """

    name: str
    path: Path
    samples: tuple[Sample, ...]
    problems: tuple[Problem, ...] = ()

    @property
    def sha256(self) -> str:
        """Hash of ids, references and file sizes, equal for runs on the same data."""
        digest = hashlib.sha256()
        for sample in self.samples:
            size = sample.audio.stat().st_size if sample.audio.is_file() else -1
            line = f"{sample.id}\0{size}\0{sample.reference}\0{sample.language}\n"
            digest.update(line.encode("utf-8", "surrogateescape"))
        return digest.hexdigest()

    def sample(self, count: int | None, seed: int = 0) -> Dataset:
        """Return a dataset of some samples drawn by a seed, in the order of their ids.

        Args:
            count: number of samples, at most; `None` keeps all.
            seed: the same seed draws the same samples.

        Raises:
            OptionError: the count is not positive.
        """
        if count is not None and count < 1:
            raise OptionError(f"{count} files requested, expected 1 or more")
        if count is None or count >= len(self.samples):
            return self
        indices = np.random.default_rng(seed).choice(
            len(self.samples), count, replace=False
        )
        return replace(
            self, samples=tuple(self.samples[index] for index in sorted(indices))
        )


def read_dataset(path: Path, language: str = "en") -> Dataset:
    """Read a folder, a LibriSpeech tree or a JSONL manifest.

    Args:
        path: a folder of `<id>.wav|mp3|flac|ogg` and `<id>.txt`, searched below, too; a folder with
            `*.trans.txt` files; or a `.jsonl` file with `audio` (or `audio_filepath`), `text` (or
            `reference`) and perhaps `id` and `language` per line, paths relative to it.
        language: language of samples that do not name theirs.

    Raises:
        AudioError: no such folder or file, or nothing in it.
    """
    if path.is_file():
        items = list(_read_manifest(path, language))
    elif path.is_dir():
        items = list(_read_below(path, language))
    else:
        raise AudioError(
            f"{display_path(path)} is neither a folder nor a manifest; give a folder of <id>.wav "
            "and <id>.txt, a LibriSpeech folder, or a .jsonl manifest"
        )
    if not items:
        raise AudioError(
            f"{display_path(path)} holds no recordings ({' '.join(AUDIO_SUFFIXES)}); give a folder "
            "with them and a .txt of the same name beside each"
        )
    samples: dict[str, Sample] = {}
    problems = []
    for item in items:
        if isinstance(item, Problem):
            problems.append(item)
        elif item.id in samples:
            problems.append(Problem(item.id, "the id occurs twice in the dataset"))
        else:
            samples[item.id] = item
    return Dataset(
        name=path.resolve().name.removesuffix(".jsonl"),
        path=path,
        samples=tuple(samples[key] for key in sorted(samples)),
        problems=tuple(sorted(problems, key=lambda problem: problem.id)),
    )


def _read_below(folder: Path, language: str) -> Iterator[Sample | Problem]:
    """Yield the samples of a folder of either layout, and problems of unreadable folders."""
    problems: list[Problem] = []

    def add_problem(path: Path, reason: str) -> None:
        message = f"{display_path(path)} cannot be read ({reason})"
        problems.append(Problem(_make_id(path, folder), message))

    files = list_files(folder, add_problem)
    yield from problems
    transcripts = [path for path in files if path.match(TRANSCRIPTS)]
    if transcripts:
        yield from _read_librispeech(transcripts, language)
    else:
        yield from _read_pairs(folder, list(_visible_files(files, folder)), language)


def _read_pairs(
    folder: Path, files: list[Path], language: str
) -> Iterator[Sample | Problem]:
    """Yield recordings that have a text file of the same name, and problems of the others."""
    recordings = {}
    texts = {}
    for path in files:
        suffix = path.suffix.lower()
        if suffix in AUDIO_SUFFIXES:
            recordings[_make_id(path, folder)] = path
        elif suffix == ".txt":
            texts[_make_id(path, folder)] = path
    for key, audio in recordings.items():
        if key not in texts:
            yield Problem(
                key, f"{display_path(audio)} has no text {audio.stem}.txt beside it"
            )
            continue
        text = _read_text(texts[key])
        if isinstance(text, str):
            yield Sample(key, audio, text.strip(), language)
        else:
            yield Problem(key, f"{display_path(texts[key])} cannot be read ({text})")
    for key in texts.keys() - recordings.keys():
        if recordings and Path(key).name.lower() not in _NOT_REFERENCES:
            yield Problem(key, f"{display_path(texts[key])} has no recording beside it")


def _read_librispeech(
    transcripts: list[Path], language: str
) -> Iterator[Sample | Problem]:
    """Yield the utterances of transcript files, each with the recording in the same folder."""
    for transcript in transcripts:
        text = _read_text(transcript)
        if not isinstance(text, str):
            yield Problem(
                transcript.name, f"{display_path(transcript)} cannot be read ({text})"
            )
            continue
        keys = set()
        for line in text.splitlines():
            key, _, words = line.strip().partition(" ")
            if not key:
                continue
            keys.add(key)
            audio = _find_recording(transcript.parent, key)
            if audio is None:
                yield Problem(
                    key,
                    f"{display_path(transcript)} names {key}, which has no recording beside it",
                )
            else:
                yield Sample(key, audio, words.strip(), language)
        for path in _visible_files(
            sorted(transcript.parent.iterdir()), transcript.parent
        ):
            if path.suffix.lower() in AUDIO_SUFFIXES and path.stem not in keys:
                yield Problem(
                    path.stem, f"{display_path(path)} has no line in {transcript.name}"
                )


def _read_manifest(path: Path, language: str) -> Iterator[Sample | Problem]:
    """Yield the samples of a manifest, a JSON object per line as several toolkits write them."""
    text = _read_text(path)
    if not isinstance(text, str):
        raise AudioError(
            f"{display_path(path)} cannot be read ({text}); give a JSONL manifest in UTF-8"
        )
    for number, line in enumerate(split_json_lines(text), 1):
        if line.strip():
            yield _read_manifest_line(path, number, line, language)


def _read_manifest_line(
    path: Path, number: int, line: str, language: str
) -> Sample | Problem:
    location = f"{path.name}:{number}"
    try:
        raw: dict[str, Any] = json.loads(line)
        audio = raw.get("audio") or raw.get("audio_filepath")
        text = raw.get("text", raw.get("reference"))
    except (ValueError, AttributeError, RecursionError) as error:
        return Problem(location, f"{location} is not a JSON object ({error})")
    if not isinstance(audio, str) or not isinstance(text, str):
        return Problem(location, f"{location} needs text values for 'audio' and 'text'")
    file = path.parent / audio
    key = str(raw.get("id") or Path(audio).with_suffix("").as_posix())
    if not file.is_file():
        return Problem(
            key, f"{location} names {display_path(audio)}, which does not exist"
        )
    return Sample(key, file, text.strip(), str(raw.get("language") or language))


def _find_recording(folder: Path, stem: str) -> Path | None:
    paths = (folder / f"{stem}{suffix}" for suffix in AUDIO_SUFFIXES)
    return next((path for path in paths if path.is_file()), None)


def _visible_files(paths: Iterable[Path], folder: Path) -> Iterator[Path]:
    """Yield the files whose path below a folder has no hidden part."""
    for path in paths:
        if os.path.isfile(path) and not is_hidden(path, folder):
            yield path


def _make_id(path: Path, folder: Path) -> str:
    """Return the path below a folder without its suffix."""
    return path.relative_to(folder).with_suffix("").as_posix()


def reference_beside(audio: Path) -> str | None:
    """Return the text of the `.txt` file beside a recording, if there is one.

    Raises:
        AudioError: the file cannot be read.
    """
    path = audio.with_suffix(".txt")
    if not os.path.isfile(path):
        return None
    text = _read_text(path)
    if not isinstance(text, str):
        raise AudioError(
            f"{display_path(path)} cannot be read ({text}); write the words in UTF-8"
        )
    return text


def _read_text(path: Path) -> str | Exception:
    """Return the text of a file, or the error of reading it."""
    try:
        return read_text(path)
    except (OSError, ValueError) as error:
        return error


STUDY_COUNT: Final = 24
"""Samples of LibriSpeech in the study; it does not say which ones."""

RECEIPT: Final = "prepared.json"
"""File in a prepared folder that says where its samples come from."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """A prepared folder.

    Attributes:
        folder: the new folder.
        ids: ids of the drawn samples, in order.
        n_available: samples of the source.
        n_problems: files of the source that could not be used.
    """

    folder: Path
    ids: tuple[str, ...]
    n_available: int
    n_problems: int


def prepare_dataset(
    source: Path,
    out: Path,
    *,
    count: int | None = STUDY_COUNT,
    seed: int = 0,
    language: str = "en",
) -> Prepared:
    """Draw samples by a seed and write them as a flat folder.

    Args:
        source: folder or manifest for `read_dataset`, such as LibriSpeech's `dev-clean`.
        out: folder to make; it must not exist, or be empty.
        count: samples to draw; `None` takes all.
        seed: the same seed draws the same samples.
        language: language, noted in `prepared.json`.

    Raises:
        OptionError: `out` is not empty, or two ids would get the same file name.
        OutputError: `out` cannot be written.
    """
    dataset = read_dataset(source, language)
    drawn = dataset.sample(count, seed)
    names = [_file_name(sample) for sample in drawn.samples]
    if len(set(names)) < len(names):
        raise OptionError(f"{source} has ids that differ only in '/'; rename its files")
    try:
        if out.exists() and any(out.iterdir()):
            raise OptionError(f"{display_path(out)} is not empty; give a new folder")
        out.mkdir(parents=True, exist_ok=True)
        for name, sample in zip(names, drawn.samples, strict=True):
            shutil.copyfile(sample.audio, out / f"{name}{sample.audio.suffix.lower()}")
            write_file(out / f"{name}.txt", sample.reference + "\n")
    except OSError as error:
        raise OutputError(
            f"cannot write {display_path(out)} ({error.strerror}); free some space or give another "
            "folder"
        ) from error
    write_file(out / RECEIPT, _make_receipt(dataset, drawn, seed, language))
    return Prepared(
        folder=out,
        ids=tuple(sample.id for sample in drawn.samples),
        n_available=len(dataset.samples),
        n_problems=len(dataset.problems),
    )


def _make_receipt(dataset: Dataset, drawn: Dataset, seed: int, language: str) -> str:
    facts = {
        "source": dataset.name,
        "source_sha256": dataset.sha256,
        "available": len(dataset.samples),
        "seed": seed,
        "language": language,
        "ids": [sample.id for sample in drawn.samples],
    }
    return json.dumps(facts, indent=2) + "\n"


def _file_name(sample: Sample) -> str:
    return sample.id.replace("/", "-")
