"""Emulated quantisation: what the chip's 8 and 16 bits make of a Hailo-form graph, on any machine.

`read_network` finds the chip's layers, `plan_of_script` the bits that a model script gives them,
`collect` what their tensors are like over real speech, `emulated` makes the graph that computes
with them, and `measure_noise` says what it costs, layer by layer.
"""
