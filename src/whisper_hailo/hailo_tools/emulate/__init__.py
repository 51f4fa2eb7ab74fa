"""Emulated quantisation: what the chip's 8 and 16 bits make of a Hailo-form graph, on any machine.

`read_network` finds the chip's layers, `plan_of_script` the bits that a model script gives them,
`collect` what their tensors are like over real speech, `emulated` makes the graph that computes
with them, and `measure_noise` says what it costs, layer by layer.
"""

from whisper_hailo.hailo_tools.emulate.layers import Layer, Network
from whisper_hailo.hailo_tools.emulate.network import read_network
from whisper_hailo.hailo_tools.emulate.noise import LayerNoise, Noise, measure_noise
from whisper_hailo.hailo_tools.emulate.plan import PLANS, Plan, Precision, plan_of_script, preset
from whisper_hailo.hailo_tools.emulate.rewrite import emulated, tensor_bits
from whisper_hailo.hailo_tools.emulate.scales import METHODS
from whisper_hailo.hailo_tools.emulate.statistics import Statistics, collect

__all__ = [
    "METHODS",
    "PLANS",
    "Layer",
    "LayerNoise",
    "Network",
    "Noise",
    "Plan",
    "Precision",
    "Statistics",
    "collect",
    "emulated",
    "measure_noise",
    "plan_of_script",
    "preset",
    "read_network",
    "tensor_bits",
]
