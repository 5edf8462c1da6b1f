"""Kernels for NVIDIA GPUs in CUDA C++, and what compiles and launches them.

The CPU's kernels are the reference. A file is compiled when one of its kernels is first used (`topics.cu` and
`division.cu` for one number of topics at a time), and CuPy caches the result. Tests run the same source on the CPU.
"""
