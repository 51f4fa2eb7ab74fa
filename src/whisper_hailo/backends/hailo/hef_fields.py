"""Field numbers of a HEF's description, as HailoRT's public `hef.proto` assigns them.

A class is one protobuf message, with those of its fields that this program reads.
"""

from __future__ import annotations


class Hef:
    """The whole description."""

    HEADER = 1
    NETWORK_GROUPS = 2


class Header:
    """The chip that the file was compiled for, and the compiler."""

    HW_ARCH = 1
    SDK_VERSION = 3


class CoreOp:
    """The part of a network that the chip computes."""

    METADATA = 1
    CONTEXTS = 3
    SORTED_OUTPUTS = 4
    FUSED_LAYERS = 5
    PLACEMENTS = 7


class NetworkGroup(CoreOp):
    """One network: a graph of operators, or, from older compilers, a core op itself."""

    OPS = 8


class Op:
    """One operator of a network; those that the host computes have no core op."""

    CORE_OP = 4


class Placement:
    """A core op, or older a network, for one half of a Hailo-8: how it is compiled for an 8L."""

    CORE_OP = 1


class NetworkMetadata:
    """A network's name, and how its shapes lie."""

    NAME = 1
    IS_TRANSPOSED = 3


class FusedLayers:
    """Outputs that the compiler joined, if it did."""

    HAS_FUSED_LAYERS = 1
    SORTED_OUTPUTS = 2


class Context:
    """What the chip holds at once; it is loaded once for each within a run."""

    METADATA = 3


class ContextMetadata:
    """Inputs and outputs of a context."""

    EDGE_LAYERS = 2
    SORTED_OUTPUTS = 5


class EdgeLayer:
    """An input or output of a context: a layer, or several that share a stream (`mux`)."""

    DIRECTION = 1
    LAYER = 3
    MUX = 4
    CONTEXT_SWITCH = 5


class ContextSwitch:
    """Where an edge layer leads to."""

    CONNECTION_TYPE = 3


class Mux:
    """Layers that share a stream."""

    PREDECESSORS = 5


class MuxPredecessor:
    """A layer of a mux, which may be a mux itself."""

    LAYER = 1
    MUX = 2


class Layer:
    """One input or output."""

    NAME = 1
    BASE = 2
    IS_TRANSPOSED = 6


class LayerBase:
    """The shape of a layer."""

    HEIGHT = 1
    WIDTH = 3
    FEATURES = 5
    FORMAT = 7


class Direction:
    """Values of `EdgeLayer.DIRECTION`."""

    HOST_TO_DEVICE = 0


class ConnectionType:
    """Values of `ContextSwitch.CONNECTION_TYPE`; others lead from one context to the next."""

    BOUNDARY = 0


class Format:
    """Values of `LayerBase.FORMAT`: orders of axes."""

    CHANNELS_ALONE = 2
