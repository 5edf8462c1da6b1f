"""The GPU's kernels on the processor: the same source, compiled by a C++ compiler with `emulated.h` in front of it."""

import ctypes
import hashlib
import re
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

import numpy as np

from decbayes.kernels.cuda.device import source

HEADER = Path(__file__).parent / "emulated.h"
COMPILER = shutil.which("g++") or shutil.which("c++") or shutil.which("clang++")
KERNEL = re.compile(r'extern "C" __global__ (?:__launch_bounds__\(\d+\) )?void (\w+)\(([^)]*)\)')


class EmulatedDevice:
    """A GPU made of NumPy arrays and fibers: slow, and exact about who waits for whom."""

    xp, processors = np, 3
    late = -1  # the block that lingers whenever blocks have met, if any

    def launch(self, file, name, blocks, threads, *arguments, shared_bytes=0, together=False, **constants):
        if not blocks:
            return
        values = [a.ctypes.data_as(ctypes.c_void_p) if isinstance(a, np.ndarray) else c_value(a) for a in arguments]
        addresses = (ctypes.c_void_p * len(values))(*(ctypes.addressof(value) for value in values))
        if not all(a.flags.c_contiguous for a in arguments if isinstance(a, np.ndarray)):
            raise ValueError("kernels take contiguous arrays only")
        size = int(blocks), int(threads), int(shared_bytes), int(together)
        kernels = library(file, **constants)
        kernels.set_late(self.late)
        if not getattr(kernels, f"emulate_{name}")(*size, addresses):
            raise RuntimeError(f"blocks of {name} wait for each other forever")

    def to_device(self, array):
        return np.array(array)

    def to_host(self, array):
        return np.array(array)

    def later(self, array):
        content = np.array(array)
        return lambda: content

    def free_bytes(self):
        return 1 << 30


def c_value(number):
    return np.ctypeslib.as_ctypes_type(number.dtype)(number)


@cache
def library(file, **constants):
    """A file of kernels, compiled once for all tests."""
    text = f'#include "{HEADER}"\n{source(file)}\n' + "\n".join(map(entry, KERNEL.findall(source(file))))
    defined = [f"-D{name}={value}" for name, value in sorted(constants.items())]
    name = hashlib.sha256("".join([HEADER.read_text(), text, *defined]).encode()).hexdigest()[:16]
    folder = Path(tempfile.gettempdir()) / "decbayes-emulated"
    path = folder / f"{name}.so"
    if not path.exists():
        folder.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder) as build:
            code, built = Path(build) / "kernels.cpp", Path(build) / "kernels.so"
            code.write_text(text)
            flags = ["-std=c++17", "-O1", "-w", "-shared", "-fPIC", "-U_FORTIFY_SOURCE", "-pthread", *defined]
            subprocess.run([COMPILER, *flags, str(code), "-o", str(built)], check=True)
            built.replace(path)
    return ctypes.CDLL(str(path))


def entry(kernel):
    """A function that takes the addresses of a kernel's arguments."""
    name, parameters = kernel
    types = [re.sub(r"\w+\s*$", "", parameter).strip() for parameter in parameters.split(",")]
    values = ", ".join(f"*({kind}*)arguments[{place}]" for place, kind in enumerate(types))
    launch = f"return emulation::launch(blocks, threads, shared_bytes, together, [=] {{ {name}({values}); }});"
    sizes = "int blocks, int threads, int shared_bytes, int together"
    return f'extern "C" int emulate_{name}({sizes}, void** arguments) {{ {launch} }}'
