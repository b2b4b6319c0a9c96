#!/usr/bin/env python3
"""The matrix products of Ramet's NVIDIA back end on a card, beside torch.mm of bf16: bits first, then speed.

    python3 bench/gpu/products.py [--cubins DIR]              # on a machine with a card and PyTorch
    python3 bench/gpu/products.py --cubins DIR --compile-only   # elsewhere: compiles all of it, with NVRTC alone

The kernels are compiled from src/ramet/kernel/cuda/device as the back end compiles them. product_wgmma must give the
bits of product_mma in every form; then each width of its tile that fits a shape is timed.
"""

import argparse
import ctypes
import multiprocessing
import pathlib
import struct
import sys
import tempfile

from rows import library

SOURCE = pathlib.Path(__file__).resolve().parents[2] / "src/ramet/kernel/cuda/device"
ROWS, DEPTH, PROCESSORS, SHARED = 128, 64, 132, 232448
F32, F16, BF16 = 0, 1, 2
NAMES = {F32: "F32", F16: "F16", BF16: "BF16"}
WIDTHS = (64, 128, 192, 256)

# name, m, n, k, whether a and b lie transposed, type of the result
SHAPES = [
    ("bert qkv", 16384, 3072, 1024, 0, 0, BF16),
    ("bert out", 16384, 1024, 1024, 0, 0, BF16),
    ("bert up", 16384, 4096, 1024, 0, 0, BF16),
    ("bert down", 16384, 1024, 4096, 0, 0, BF16),
    ("bert wgrad out", 1024, 1024, 16384, 1, 0, F32),
    ("bert wgrad up", 4096, 1024, 16384, 1, 0, F32),
    ("gpt qkv", 8192, 4800, 1600, 0, 0, BF16),
    ("gpt out", 8192, 1600, 1600, 0, 0, BF16),
    ("gpt up", 8192, 6400, 1600, 0, 0, BF16),
    ("gpt down", 8192, 1600, 6400, 0, 0, BF16),
    ("gpt head", 8192, 50304, 1600, 0, 0, BF16),
    ("gpt wgrad up", 6400, 1600, 8192, 1, 0, F32),
    ("bert dgrad up", 16384, 1024, 4096, 0, 1, BF16),
    ("bert dgrad out", 16384, 1024, 1024, 0, 1, BF16),
    ("gpt dgrad qkv", 8192, 1600, 4800, 0, 1, BF16),
    ("gpt dgrad down", 8192, 6400, 1600, 0, 1, BF16),
]


# --- compiling ---


def multiply_tile(columns, ta, tb, name):
    """One wgmma, as kernel/cuda/product_plan.cc prints it."""
    count = columns // 2
    registers = ",".join(f"%{i}" for i in range(count))
    sums = ", ".join(f'"+f"(d[{i}])' for i in range(count))
    return (
        f"__device__ __forceinline__ void multiply_tile(float (&d)[{count}], unsigned long long a, unsigned long long b)"
        f' {{\n  asm volatile("wgmma.mma_async.sync.aligned.m64n{columns}k16.f32.{name}.{name} {{{registers}}}, '
        f'%{count}, %{count + 1}, 1, 1, 1, {ta}, {tb};" : {sums} : "l"(a), "l"(b));\n}}\n'
    )


class Compiler:
    def __init__(self, folder):
        self.folder, self.nvrtc = folder, None

    def compile(self, key, text, definitions):
        kept = self.folder / (key + ".cubin")
        if kept.exists():
            return kept.read_bytes()
        if not self.nvrtc:
            self.nvrtc = library(["libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"])
        headers = [path for path in SOURCE.iterdir() if path.suffix in (".cuh", ".h")]
        texts = (ctypes.c_char_p * len(headers))(*[path.read_bytes() for path in headers])
        names = (ctypes.c_char_p * len(headers))(*[path.name.encode() for path in headers])
        program = ctypes.c_void_p()
        self.check(
            self.nvrtc.nvrtcCreateProgram(ctypes.byref(program), text.encode(), key.encode(), len(headers), texts, names)
        )
        options = ["--gpu-architecture=sm_90a", "--fmad=false", "-std=c++17"] + [f"-D{d}" for d in definitions]
        failed = self.nvrtc.nvrtcCompileProgram(
            program, len(options), (ctypes.c_char_p * len(options))(*[o.encode() for o in options])
        )
        if failed:
            self.read(program, "ProgramLog", print_it=True)
            sys.exit(f"{key} does not compile")
        cubin = self.read(program, "CUBIN")
        self.nvrtc.nvrtcDestroyProgram(ctypes.byref(program))
        kept.write_bytes(cubin)
        return cubin

    def read(self, program, what, print_it=False):
        size = ctypes.c_size_t()
        self.check(getattr(self.nvrtc, f"nvrtcGet{what}Size")(program, ctypes.byref(size)))
        buffer = ctypes.create_string_buffer(size.value)
        self.check(getattr(self.nvrtc, f"nvrtcGet{what}")(program, buffer))
        if print_it:
            print(buffer.value.decode())
        return buffer.raw

    @staticmethod
    def check(result):
        if result:
            sys.exit(f"NVRTC: error {result}")


def stage_bytes(columns):
    return (ROWS + (columns + 63) // 64 * 64) * DEPTH * 2


def stages_of(columns):
    return min(8, (SHARED - 1024 - 8 * 16) // stage_bytes(columns))


def compile_wgmma(compiler, columns, cluster, ta, tb, dtype, out, extra, extra_type):
    name = {BF16: "bf16", F16: "f16"}[dtype]
    text = multiply_tile(columns, ta, int(not tb), name) + (SOURCE / "product_wgmma.cu").read_text()
    definitions = [
        f"kTileColumns={columns}",
        f"kStages={stages_of(columns)}",
        f"kClusterRows={cluster[0]}",
        f"kClusterColumns={cluster[1]}",
        f"kHeadStart={cluster[2]}",
        f"kTransposeA={ta}",
        f"kTransposeB={tb}",
        f"TypeOut={NAMES[out]}",
        f"TypeExtra={NAMES[extra_type]}",
        f"kExtra={extra}",
    ]
    key = f"wgmma_{columns}x{cluster[0]}{cluster[1]}h{cluster[2]}_{ta}{tb}_{name}_{NAMES[out]}_{extra}{NAMES[extra_type]}"
    return compiler.compile(key, text, definitions)


def compile_mma(compiler, ta, tb, dtype):
    definitions = [f"Type={NAMES[dtype]}", f"kTransposeA={ta}", f"kTransposeB={tb}"]
    key = f"mma_{ta}{tb}_{NAMES[dtype]}"
    return compiler.compile(key, (SOURCE / "product_mma.cu").read_text(), definitions)


# --- the card ---


class Card:
    def __init__(self, compiler):
        import torch

        self.torch, self.compiler, self.functions = torch, compiler, {}
        torch.cuda.init()
        torch.zeros(1, device="cuda")  # the context
        self.cuda = library(["libcuda.so.1"])
        self.stream = torch.cuda.current_stream().cuda_stream

    def check(self, result, what):
        if result:
            sys.exit(f"{what}: the driver's error {result}")

    def function(self, cubin, name, shared):
        key = (cubin, name)
        if key not in self.functions:
            module, function = ctypes.c_void_p(), ctypes.c_void_p()
            self.check(self.cuda.cuModuleLoadData(ctypes.byref(module), cubin), "cuModuleLoadData")
            self.check(
                self.cuda.cuModuleGetFunction(ctypes.byref(function), module, name.encode()), "cuModuleGetFunction"
            )
            self.check(self.cuda.cuFuncSetAttribute(function, 8, shared), "cuFuncSetAttribute")
            self.functions[key] = function
        return self.functions[key]

    def launch(self, function, blocks, threads, shared, arguments):
        parameters = (ctypes.c_void_p * 1)(ctypes.addressof(arguments))
        self.check(
            self.cuda.cuLaunchKernel(
                function, blocks, 1, 1, threads, 1, 1, shared, ctypes.c_void_p(self.stream), parameters, None
            ),
            "cuLaunchKernel",
        )

    def tensor_map(self, pointer, rows, columns, matrices):
        room = ctypes.create_string_buffer(128 + 64)
        at = (ctypes.addressof(room) + 63) // 64 * 64
        sizes = (ctypes.c_uint64 * 3)(columns, rows, matrices)
        strides = (ctypes.c_uint64 * 2)(columns * 2, rows * columns * 2)
        box, ones = (ctypes.c_uint32 * 3)(DEPTH, DEPTH, 1), (ctypes.c_uint32 * 3)(1, 1, 1)
        # 16-bit numbers, no interleaving, a swizzle of 128 bytes, 256 bytes at a time to the second-level cache.
        self.check(
            self.cuda.cuTensorMapEncodeTiled(
                ctypes.c_void_p(at), 1, 3, ctypes.c_void_p(pointer), sizes, strides, box, ones, 0, 3, 3, 0
            ),
            "cuTensorMapEncodeTiled",
        )
        return ctypes.string_at(at, 128)


def clusters_of(m, n, columns, cluster):
    return -(-m // (ROWS * cluster[0])) * -(-n // (columns * cluster[1]))


def most_of(cluster):
    """Clusters that run side by side: processors come in groups of 16 or 18, and clusters stay within one."""
    return {1: 132, 2: 66, 4: 32}[cluster[0] * cluster[1]]


class Product:
    """A product of stacks of one kind: a [batch, m, k], b [batch, k, n], each as it lies."""

    def __init__(self, card, a, b, ta, tb, out, extra=None, chunks=1):
        self.card, self.a, self.b, self.ta, self.tb, self.out, self.extra = card, a, b, ta, tb, out, extra
        self.batch = a.shape[0]
        self.m, self.k = (a.shape[2], a.shape[1]) if ta else (a.shape[1], a.shape[2])
        self.n = b.shape[1] if tb else b.shape[2]
        self.chunks = chunks
        torch = card.torch
        self.types = {torch.float32: F32, torch.float16: F16, torch.bfloat16: BF16}
        self.dtype, self.out_type = self.types[a.dtype], self.types[out.dtype]
        # A bias is a row.
        self.extra_kind = 0 if extra is None else 1 if extra.dim() == 1 else 2
        self.extra_type = F32 if extra is None else self.types[extra.dtype]

    def arguments(self, aligned):
        def operand(tensor):
            steps = [0] * 5 + [1 if self.batch > 1 else 0]
            whole = tensor.shape[2] % 8 == 0
            return struct.pack("Pq6qii", tensor.data_ptr(), tensor[0].numel(), *steps, tensor.shape[2], whole)

        part = self.batch * self.m * self.n
        result = struct.pack(
            "PPiiii",
            self.out.data_ptr(),
            0 if self.extra is None else self.extra.data_ptr(),
            self.out_type,
            self.extra_type,
            self.extra_kind == 1,
            aligned,
        )
        k = self.k // self.chunks
        rest = struct.pack("6qqqiiiii", 1, 1, 1, 1, 1, self.batch, self.batch, part, self.m, self.n, k, k, self.chunks)
        return operand(self.a) + operand(self.b) + result + rest + bytes(4)

    def tiles(self, columns):
        return -(-self.m // ROWS) * -(-self.n // columns) * self.batch * self.chunks

    def by_mma(self):
        cubin = compile_mma(self.card.compiler, self.ta, self.tb, self.dtype)
        shared = 4 * 2 * 128 * 40 * 2
        function = self.card.function(cubin, "product_mma", shared)
        arguments = ctypes.create_string_buffer(self.arguments(self.n % 2 == 0))
        return lambda: self.card.launch(function, self.tiles(128), 256, shared, arguments)

    def by_wgmma(self, columns, cluster):
        cubin = compile_wgmma(
            self.card.compiler, columns, cluster, self.ta, self.tb, self.dtype, self.out_type, self.extra_kind,
            self.extra_type,
        )
        shared = stages_of(columns) * (stage_bytes(columns) + 16) + 1024
        function = self.card.function(cubin, "product_wgmma", shared)
        a, b = self.a, self.b
        map_a = self.card.tensor_map(a.data_ptr(), a.shape[1], a.shape[2], self.batch)
        map_b = self.card.tensor_map(b.data_ptr(), b.shape[1], b.shape[2], self.batch)
        whole = self.n % (2 if self.out_type == F32 else 8) == 0
        packed = map_a + map_b + self.arguments(whole)
        arguments = ctypes.create_string_buffer(packed + bytes(-len(packed) % 64))
        blocks = min(clusters_of(self.m, self.n, columns, cluster) * self.batch * self.chunks, most_of(cluster))
        blocks *= cluster[0] * cluster[1]
        return lambda: self.card.launch(function, blocks, 384, shared, arguments)


# --- bits ---


def bit_cases():
    """m, n, k, batch, ta, tb, type, type of the result, extra, chunks, width."""
    for ta in (0, 1):
        for tb in (0, 1):
            for width in (64, 200, 256):
                yield 304, 520, 200, 1, ta, tb, BF16, BF16, 0, 1, width
            yield 136, 136, 72, 3, ta, tb, BF16, F32, 0, 1, 128
    yield 301, 257, 264, 1, 0, 1, BF16, BF16, 0, 1, 256  # odd rows and columns of the result
    yield 301, 257, 264, 1, 0, 1, BF16, F32, 0, 1, 256
    yield 1, 8, 8, 1, 0, 0, BF16, F32, 0, 1, 64
    yield 256, 512, 2048, 1, 0, 0, BF16, BF16, 1, 1, 256
    yield 256, 520, 2048, 1, 1, 0, BF16, F32, 2, 1, 192
    yield 256, 512, 768, 1, 0, 0, BF16, F32, 0, 3, 128
    yield 200, 264, 328, 1, 0, 0, F16, F16, 0, 1, 200
    yield 4096, 2048, 512, 1, 0, 0, BF16, BF16, 0, 1, 256  # several tiles a block


def check_bits(card, cluster):
    torch = card.torch
    dtypes = {F32: torch.float32, F16: torch.float16, BF16: torch.bfloat16}
    wrong = 0
    for m, n, k, batch, ta, tb, dtype, out_type, extra, chunks, width in bit_cases():
        torch.manual_seed(m + n + k)
        a = torch.randn(batch, *((k, m) if ta else (m, k)), device="cuda").to(dtypes[dtype])
        b = torch.randn(batch, *((n, k) if tb else (k, n)), device="cuda").to(dtypes[dtype])
        added = None
        if extra == 1:
            added = torch.randn(n, device="cuda").to(dtypes[BF16])
        if extra == 2:
            added = torch.randn(batch, m, n, device="cuda")
        expected = torch.full((chunks, batch, m, n), 3.0, device="cuda", dtype=dtypes[out_type])
        Product(card, a, b, ta, tb, expected, added, chunks).by_mma()()
        found = torch.full_like(expected, 7.0)
        Product(card, a, b, ta, tb, found, added, chunks).by_wgmma(width, cluster)()
        torch.cuda.synchronize()
        integers = torch.int32 if out_type == F32 else torch.int16
        different = int((found.view(integers) != expected.view(integers)).sum())
        near = (a.transpose(1, 2) if ta else a).float() @ (b.transpose(1, 2) if tb else b).float()
        off = float((expected.float().sum(0) - near).abs().max()) if not extra else 0.0
        if different or off > 2.0:
            wrong += 1
            print(f"WRONG {m}x{n}x{k} batch {batch} {'NT'[ta]}{'NT'[tb]} {NAMES[dtype]}->{NAMES[out_type]} "
                  f"extra {extra} chunks {chunks} width {width} cluster {cluster}: {different} of {found.numel()} bits differ; "
                  f"mma is off torch's f32 by {off:.3g}", flush=True)
    told = "every form of product_wgmma equals product_mma" if not wrong else f"{wrong} forms are WRONG"
    print(f"bits, clusters of {cluster[0]} x {cluster[1]}, head start {cluster[2]}: {told}", flush=True)
    return wrong


# --- speed ---


def cost(m, n, k, columns, cluster):
    """As kernel/cuda/product_plan.cc: cycles of the waves of tiles."""
    loaded = (columns + 63) // 64 * 64
    step = max(4 * columns, 2.8 * (ROWS // cluster[1] + loaded // cluster[0]))
    waves = -(-clusters_of(m, n, columns, cluster) // most_of(cluster))
    return waves * (-(-k // DEPTH) * step + 1500 + 8 * columns)


def choices_of(m, n, k, most, clusters):
    """The widths and clusters that promise most, of each cluster size so many."""
    return [
        (width, cluster)
        for cluster in clusters
        for width in sorted(WIDTHS, key=lambda width: cost(m, n, k, width, cluster))[:most]
    ]


def milliseconds(torch, work, repeats):
    for _ in range(3):
        work()
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    begin.record()
    for _ in range(repeats):
        work()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) / repeats


def time_shapes(card, most, clusters):
    torch = card.torch
    print(f"{torch.cuda.get_device_name(0)}, torch {torch.__version__}; TFLOP/s; width of the tile/cluster:TFLOP/s")
    print(f"{'':16}{'m x n x k':>22}{'torch':>8}{'wgmma':>8}{'ratio':>7}{'mma':>7}  widths")
    for name, m, n, k, ta, tb, out_type in SHAPES:
        flops = 2.0 * m * n * k
        repeats = max(10, int(0.04 / (flops / 6e14)))
        a = torch.randn(1, *((k, m) if ta else (m, k)), device="cuda").bfloat16()
        b = torch.randn(1, *((n, k) if tb else (k, n)), device="cuda").bfloat16()
        out = torch.empty(1, 1, m, n, device="cuda", dtype=torch.float32 if out_type == F32 else torch.bfloat16)
        product = Product(card, a, b, ta, tb, out)
        theirs_out = torch.empty(m, n, device="cuda", dtype=torch.bfloat16)
        left, right = a[0].t() if ta else a[0], b[0].t() if tb else b[0]
        theirs = milliseconds(torch, lambda: torch.mm(left, right, out=theirs_out), repeats)
        mma = milliseconds(torch, product.by_mma(), max(5, repeats // 4))
        rates = {
            choice: flops / milliseconds(torch, product.by_wgmma(*choice), repeats) / 1e9
            for choice in choices_of(m, n, k, most, clusters)
        }
        best = max(rates.values())
        rate = flops / theirs / 1e9
        print(f"{name:16}{f'{m}x{n}x{k}':>22}{rate:8.0f}{best:8.0f}{best / rate:7.2f}{flops / mma / 1e9:7.0f}  "
              + " ".join(f"{w}/{c[0]}{c[1]}h{c[2]}:{r:.0f}" for (w, c), r in rates.items()), flush=True)


def jobs_of(most, clusters):
    """All kernels that a run needs."""
    jobs = set()
    for m, n, k, batch, ta, tb, dtype, out_type, extra, chunks, width in bit_cases():
        for cluster in clusters:
            jobs.add((compile_wgmma, width, cluster, ta, tb, dtype, out_type, extra, BF16 if extra == 1 else F32))
        jobs.add((compile_mma, ta, tb, dtype))
    for _, m, n, k, ta, tb, out_type in SHAPES:
        for width, cluster in choices_of(m, n, k, most, clusters):
            jobs.add((compile_wgmma, width, cluster, ta, tb, BF16, out_type, 0, F32))
    return sorted(jobs, key=str)


def compile_job(folder, job):
    job[0](Compiler(folder), *job[1:])


def compile_all(folder, most, clusters):
    with multiprocessing.get_context("spawn").Pool() as pool:
        pool.starmap(compile_job, [(folder, job) for job in jobs_of(most, clusters)])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cubins", type=pathlib.Path, help="where compiled kernels are kept")
    parser.add_argument("--compile-only", action="store_true")
    parser.add_argument("--widths", type=int, default=2, help="widths that are timed for a shape and cluster")
    parser.add_argument("--clusters", nargs="+", default=["11h0", "11h2", "21h0", "21h2", "12h2", "22h2"],
                        help="rows and columns of blocks, and steps by which one group of a block is ahead of the other")
    chosen = parser.parse_args()
    folder = chosen.cubins or pathlib.Path(tempfile.mkdtemp())
    folder.mkdir(parents=True, exist_ok=True)
    clusters = [(int(text[0]), int(text[1]), int(text[3:])) for text in chosen.clusters]
    compile_all(folder, chosen.widths, clusters)
    if chosen.compile_only:
        return
    compiler = Compiler(folder)
    card = Card(compiler)
    right = [cluster for cluster in clusters if check_bits(card, cluster) == 0]
    if right:
        time_shapes(card, chosen.widths, right)
    sys.exit(len(right) != len(clusters))


if __name__ == "__main__":
    main()
