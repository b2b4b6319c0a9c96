#!/usr/bin/env python3
"""Times the updates, gathers and turns of Ramet's NVIDIA back end on a card: bytes that must move, and their rate.

    python3 bench/gpu/updates.py            # on a machine with a card and NVRTC
    python3 bench/gpu/updates.py --small    # small shapes: whether all launches work

As bench/gpu/rows.py, whose card it uses.
"""

import argparse
import ctypes

from rows import PROCESSORS, Bench, Card, Float, Int, Long, Pointer, Unsigned, ceil_divide

THREADS, INTEGERS = 256, 21


def groups_grid(elements):
    groups = ceil_divide(elements, 4)
    each = min(max(groups // (4 * PROCESSORS * 8 * THREADS), 1), 4)
    return max(ceil_divide(groups, each * THREADS), 1)


def sum_grid(elements):
    return 1 if elements <= 4096 else min(ceil_divide(elements, 8 * THREADS), PROCESSORS * 4)


def loop_grid(work):
    return min(max(ceil_divide(work, THREADS), 1), PROCESSORS * 8)


class Updates(Bench):
    def update(self, name, elements, operands, outputs, sums=False):
        """Operands of w, g, m, v and outputs of w, m, v, u that there are."""
        definitions = ["Weight=F32", "Gradient=F32", "Moment=F32", "Square=F32", "kHalves=0", "kRandom=0"]
        function = self.card.function("update.cu", name, definitions)
        finish = self.card.function("sums.cu", "finish_sums", ["Element=F32"])
        blocks = sum_grid(elements) if sums else groups_grid(elements)
        sets = self.sets(*[4 * elements] * 5, 4096, 2 * blocks * INTEGERS * 4)

        def launch(i):
            w, g, m, v, u, scalar, room = sets[i]
            have = {"w": w, "g": g, "m": m, "v": v, "u": u}
            pointers = [have[each] if each in operands else 0 for each in ("w", "low", "g", "m", "v")]
            pointers += [have[each] if each in outputs else 0 for each in ("w", "low", "m", "v", "u")]
            results = (scalar + 1024, scalar + 2048)
            fields = [(Long, elements)] + [(Pointer, each) for each in pointers + [scalar] * 6]
            fields += [(Float, 0.01)] * 6 + [(Int, 0)] * 2 + [(Pointer, 0), (Long, 0)] + [(Unsigned, 0)] * 3
            self.card.launch(function, blocks, THREADS, fields + [(Pointer, each) for each in (room, *results)])
            if blocks > 1 and sums:
                pointers = (room, room + blocks * INTEGERS * 4, *results)
                self.card.launch(finish, 2, 32 * INTEGERS, [(Int, blocks)] + [(Pointer, each) for each in pointers])

        self.report(f"{name} f32[{elements}]", 4 * elements * (len(operands) + len(outputs)), launch)

    def squares(self, elements, element, size):
        function = self.card.function("sums.cu", "sum_squares", [f"Element={element}"])
        finish = self.card.function("sums.cu", "finish_sums", ["Element=F32"])
        blocks = sum_grid(elements)
        sets = self.sets(size * elements, blocks * INTEGERS * 4, 4096)

        def launch(i):
            a, room, result = sets[i]
            fields = [(Long, elements), (Pointer, a), (Float, 0), (Pointer, room), (Pointer, result)]
            self.card.launch(function, blocks, THREADS, fields)
            if blocks > 1:
                fields = [(Int, blocks)] + [(Pointer, room)] * 2 + [(Pointer, result)] * 2
                self.card.launch(finish, 1, 32 * INTEGERS, fields)

        self.report(f"sum_squares {element}[{elements}]", size * elements, launch)

    def indices(self, positions, rows):
        """Numbers of a spread of rows."""
        numbers = (ctypes.c_int * positions)(*[(i * 7919) % rows for i in range(positions)])
        address, size = self.card.memory(positions * 4), ctypes.c_size_t(positions * 4)
        self.card.wait()
        self.card.check(self.card.cuda.cuMemcpyHtoD_v2(ctypes.c_ulonglong(address), numbers, size))
        return address

    def gather(self, positions, rows, width):
        function = self.card.function("gather.cu", "gather", ["Number=int", "Unit=uint4"])
        units, faults = width * 4 // 16, self.card.memory(64)
        lane_bits = min(units - 1, THREADS - 1).bit_length()
        sets = [each + [self.indices(positions, rows)] for each in self.sets(rows * width * 4, positions * width * 4)]

        def launch(i):
            table, out, index = sets[i]
            fields = [(Long, positions), (Long, rows), (Long, units), (Int, lane_bits)]
            fields += [(Pointer, each) for each in (index, table, out, faults)] + [(Unsigned, 1)]
            self.card.launch(function, loop_grid(positions << lane_bits), THREADS, fields)

        self.report(f"gather f32[{rows},{width}] by {positions}", positions * width * 8, launch)

    def scatter(self, positions, rows, width):
        definitions = ["Number=int", "Update=F32", "Result=F32", "kColumns=4"]
        names = ("count", "scan", "place", "sort", "sort_many", "few", "many")
        functions = {name: self.card.function("scatter.cu", f"scatter_{name}", definitions) for name in names}
        most, heavy, faults = min(rows, positions), min(rows, positions // 64), self.card.memory(64)
        lane_bits = min(width // 4 - 1, THREADS - 1).bit_length()
        sizes = [positions * width * 4, rows * width * 4, 4 * (rows + 2 + most + 2 * positions)]
        sets = [each + [self.indices(positions, rows)] for each in self.sets(*sizes)]

        def launch(i):
            updates, out, first, index = sets[i]
            many = first + 4 * (rows + 1)
            place = many + 4 * (1 + most)
            pointers = [index, updates, 0, out, first, place, place + 4 * positions, many, faults]
            fields = [(Long, positions), (Long, rows), (Long, width), (Int, lane_bits)]
            fields += [(Pointer, each) for each in pointers] + [(Unsigned, 1)]

            def give(name, blocks, threads=THREADS):
                self.card.launch(functions[name], blocks, threads, fields)

            self.card.fill(first, 4 * (rows + 2), 0)
            give("count", loop_grid(positions))
            give("scan", 1, 1024)
            give("place", loop_grid(positions))
            give("sort", loop_grid(rows * 32))
            if heavy:
                give("sort_many", min(heavy, PROCESSORS * 2), 1024)
            give("few", loop_grid(rows << lane_bits))
            if heavy:
                give("many", loop_grid(heavy * ceil_divide(width, 32) * THREADS))

        self.report(f"scatter_add f32[{positions},{width}] to {rows} rows", (positions + rows) * width * 4, launch)

    def turn(self, rows, columns, unit, size):
        function = self.card.function("turn.cu", "turn", [f"Unit={unit}", "kDims=0", "kWide=0"])
        sets = self.sets(rows * columns * size, rows * columns * size)
        tiles = ceil_divide(rows, 64) * ceil_divide(columns, 64)

        def launch(i):
            fields = [(Long, each) for each in (1, rows, columns, rows, columns)]
            fields += [(Long, 0)] * (8 * 2 + 16) + [(Pointer, each) for each in sets[i]]
            self.card.launch(function, tiles, THREADS, fields)

        self.report(f"transpose {unit}[{columns},{rows}]", 2 * rows * columns * size, launch)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--small", action="store_true", help="small shapes")
    small = parser.parse_args().small
    bench = Updates(Card(), 3 if small else 30)
    for elements in [5000, 20_000] if small else [1024, 1 << 20, 4 << 20, 32 << 20]:
        bench.update("adam", elements, "wgmv", "wmv")
        bench.update("sgd", elements, "wgm", "wm")
        bench.update("lamb_direction", elements, "wgmv", "mvu", sums=True)
        bench.update("lamb_apply", elements, "wg", "w")
        bench.squares(elements, "F32", 4)
        bench.squares(elements, "BF16", 2)
    for positions, rows, width in [(300, 200, 64), (300, 2, 64)] if small else [(16384, 30522, 1024), (16384, 2, 1024)]:
        bench.gather(positions, rows, width)
        bench.scatter(positions, rows, width)
    side = 200 if small else 8192
    for unit, size in [("unsigned short", 2), ("unsigned", 4)]:
        bench.turn(side, side, unit, size)


if __name__ == "__main__":
    main()
