"""ONNX files: ramet.onnx.backend is Ramet as a backend of ONNX's own test runner."""
