"""What strangers may try: each attack, what the server promises, and whether it held.

    python -m whisper_hailo_lab.experiments.server_attacks [--only NAME] [--keep]

Starts servers with the bundled model and attacks them, one way after the other. Meanwhile another
client asks `/health`: it counts the processor time that the event loop takes before it answers.
Afterwards the server has to give the text that it gave before, with the memory it had, more or
less. `--keep` puts the rows into the result that `docs/measurements/server.md` shows.
"""

from __future__ import annotations

import argparse
import logging
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from whisper_hailo.cli.streams import emit
from whisper_hailo_lab.documents.server import RESULT, describe_attacks
from whisper_hailo_lab.experiments.attacked_server import (
    AttackedServer,
    BrokenPromiseError,
    Watch,
    make_certificate,
    start_attacked,
)
from whisper_hailo_lab.experiments.attacks import ATTACKS, CLOCK, Attack
from whisper_hailo_lab.experiments.server_clients import (
    DEMO,
    sample_process,
    wyoming_client,
)
from whisper_hailo_lab.program import first_line, run_program
from whisper_hailo_lab.runs.machine import this_machine
from whisper_hailo_lab.runs.results import read_result, update_result

logger = logging.getLogger(__name__)

_SETTLE_S: Final = 10.0
_MOST_STALL_MS: Final = 500.0
"""An event loop that takes longer keeps all other clients waiting."""


@dataclass(frozen=True, slots=True)
class AttackRow:
    """Outcome of an attack.

    Attributes:
        attack: what was tried.
        promise: what the server promises.
        figures: what it did.
        failure: why the promise was not held; empty if it was.
        stall_ms, delay_s, peak_mib: see `Watch`.
        rss_mib: memory before, and some seconds afterwards.
    """

    attack: str
    promise: str
    figures: str
    failure: str
    stall_ms: float
    delay_s: float
    peak_mib: float
    rss_mib: tuple[float, float]


def run_attack(attack: Attack, server: AttackedServer) -> AttackRow:
    """Attack a server; return whether it held."""
    before_mib, _ = sample_process(server.pid)
    figures = ""
    failure = ""
    with Watch(server) as watch:
        try:
            figures = attack.run(server)
        except (BrokenPromiseError, OSError) as error:
            failure = str(error) or type(error).__name__
        time.sleep(1)
    failure = failure or _find_damage(watch, server)
    time.sleep(_SETTLE_S)
    after_mib, _ = sample_process(server.pid)
    return AttackRow(
        attack.name,
        attack.promise,
        figures,
        failure,
        round(watch.stall_ms, 1),
        round(watch.delay_s, 3),
        round(watch.peak_mib),
        (round(before_mib), round(after_mib)),
    )


def _find_damage(watch: Watch, server: AttackedServer) -> str:
    """Return what others had to bear; empty if nothing."""
    if watch.n_failed:
        return f"{watch.n_failed} of {watch.n_asked} /health failed"
    if watch.stall_ms > _MOST_STALL_MS:
        return f"the event loop was busy for {watch.stall_ms:.0f} ms"
    if wyoming_client(server.wyoming, DEMO)() != server.text:
        return "another text afterwards"
    return ""


def run_attacks(names: list[str]) -> Iterator[AttackRow]:
    """Run all attacks, or those of some names, each against a server of its own."""
    with tempfile.TemporaryDirectory() as folder:
        certificate = make_certificate(Path(folder))
        for attack in ATTACKS:
            if names and attack.name not in names:
                continue
            own = certificate if attack.needs_tls else None
            clock = CLOCK if attack.needs_clock else None
            if clock is not None:
                clock.write_text("+0")
            with start_attacked(
                *attack.options, certificate=own, clock=clock
            ) as server:
                yield run_attack(attack, server)


def merge_rows(
    kept: list[dict[str, Any]], new: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    """Return the newest row of each attack, in the order of the attacks."""
    rows = {row["attack"]: row for row in [*kept, *new]}
    return [rows[attack.name] for attack in ATTACKS if attack.name in rows]


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=first_line(__doc__))
    parser.add_argument("--only", nargs="+", default=[], help="names of attacks")
    parser.add_argument("--keep", action="store_true", help="write the kept result")
    arguments = parser.parse_args()
    kept = read_result(RESULT).get("attacks", {}).get("rows", [])
    rows = kept if arguments.keep else []
    part: dict[str, Any] = {"machine": this_machine().label, "rows": rows}
    for row in run_attacks(arguments.only):
        emit(f"{row}\n")
        part["rows"] = merge_rows(part["rows"], [asdict(row)])
        if arguments.keep:
            update_result(RESULT, attacks=part)
    emit(describe_attacks(part))


if __name__ == "__main__":
    sys.exit(run_program(main))
