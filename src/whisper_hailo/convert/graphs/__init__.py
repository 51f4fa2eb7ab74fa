"""The ONNX graphs of a model directory, written from the checkpoint's arrays."""
