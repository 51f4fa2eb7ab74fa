"""From a Hailo-form graph to a HEF through the vendor's compiler, as a program of its own.

These files travel in bundles to machines that have the compiler and not this package, and run
under the compiler's own interpreter. So they need NumPy and the compiler only, use the syntax of
Python 3.10 and import nothing of `whisper_hailo`.
"""
