"""What happened so far, kept line by line: a soak that was cut is not lost."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from whisper_hailo.core.files import write_file
from whisper_hailo_lab.captions.browser import Browser
from whisper_hailo_lab.captions.soak.room import Played
from whisper_hailo_lab.captions.soak.service import HeldMemory


@dataclass(frozen=True, slots=True)
class Fault:
    """One that was made.

    Attributes:
        kind: what it was.
        start_s: when it began, in seconds since 1970.
        end_s: when it was over; the same where it took no sound.
    """

    kind: str
    start_s: float
    end_s: float

    @property
    def takes_sound(self) -> bool:
        """Whether what was said meanwhile may be missing."""
        return self.start_s < self.end_s


@dataclass(frozen=True, slots=True)
class PageText:
    """What a page was shown so far.

    Attributes:
        runs: final texts by the segment's id, of each run.
        twice: ids that came with two texts.
        n_visits: times that it connected.
    """

    runs: list[dict[int, str]]
    twice: list[int]
    n_visits: int


Entry = Fault | Played | HeldMemory
_KINDS: Final[dict[str, type[Entry]]] = {
    kind.__name__.lower(): kind for kind in (Fault, Played, HeldMemory)
}


class Diary:
    """Of one soak, in its folder.

    Args:
        folder: of the soak.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / "diary.jsonl"
        self._page = folder / "page.json"
        self._lock = threading.Lock()

    def note(self, entry: Entry) -> None:
        """Add one, from any thread."""
        line = json.dumps({"entry": type(entry).__name__.lower(), **asdict(entry)})
        with self._lock, self._path.open("a", encoding="utf-8") as file:
            file.write(line + "\n")

    def note_page(self, browser: Browser) -> None:
        """What it was shown until now, in place of what was noted before."""
        runs, twice = list(browser.runs.values()), sorted(browser.twice)
        shown = PageText([dict(texts) for texts in runs], twice, browser.n_visits)
        write_file(self._page, json.dumps(asdict(shown)))

    def entries(self) -> Iterator[Entry]:
        """All that were noted, in order."""
        for line in self._path.read_text(encoding="utf-8").splitlines():
            entry = json.loads(line)
            yield _KINDS[entry.pop("entry")](**entry)

    def shown(self) -> PageText:
        """What was noted of the page last."""
        found = PageText(**json.loads(self._page.read_text(encoding="utf-8")))
        runs = [{int(index): text for index, text in texts.items()} for texts in found.runs]
        return PageText(runs, found.twice, found.n_visits)
