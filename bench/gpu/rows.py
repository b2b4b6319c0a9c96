#!/usr/bin/env python3
"""Times the kernels over rows of Ramet's NVIDIA back end on a card: bytes that must move, and the rate they move at.

    python3 bench/gpu/rows.py            # on a machine with a card and NVRTC
    python3 bench/gpu/rows.py --small    # small shapes: whether all launches work

The kernels are compiled from src/ramet/kernel/cuda/device as the back end compiles them. Each launch works on other
memory than the three before it, so that nothing is in the card's cache.
"""

import argparse
import ctypes
import os
import pathlib
import sys

SOURCE = pathlib.Path(__file__).resolve().parents[2] / "src/ramet/kernel/cuda/device"
SETS, ROWS_OF_BLOCK, PROCESSORS, WIDE_THREADS = 4, 64, 132, 544
Pointer, Long, Int, Float, Unsigned = ctypes.c_void_p, ctypes.c_longlong, ctypes.c_int, ctypes.c_float, ctypes.c_uint


def library(names):
    for name in names:
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    sys.exit("none of these libraries is here: " + ", ".join(names))


def struct_of(fields):
    """A struct of (type, value) pairs."""
    kind = type("Arguments", (ctypes.Structure,), {"_fields_": [(f"f{i}", each[0]) for i, each in enumerate(fields)]})
    made = kind()
    for i, (_, value) in enumerate(fields):
        setattr(made, f"f{i}", value)
    return made


class Card:
    def __init__(self):
        self.nvrtc = library([os.environ.get("RAMET_NVRTC", "libnvrtc.so.13"), "libnvrtc.so.13", "libnvrtc.so.12"])
        self.cuda = library([os.environ.get("RAMET_CUDA_DRIVER", "libcuda.so.1")])
        self.modules = {}
        device, context = Int(), Pointer()
        self.check(self.cuda.cuInit(0))
        self.check(self.cuda.cuDeviceGet(ctypes.byref(device), 0))
        self.check(self.cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device))
        self.check(self.cuda.cuCtxSetCurrent(context))
        self.stream = Pointer()
        self.check(self.cuda.cuStreamCreate(ctypes.byref(self.stream), 1))

    @staticmethod
    def check(result):
        if result:
            raise RuntimeError(f"CUDA: error {result}")

    def memory(self, size):
        """Small positive numbers, in bf16 and in f32."""
        address = ctypes.c_ulonglong()
        self.check(self.cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(size)))
        self.fill(address.value, size, 0x3C)
        return address.value

    def release(self, address):
        self.check(self.cuda.cuMemFree_v2(ctypes.c_ulonglong(address)))

    def fill(self, address, size, byte):
        value, count = ctypes.c_ubyte(byte), ctypes.c_size_t(size)
        self.check(self.cuda.cuMemsetD8Async(ctypes.c_ulonglong(address), value, count, self.stream))

    def compile(self, file, definitions):
        headers = [path for path in SOURCE.iterdir() if path.suffix in (".cuh", ".h")]
        texts = (ctypes.c_char_p * len(headers))(*[path.read_bytes() for path in headers])
        names = (ctypes.c_char_p * len(headers))(*[path.name.encode() for path in headers])
        program, size = Pointer(), ctypes.c_size_t()
        create = self.nvrtc.nvrtcCreateProgram
        text = (SOURCE / file).read_bytes()
        self.check(create(ctypes.byref(program), text, file.encode(), len(headers), texts, names))
        options = ["--gpu-architecture=sm_90a", "--fmad=false", "-std=c++17"] + [f"-D{d}" for d in definitions]
        given = (ctypes.c_char_p * len(options))(*[o.encode() for o in options])
        self.check(self.nvrtc.nvrtcCompileProgram(program, len(options), given))
        self.check(self.nvrtc.nvrtcGetCUBINSize(program, ctypes.byref(size)))
        cubin = ctypes.create_string_buffer(size.value)
        self.check(self.nvrtc.nvrtcGetCUBIN(program, cubin))
        return cubin

    def function(self, file, name, definitions):
        key = (file, *definitions)
        if key not in self.modules:
            module = Pointer()
            self.check(self.cuda.cuModuleLoadData(ctypes.byref(module), self.compile(file, definitions)))
            self.modules[key] = module
        function = Pointer()
        self.check(self.cuda.cuModuleGetFunction(ctypes.byref(function), self.modules[key], name.encode()))
        return function

    def launch(self, function, blocks, threads, fields, shared=0):
        """`blocks` are a number, or three; `shared` is dynamic shared memory."""
        arguments = struct_of(fields)
        parameters = (Pointer * 1)(ctypes.addressof(arguments))
        grid = blocks if isinstance(blocks, tuple) else (blocks, 1, 1)
        self.check(
            self.cuda.cuLaunchKernel(function, *grid, threads, 1, 1, shared, self.stream, parameters, Pointer())
        )

    def wait(self):
        self.check(self.cuda.cuStreamSynchronize(self.stream))

    def microseconds(self, launch, repeats):
        """Of one of `repeats` launches, which are recorded as a graph, so that the host's time is not in it."""
        for i in range(SETS):
            launch(i)
        graph, made = Pointer(), Pointer()
        self.check(self.cuda.cuStreamBeginCapture_v2(self.stream, 2))
        for i in range(repeats):
            launch(i % SETS)
        self.check(self.cuda.cuStreamEndCapture(self.stream, ctypes.byref(graph)))
        self.check(self.cuda.cuGraphInstantiateWithFlags(ctypes.byref(made), graph, ctypes.c_ulonglong(0)))
        first, last, elapsed = Pointer(), Pointer(), Float()
        for event in (first, last):
            self.check(self.cuda.cuEventCreate(ctypes.byref(event), 0))
        self.check(self.cuda.cuGraphLaunch(made, self.stream))
        self.check(self.cuda.cuEventRecord(first, self.stream))
        self.check(self.cuda.cuGraphLaunch(made, self.stream))
        self.check(self.cuda.cuEventRecord(last, self.stream))
        self.wait()
        self.check(self.cuda.cuEventElapsedTime(ctypes.byref(elapsed), first, last))
        return elapsed.value * 1000 / repeats


def ceil_divide(a, b):
    return (a + b - 1) // b


def grid_of_rows(rows):
    threads = 256
    while threads > 32 and rows * 32 < threads * PROCESSORS * 2:
        threads //= 2
    return min(max(ceil_divide(rows, threads // 32), 1), PROCESSORS * 64), threads


class Bench:
    def __init__(self, card, repeats):
        self.card, self.repeats = card, repeats

    def sets(self, *sizes):
        """Memory of these sizes, SETS times."""
        return [[self.card.memory(size) for size in sizes] for _ in range(SETS)]

    def report(self, what, least, launch):
        time = self.card.microseconds(launch, self.repeats)
        print(f"{what:44} {least / 1e6:9.2f} MB {time:9.1f} us {least / time / 1e6:7.3f} TB/s", flush=True)

    def combine(self, source, to, blocks, inner, second=None):
        function = self.card.function("combine.cu", "combine", ["kJoin=JoinSum", "kOutType=F32"])
        threads = 32
        while threads < 256 and threads // 32 < blocks:
            threads *= 2
        outer = 2 if second else 1
        fields = [(Pointer, source), (Pointer, to), (Pointer, second)]
        fields += [(Long, outer), (Long, 1), (Long, blocks), (Long, inner)]
        self.card.launch(function, ceil_divide(outer * inner, 32), threads, fields)

    def norm(self, rows, width):
        definitions = ["kRowType=BF16", "kGainType=F32", "kBiasType=F32"]
        if width <= 2048:
            definitions.append(f"kRowWidth={width}")
        for name in ("layer_norm", "rms_norm"):
            function = self.card.function("norm.cu", name, definitions)
            sets = self.sets(rows * width * 2, rows * width * 2, width * 4, width * 4, rows * 4, rows * 4)

            def launch(i, function=function, sets=sets):
                a, out, gain, bias, mean, rstd = sets[i]
                pointers = [(Pointer, each) for each in (a, gain, bias, out, mean, rstd)]
                fields = pointers + [(Long, rows), (Int, width), (Float, 1e-5)]
                self.card.launch(function, *grid_of_rows(rows), fields)

            self.report(f"{name} bf16[{rows},{width}]", rows * width * 4 + rows * 8, launch)

    def norm_grad(self, rows, width):
        blocks, shared = ceil_divide(rows, ROWS_OF_BLOCK), 32 * width * 2
        staged = shared <= 110 << 10
        threads = 256 if staged or width <= 512 else 512
        definitions = ["kRowType=BF16", "kGainType=F32", f"kRowWidth={width}", f"kBlockThreads={threads}"]
        function = self.card.function("norm_grad.cu", "layer_norm_grad", definitions + ["kStaged=1"] * staged)
        self.card.check(self.card.cuda.cuFuncSetAttribute(function, 8, shared if staged else 0))
        size, sums = rows * width * 2, blocks * width * 4
        sets = self.sets(size, size, size, width * 4, rows * 4, rows * 4, 2 * sums, width * 4, width * 4)

        def launch(i):
            dy, a, out, gain, mean, rstd, scratch, dgain, dbias = sets[i]
            pointers = [(Pointer, each) for each in (dy, a, gain, mean, rstd, out, scratch, scratch + sums)]
            fields = pointers + [(Long, rows), (Long, rows), (Long, 1), (Long, blocks), (Int, width)]
            self.card.launch(function, blocks, threads, fields, shared if staged else 0)
            self.combine(scratch, dgain, blocks, width, dbias)

        self.report(f"layer_norm_grad bf16[{rows},{width}], 2 launches", 3 * size + rows * 8, launch)

    def softmax(self, rows, width):
        function = self.card.function("softmax.cu", "softmax", ["kRowType=BF16", f"kRowWidth={width}"])
        sets = self.sets(rows * width * 2, rows * width * 2)

        def launch(i):
            fields = [(Pointer, sets[i][0]), (Pointer, sets[i][1]), (Long, rows), (Int, width)]
            self.card.launch(function, *grid_of_rows(rows), fields)

        self.report(f"softmax bf16[{rows},{width}]", rows * width * 4, launch)

    def reduce_rows(self, rows, width):
        blocks = ceil_divide(rows, ROWS_OF_BLOCK)
        definitions = ["kJoin=JoinSum", "kFromType=BF16", "kOutType=F32"]
        function = self.card.function("reduce.cu", "reduce_blocks", definitions)
        sets = self.sets(rows * width * 2, blocks * width * 4, width * 4)
        grid = min(ceil_divide(ceil_divide(width, 2) * blocks, 128), PROCESSORS * 64)

        def launch(i):
            a, partials, out = sets[i]
            fields = [(Pointer, a), (Pointer, partials), (Long, 1), (Long, rows), (Long, width), (Long, 1), (Long, rows)]
            self.card.launch(function, grid, 128, fields)
            self.combine(partials, out, blocks, width)

        self.report(f"reduce_sum bf16[{rows},{width}] to [{width}], 2 launches", rows * width * 2, launch)

    def reduce_last(self, rows, width):
        definitions = ["kJoin=JoinSum", "kFromType=BF16", "kOutType=F32"]
        function = self.card.function("reduce.cu", "reduce_lines", definitions)
        sets = self.sets(rows * width * 2, rows * 4)

        def launch(i):
            pointers = [(Pointer, each) for each in sets[i]]
            fields = pointers + [(Long, rows), (Long, width), (Long, 1), (Long, 1), (Long, width)]
            self.card.launch(function, *grid_of_rows(ceil_divide(rows, 4)), fields)

        self.report(f"reduce_sum bf16[{rows},{width}] to [{rows}]", rows * width * 2, launch)

    def statistics(self, rows, classes):
        wide = classes > 2048
        file = "loss_wide.cu" if wide else "loss.cu"
        grid = (min(rows, PROCESSORS * 64), WIDE_THREADS) if wide else grid_of_rows(rows)
        for gradient in (False, True):
            name = "softmax_statistics_grad" if gradient else "softmax_statistics"
            function = self.card.function(file, name, ["kRowType=BF16", "kPaired=1"])
            sets = self.sets(rows * classes * 2, rows * classes * 2, rows * 4, rows * 16, rows * 16, 64)
            for each in sets:
                self.card.fill(each[2], rows * 4, 0)

            def launch(i, function=function, sets=sets):
                logits, slopes_of_logits, labels, statistics, slopes, faults = sets[i]
                pointers = (logits, labels, statistics, statistics, slopes, slopes_of_logits, faults)
                fields = [(Pointer, each) for each in pointers] + [(Long, rows), (Unsigned, 1)]
                fields += [(Int, 1), (Int, classes), (Int, classes), (Int, 1), (Int, 0), (Int, 0), (Int, classes)]
                fields += [(Int * (3 * 31), (Int * (3 * 31))())]
                self.card.launch(function, *grid, fields)

            moved = rows * classes * (4 if gradient else 2) + rows * 16
            self.report(f"{name} bf16[{rows},{classes}]", moved, launch)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--small", action="store_true", help="small shapes")
    arguments = parser.parse_args()
    bench = Bench(Card(), 2 if arguments.small else 40)
    rows = 128 if arguments.small else 16384
    widths = (256,) if arguments.small else (1024, 1600)
    for width in widths:
        bench.norm(rows, width)
        bench.norm_grad(rows, width)
        bench.softmax(rows, width)
    for width in widths if arguments.small else (1024, 3072, 4096):
        bench.reduce_rows(rows, width)
    bench.reduce_last(rows, 256 if arguments.small else 1024)
    for count, classes in [(16, 3000), (64, 256)] if arguments.small else [(320, 30522), (2560, 30522), (8192, 50304)]:
        bench.statistics(count, classes)


if __name__ == "__main__":
    main()
