"""What an archive costs with `batch`, and with the batched pipelines of other programs.

    python -m whisper_hailo_lab.experiments.archive_peers [--model base] [--rounds 2] [--keep]

Sixty short recordings and the four longest, in turns, each program with one thread and the same
checkpoint. The operating system counts the processor time of a program and its children; that of
starting it and loading its model, known from a run with one recording, is taken off.
`make lab NAME=rivals` makes the environments of the others. A run that is interrupted resumes.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any, Final, Literal, TypeAlias

from whisper_hailo.cli.streams import emit
from whisper_hailo.core.errors import WhisperHailoError
from whisper_hailo_lab.data.speech import (
    LONG_S,
    SpeechRecording,
    interleave_sets,
    read_speech,
    speech_folder,
)
from whisper_hailo_lab.documents.archive_peers import RESULT
from whisper_hailo_lab.documents.pages import write_documents
from whisper_hailo_lab.formats.prepare import prepare_artefact
from whisper_hailo_lab.program import first_line, run_program
from whisper_hailo_lab.repository import BUILD
from whisper_hailo_lab.runs.machine import this_machine
from whisper_hailo_lab.runs.outcomes import sum_outcomes
from whisper_hailo_lab.runs.results import write_result
from whisper_hailo_lab.runs.transcripts import TranscriptLine
from whisper_hailo_lab.systems.process import (
    find_interpreter,
    find_script,
    make_environment,
    require_interpreter,
)

logger = logging.getLogger(__name__)

N_SHORT: Final = 60
N_LONG: Final = 4

Group: TypeAlias = Literal["start", "short", "long"]
GROUPS: Final[tuple[Group, ...]] = ("start", "short", "long")


@dataclass(frozen=True, slots=True)
class Peer:
    """A program with its options.

    Attributes:
        label: name in the table.
        system: name of its environment and its weights; `ours` is `batch`.
        beam: hypotheses of the beam search.
    """

    label: str
    system: str
    beam: int = 1


PEERS: Final = (
    Peer("`whisper-hailo batch`, int8", "ours"),
    Peer("faster-whisper `BatchedInferencePipeline`, int8, beam 5", "faster-whisper", 5),
    Peer("Transformers' pipeline as in insanely-fast-whisper, float32", "transformers"),
    Peer("faster-whisper `BatchedInferencePipeline`, int8, beam 1", "faster-whisper"),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class PeerRun:
    """One run of a program over a group of recordings.

    Attributes:
        cpu_s: processor seconds of the program and its children.
        peak_mib: most memory of one of them.
        texts: by the key of a recording.
    """

    round: int
    label: str
    group: str
    cpu_s: float
    peak_mib: float
    texts: dict[str, str]


def choose_recordings(
    recordings: Sequence[SpeechRecording],
) -> dict[Group, list[SpeechRecording]]:
    """Return the recordings of each group; short ones are in turns over sets and languages."""
    spoken = [recording for recording in recordings if recording.has_speech]
    short = [
        recording
        for recording in interleave_sets(spoken)
        if recording.seconds <= LONG_S
    ]
    by_length = sorted(spoken, key=lambda recording: -recording.seconds)
    return {
        "start": short[:1],
        "short": short[:N_SHORT],
        "long": by_length[:N_LONG],
    }


def write_manifest(path: Path, recordings: Sequence[SpeechRecording]) -> None:
    """Write recordings as JSON lines of `audio` and `id`."""
    lines = [
        json.dumps({"audio": str(recording.paths[0]), "id": recording.key}) + "\n"
        for recording in recordings
    ]
    path.write_text("".join(lines), encoding="utf-8")


class PeerRunner:
    """Runs programs over lists of recordings.

    Args:
        model: name of the checkpoint.
        folder: of the runs that are done, `runs.jsonl`, and of scratch files.
    """

    def __init__(self, model: str, folder: Path) -> None:
        self._model = model
        self._folder = folder
        self._path = folder / "runs.jsonl"
        folder.mkdir(parents=True, exist_ok=True)

    def read_runs(self) -> list[PeerRun]:
        """Return the runs that are done."""
        if not self._path.is_file():
            return []
        lines = self._path.read_text(encoding="utf-8").splitlines()
        return [PeerRun(**json.loads(line)) for line in lines]

    def run(
        self,
        number: int,
        peer: Peer,
        group: Group,
        recordings: Sequence[SpeechRecording],
    ) -> None:
        """Run a program over a group, and keep its costs and texts."""
        manifest = self._folder / f"{group}.jsonl"
        write_manifest(manifest, recordings)
        out = self._folder / f"out-{os.getpid()}-{number}-{len(self.read_runs())}"
        usage = run_counted(self._command(peer, manifest, out), self._folder / "log")
        run = PeerRun(
            round=number,
            label=peer.label,
            group=group,
            cpu_s=round(usage.ru_utime + usage.ru_stime, 3),
            peak_mib=round(usage.ru_maxrss / 1024, 1),
            texts=read_texts(out),
        )
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(run), ensure_ascii=False) + "\n")
        logger.info("%s, %s: %.1f s", peer.label, group, run.cpu_s)

    def _command(self, peer: Peer, manifest: Path, out: Path) -> list[str]:
        if peer.system == "ours":
            words = [sys.executable, "-m", "whisper_hailo", "batch", str(manifest)]
            words += ["--output-dir", str(out), "--model", self._model]
            return [*words, "--workers", "1", "--quiet"]
        weights = prepare_artefact(peer.system, self._model).path
        python = require_interpreter(peer.system, find_interpreter(peer.system))
        script = find_script("transcribe_archive.py")
        words = [str(python), str(script), peer.system, weights]
        return [*words, str(manifest), str(out), "--beam", str(peer.beam)]


def run_counted(command: Sequence[str], log: Path) -> Any:  # noqa: ANN401 - struct_rusage
    """Run a program and return what it and its children used.

    Raises:
        WhisperHailoError: it failed.
    """
    with log.open("wb") as file:
        process = subprocess.Popen(
            command, env=make_environment(threads=1), stdout=file, stderr=file
        )
        _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise WhisperHailoError(
            f"{command[0]} ended with code {process.returncode}; see {log}"
        )
    return usage


def read_texts(out: Path) -> dict[str, str]:
    """Return the texts of a folder of `batch`, or of a file of JSON lines."""
    paths = sorted((out / "transcripts").iterdir()) if out.is_dir() else [out]
    records = [
        json.loads(line)
        for path in paths
        for line in path.read_bytes().decode().split("\n")[:-1]
    ]
    return {record["id"]: record["text"] for record in records}


def summarise_peer(
    peer: Peer,
    runs: Sequence[PeerRun],
    groups: dict[Group, list[SpeechRecording]],
) -> dict[str, Any]:
    """Return the costs of a program, medians of its rounds, and its error rates."""
    own = [run for run in runs if run.label == peer.label]
    medians = {
        group: median(run.cpu_s for run in own if run.group == group)
        for group in GROUPS
    }
    # The run that starts the program transcribes one of the short recordings.
    per_recording_s = (medians["short"] - medians["start"]) / (len(groups["short"]) - 1)
    start_s = medians["start"] - per_recording_s
    summary: dict[str, Any] = {
        "label": peer.label,
        "start_s": round(start_s, 2),
        "peak_mib": max(run.peak_mib for run in own),
    }
    for group in ("short", "long"):
        rounds = [run for run in own if run.group == group]
        minutes = sum(recording.seconds for recording in groups[group]) / 60
        totals = sum_outcomes(
            [make_line(peer, recording, rounds[-1]) for recording in groups[group]]
        )
        summary[group] = {
            "cpu_s_per_minute": round((medians[group] - start_s) / minutes, 2),
            "rounds_s": [run.cpu_s for run in rounds],
            "error_rate": round(totals.score.rate, 4),
            "loops": totals.loops,
        }
    return summary


def make_line(peer: Peer, recording: SpeechRecording, run: PeerRun) -> TranscriptLine:
    """Return the transcript of a recording, to be scored."""
    return TranscriptLine(
        set=recording.set,
        id=recording.id,
        language=recording.language,
        seconds=recording.seconds,
        reference=recording.text,
        text=run.texts[recording.key],
        language_found=None,
        segments=(),
        seconds_cpu=0.0,
        system=peer.system,
        model="",
    )


def describe_groups(model: str, groups: dict[Group, list[SpeechRecording]]) -> str:
    """Return what was measured, and on which machine."""
    minutes = {
        group: sum(recording.seconds for recording in recordings) / 60
        for group, recordings in groups.items()
    }
    return (
        f"`{model}`, languages detected: {len(groups['short'])} short recordings "
        f"({minutes['short']:.1f} min) and {len(groups['long'])} long ones "
        f"({minutes['long']:.1f} min) of people; {this_machine().label}, one thread."
    )


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=first_line(__doc__))
    parser.add_argument("--model", default="base")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--out", type=Path, default=BUILD / "archive-peers")
    parser.add_argument("--keep", action="store_true", help=f"write {RESULT.name}")
    options = parser.parse_args()
    groups = choose_recordings(read_speech(speech_folder()))
    runner = PeerRunner(options.model, options.out)
    done = {(run.round, run.label, run.group) for run in runner.read_runs()}
    for number in range(options.rounds):
        for peer in PEERS:
            for group in GROUPS:
                if (number, peer.label, group) not in done:
                    runner.run(number, peer, group, groups[group])
    runs = runner.read_runs()
    systems = [
        summarise_peer(peer, runs, groups)
        for peer in PEERS
        if {run.group for run in runs if run.label == peer.label} == set(GROUPS)
    ]
    for system in systems:
        emit(f"{json.dumps(system)}\n")
    if options.keep:
        about = describe_groups(options.model, groups)
        write_result(RESULT, {"about": about, "systems": systems}, indent=1)
        write_documents()
    return 0


if __name__ == "__main__":
    sys.exit(run_program(main))
