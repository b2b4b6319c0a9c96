"""Prints indexing_peer_values.cc: what PyTorch computes for the cases of indexing_test.cc, with gradients.

    python3 tests/ops/indexing_peers.py > tests/ops/indexing_peer_values.cc
    clang-format-19 -i tests/ops/indexing_peer_values.cc
"""

import torch

CASES = {}


def case(*shapes):
    def add(function):
        CASES[function.__name__] = (shapes, function)
        return function

    return add


def values(shape, which):
    """The case's input number `which`: the same formula as in indexing_test.cc."""
    count = torch.Size(shape).numel()
    numbers = [((e * 7 + 3 * which) % 11 - 5) * 0.25 + 0.0625 * which for e in range(count)]
    return torch.tensor(numbers, dtype=torch.float32).reshape(shape)


def ints(*rows):
    return torch.tensor(rows)


@case((3, 4))
def gather_rows(a):
    return a.gather(0, ints([2, 0, 0, 1], [1, 1, 2, 0]))


@case((3, 4))
def gather_columns(a):
    return a.gather(1, ints([3, 3, 0], [1, 2, 1]))


@case((2, 3, 4))
def gather_middle(a):
    return a.gather(1, ints([[0, 2, 1], [2, 2, 2]]))


@case((3, 4), (2, 4))
def scatter_set(a, b):
    return a.scatter(0, ints([2, 0, 0, 1], [1, 1, 2, 0]), b)


@case((3, 4), (3, 5))
def scatter_sum(a, b):
    return a.scatter_add(1, ints([3, 3, 0, 3, 1], [1, 2, 1, 1, 1], [0, 0, 0, 0, 0]), b)


def reduced(a, b, by, include_self):
    index = ints([3, 3, 0, 3, 1], [1, 2, 1, 1, 1], [0, 0, 2, 0, 2])
    return a.scatter_reduce(1, index, b, by, include_self=include_self)


for by in ("sum", "prod", "mean", "amax", "amin"):
    for own in (True, False):

        def function(a, b, by=by, own=own):
            return reduced(a, b, by, own)

        function.__name__ = f"scatter_{by}_{'with' if own else 'without'}_self"
        case((3, 4), (3, 5))(function)


@case((2, 3))
def scatter_max_of_equals(a):
    # The updates are the elements that they meet.
    index = ints([0, 0, 1], [2, 2, 2])
    return a.scatter_reduce(1, index, a.gather(1, index), "amax")


@case((4, 3))
def index_select_columns(a):
    return a.index_select(1, torch.tensor([2, 0, 2, 2]))


@case((4, 3, 2))
def index_neighbours(a):
    return a[:, ints([0, 2], [1, 1]), ints([1, 0], [-1, -2])]


@case((4, 3, 2))
def index_apart(a):
    return a[torch.tensor([3, -1, 0]), :, torch.tensor([1, 0, 1])]


@case((4, 3, 2))
def index_broadcast(a):
    return a[ints([0], [-2]), torch.tensor([2, 0, 1])]


@case((4, 3, 2))
def index_middle(a):
    return a[:, torch.tensor([2, -3])]


@case((4, 3))
def index_scalar(a):
    return a[torch.tensor(-1)]


@case((4, 3), (2, 1))
def index_put_set(a, b):
    return a.index_put((ints([0], [2]), torch.tensor([1, 0])), b)


@case((4, 3), (3, 3))
def index_put_accumulate(a, b):
    return a.index_put((torch.tensor([1, -3, 1]),), b, accumulate=True)


@case((2, 3, 2), (2,))
def index_put_mask(a, b):
    return a.index_put((ints([True, False, True], [False, False, True]),), b)


@case((2, 3), (5,))
def masked_scatter(a, b):
    return a.masked_scatter(ints([True, False, True], [True, False, True]), b)


@case((3,), (5,))
def masked_scatter_broadcast(a, b):
    return a.masked_scatter(ints([True, False, True], [True, False, True]), b)


@case((2, 3, 4))
def gather_nd_pairs(a):
    return a[torch.tensor([1, 0, 1]), torch.tensor([2, 0, 2])]


@case((2, 3, 4))
def gather_nd_batch(a):
    return torch.stack([a[0][[2, 0], [3, 1]], a[1][[1, 1], [0, 2]]])


@case((3, 4))
def sort_ascending(a):
    return a.sort(dim=1, stable=True)[0]


@case((3, 4))
def sort_descending_indices(a):
    return a.round().sort(dim=0, stable=True, descending=True)[1]


@case((5, 3))
def top_k_least(a):
    return a.topk(2, 0, largest=False)[0]


@case((6,), (2, 4))
def search_left(a, b):
    return torch.searchsorted(a.sort()[0], b)


@case((2, 6), (2, 4))
def search_right(a, b):
    return torch.searchsorted(a.sort()[0], b, right=True)


@case((2, 6), (2, 4))
def search_by_sorter(a, b):
    return torch.searchsorted(a, b, right=True, sorter=a.argsort())


@case((3, 5))
def cumprod_with_zeros(a):
    return a.cumprod(1)


@case((4, 3))
def cumprod_reverse(a):
    return a.flip(0).cumprod(0).flip(0)


@case((2, 5))
def cummax_values(a):
    return a.cummax(1)[0]


@case((2, 5))
def cummin_indices(a):
    return a.round().cummin(1)[1]


@case((2, 5))
def cumsum_exclusive_reverse(a):
    return a.flip(1).cumsum(1).flip(1) - a


@case((3, 4))
def roll_two(a):
    return a.roll((1, -6), (0, 1))


@case((3, 2))
def roll_flat(a):
    return a.roll(-2)


@case((2, 3))
def tile_more(a):
    return a.repeat(2, 1, 2)


@case((2, 3))
def repeat_each(a):
    return a.repeat_interleave(2, 1)


@case((2, 3))
def repeat_by_counts(a):
    return a.repeat_interleave(torch.tensor([2, 0, 3]), 1)


@case((2, 3), (2, 3))
def stack_last(a, b):
    return torch.stack((a, b), -1)


@case((2, 3, 4))
def tril_below(a):
    return a.tril(-1)


@case((3, 4))
def triu_above(a):
    return a.triu(1)


@case((2,), (3,))
def meshgrid_sum(a, b):
    x, y = torch.meshgrid(a, b, indexing="ij")
    return x * y


@case((2,), (3,))
def meshgrid_xy(a, b):
    x, y = torch.meshgrid(a, b, indexing="xy")
    return x * y


def padded(a, mode):
    return torch.nn.functional.pad(a[None, None], (2, 1, 1, 2), mode)[0, 0]


@case((3, 4))
def pad_reflect(a):
    return padded(a, "reflect")


@case((3, 4))
def pad_edge(a):
    return padded(a, "replicate")


@case((3, 4))
def pad_wrap(a):
    return padded(a, "circular")


@case((2, 5))
def pad_wrap_cut(a):
    return torch.nn.functional.pad(a.reshape(1, 2, 5), (-2, 3), mode="circular").reshape(2, 6)


@case((2, 6), (2, 2))
def slice_scatter_step(a, b):
    return a.slice_scatter(b, 1, 1, 5, 2)


@case((4, 3), (2, 3))
def slice_scatter_dense(a, b):
    return a.slice_scatter(b, 0, -3, -1)


@case((2, 3), (2,))
def select_scatter_last(a, b):
    return a.select_scatter(b, 1, -1)


@case((3, 2, 4))
def diagonal_above(a):
    return a.diagonal(1, 0, 2)


@case((3, 2, 4))
def diagonal_below(a):
    return a.diagonal(-1, 2, 0)


@case((3, 4), (2,))
def diagonal_scatter_below(a, b):
    return a.diagonal_scatter(b, -1)


@case((2, 3))
def diagonal_embed_above(a):
    return torch.diag_embed(a, 1)


@case((2, 2))
def diagonal_embed_below(a):
    return torch.diag_embed(a, -2)


@case((2, 3))
def flip_both(a):
    return a.flip(0, 1)


@case((2, 7))
def unfold_windows(a):
    return a.unfold(1, 3, 2)


@case((6, 2))
def unfold_first(a):
    return a.unfold(0, 4, 1)


@case((2, 5))
def difference_twice(a):
    return a.diff(n=2)


@case((3, 4))
def variance_rows(a):
    return a.var(1)


@case((3, 4))
def deviation_all(a):
    return a.std(correction=0)


@case((3, 4))
def log_sum_exp_columns(a):
    return a.logsumexp(0, keepdim=True)


for order in (0.5, 1, 2, 3, float("inf"), float("-inf"), 0):

    def function(a, order=order):
        return torch.linalg.vector_norm(a, order, 1)

    function.__name__ = "norm_" + str(order).replace(".", "_").replace("-", "minus_")
    case((3, 4))(function)


@case((2, 3))
def norm_of_zeros(a):
    return torch.linalg.vector_norm(a * 0, 2, 1)


@case((2, 3))
def deviation_of_equals(a):
    return (a * 0).std(1)


@case((3, 4))
def argmin_rows(a):
    return a.argmin(1)


@case((3, 4))
def any_above(a):
    return (a > 0.9).any(1)


@case((3, 4))
def all_above(a):
    return (a > -1.2).all(0)


@case((3, 4))
def count_of_nonzero(a):
    return a.count_nonzero(1)


def number(value):
    return {float("inf"): "INFINITY", float("-inf"): "-INFINITY"}.get(value, "NAN" if value != value else f"{value:.9g}")


def numbers(tensor):
    return "{" + ", ".join(number(value) for value in tensor.detach().reshape(-1).tolist()) + "}"


def main():
    print(f"// Made by indexing_peers.py with PyTorch {torch.__version__.split('+')[0]}.\n")
    print('#include "ops/indexing_peer_values.h"\n\n#include <cmath>\n\nnamespace ramet::tests {\n')
    print("const std::map<std::string, PeerValues>& indexing_peer_values() {")
    print("  static const std::map<std::string, PeerValues> values = {")
    for name, (shapes, function) in CASES.items():
        inputs = [values(shape, which).requires_grad_() for which, shape in enumerate(shapes)]
        result = function(*inputs)
        gradients = []
        if result.is_floating_point():
            weights = torch.tensor([0.5 + (e * 5 % 7) * 0.25 for e in range(result.numel())]).reshape(result.shape)
            gradients = torch.autograd.grad((result * weights).sum(), inputs, allow_unused=True)
            gradients = [torch.zeros_like(a) if g is None else g for a, g in zip(inputs, gradients)]
        print(f'      {{"{name}", {{{numbers(result.double())}, {{{", ".join(numbers(g) for g in gradients)}}}}}}},')
    print("  };\n  return values;\n}\n\n}  // namespace ramet::tests")


main()
