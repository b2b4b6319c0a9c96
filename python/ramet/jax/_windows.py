"""Reductions of windows: pooling."""
import ramet

from ._refusal import Refusal


def pool_of(equation, a):
    """Options of a pooling over the middle (channels last) or the last (channels first) dimensions."""
    params = equation.params
    taps = list(params["window_dimensions"])
    rank = len(taps)
    dilated = params.get("base_dilation") or [1] * rank
    if any(extent != 1 for extent in dilated) or not 3 <= rank <= 5:
        raise Refusal("of an input with gaps, or without samples, channels and one to three dimensions of space")

    def plain(axis):
        return taps[axis] == 1 and params["window_strides"][axis] == 1 and tuple(params["padding"][axis]) == (0, 0)

    if not plain(0) or not (plain(1) or plain(rank - 1)):
        raise Refusal("over samples and channels")
    last = plain(rank - 1)
    space = slice(1, rank - 1) if last else slice(2, rank)
    padding = params["padding"][space]
    return ramet_options(taps[space], params["window_strides"][space], (params["window_dilation"] or [1] * rank)[space],
                         padding, last)


def ramet_options(taps, strides, dilations, padding, last):
    return dict(taps=list(taps), strides=list(strides), dilations=list(dilations), low=[low for low, _ in padding],
                high=[high for _, high in padding], channels_last=last)


def window_max(values, equation, a):
    return ramet.max_pool(a, **pool_of(equation, a))


def window_sum(values, equation, a):
    return ramet.average_pool(a, **pool_of(equation, a), divisor=1)
