"""How many bits each layer works with: from a model script, ours or any other."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from types import MappingProxyType
from typing import Final

from whisper_hailo.core.errors import ModelError, OptionError
from whisper_hailo_tools.emulate.network import EmulatedNetwork
from whisper_hailo_tools.options import PLANS

NARROW_BITS: Final = 8
WIDE_BITS: Final = 16

_ADDS = "quantization_param({ew_add*}, precision_mode=a16_w16)\n"
_NORMS = "quantization_param({layer_normalization*}, precision_mode=a16_w16)\n"

PRESETS: Final = {"all8": "", "adds16": _ADDS, "norms16": _ADDS + _NORMS}
"""Plans with a name, as model scripts: all at 8 bits, residual adds at 16, layer norms too."""

_COMMAND = re.compile(r"(?:\w+\s*=\s*)?(\w+)\((.*)\)$")
_MODE = re.compile(r"a(8|16)_w(4|8|16)(?:_a(8|16))?$")


@dataclass(frozen=True, slots=True)
class LayerPrecision:
    """Bits of one layer, the compiler's `a<reads>_w<weights>[_a<gives>]`.

    Attributes:
        reads: of the activations it reads.
        gives: of the activations it gives; `None`: as many as the widest of its readers reads.
    """

    reads: int = NARROW_BITS
    weights: int = NARROW_BITS
    gives: int | None = None

    def __str__(self) -> str:
        """As the compiler writes it."""
        suffix = "" if self.gives is None else f"_a{self.gives}"
        return f"a{self.reads}_w{self.weights}{suffix}"


@dataclass(frozen=True, slots=True)
class PrecisionPlan:
    """Which layer works with how many bits, between which nodes.

    Attributes:
        name: such as `adds16`, for results.
        starts: nodes or graph inputs at which the chip begins; empty means all graph inputs.
        ends: nodes at which it ends; empty means all graph outputs.
        precisions: layer to its bits; others have 8 of everything.
        ignored: commands of the script that an emulation cannot follow, in order.
    """

    name: str
    starts: tuple[str, ...] = ()
    ends: tuple[str, ...] = ()
    precisions: Mapping[str, LayerPrecision] = field(default_factory=lambda: MappingProxyType({}))
    ignored: tuple[str, ...] = ()

    def of(self, layer: str) -> LayerPrecision:
        return self.precisions.get(layer, LayerPrecision())


def preset(name: str) -> str:
    """Return the model script of a plan with a name."""
    if name not in PRESETS:
        raise OptionError(f"--plan is {name!r}, expected one of: {', '.join(PLANS)}")
    return PRESETS[name]


def plan_of_script(
    name: str, text: str, network: EmulatedNetwork, starts: tuple[str, ...], ends: tuple[str, ...]
) -> PrecisionPlan:
    """Read the bits that a model script gives to the layers of a network.

    Later commands overrule earlier ones. Commands that do not set bits (fine-tuning, equalisation,
    resources ...) are kept aside in `PrecisionPlan.ignored`.
    """
    precisions: dict[str, LayerPrecision] = {}
    ignored = []
    names = [layer.name for layer in network.layers]
    for line in text.splitlines():
        command = line.split("#", 1)[0].strip()
        match = _COMMAND.match(command)
        if not command:
            continue
        if match is None or match[1] != "quantization_param" or "precision_mode" not in match[2]:
            ignored.append(command)
            continue
        bits = _precision(command)
        precisions |= dict.fromkeys(_named(command, match[2], names), bits)
    return PrecisionPlan(name, starts, ends, MappingProxyType(precisions), tuple(ignored))


def _precision(command: str) -> LayerPrecision:
    mode = re.search(r"precision_mode\s*=\s*(\w+)", command)
    match = _MODE.match(mode[1]) if mode else None
    if match is None:
        raise ModelError(
            f"the model script says {command!r}; known are precision modes a8 or a16 with w4, w8 "
            "or w16, and _a8 or _a16 behind them"
        )
    reads, weights, gives = match.groups()
    return LayerPrecision(int(reads), int(weights), None if gives is None else int(gives))


def _named(command: str, arguments: str, names: list[str]) -> list[str]:
    """Return layers that `conv4`, `net/conv4`, `{ew_add*}` or `[conv4, conv5]` mean."""
    listed = re.match(r"\s*\[(.*?)\]|\s*([^,]+)", arguments)
    words = (listed[1] or listed[2]).split(",") if listed else []
    found: list[str] = []
    for word in words:
        pattern = word.strip().strip("{}").rsplit("/", 1)[-1]
        matching = [name for name in names if fnmatchcase(name, pattern)]
        if not matching:
            raise ModelError(
                f"the model script says {command!r}, and the network has no layer {pattern!r}; "
                "layers are numbered per kind in the graph's order, as in the vendor's scripts"
            )
        found += matching
    return found
