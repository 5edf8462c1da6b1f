"""The kernels for NVIDIA GPUs, in CUDA C++, and what compiles and launches them.

The processor's kernels are the reference. `topics.cu` is compiled for one number of topics at a time, on first use, and
CuPy keeps what it has compiled. Tests run the same source on the processor (tests/cuda).
"""
