"""Layers of networks on graphs, with the names of weights of PyTorch Geometric."""
from ramet import _ramet as ops

EPSILON = 1e-5  # of batch norms


def _linear(m, x, name, out):
    """A dense layer, with PyTorch's first weights."""
    bound = x.shape[-1] ** -0.5
    weight = m.weight(name + ".weight", [out, x.shape[-1]], ops.Init.uniform(-bound, bound))
    return ops.linear(x, weight, m.weight(name + ".bias", [out], ops.Init.uniform(-bound, bound)))


def gine(m, graph, x, features, name, out):
    """A GINE layer (Hu et al., arXiv 1905.12265): two dense layers on (1 + eps) x plus the sum of relu(neighbour + transformed
    edge). `x`: rows of nodes [samples, nodes, F]; `features`: rows of edges [samples, edges, E] in the order of
    `graph`."""
    width = x.shape[-1]
    messages = ops.relu(graph.of_sources(x) + _linear(m, features, name + ".lin", width))
    own = x * (m.weight(name + ".eps", [1]) + 1.0)
    return _linear(m, ops.relu(_linear(m, own + graph.sum(messages), name + ".nn.0", out)), name + ".nn.2", out)


def batch_norm_of_nodes(m, x, graph_of, name, momentum=0.1):
    """A batch norm (Ioffe and Szegedy, arXiv 1502.03167) over the nodes that belong to a graph: `graph_of` i32 [samples,
    nodes] numbers the graphs from 1 on, and is 0 for padding."""
    samples, nodes, width = x.shape
    gain, shift = m.weight(name + ".weight", [width], ops.Init.ones()), m.weight(name + ".bias", [width])
    kept = []
    for each, first in (("mean", ops.Init.zeros()), ("var", ops.Init.ones())):
        m.state(f"{name}.running_{each}", "f32", [width], "deferred", first, momentum=momentum)
        kept.append(m.state(f"{name}.running_{each}"))
    mask = ops.reshape(ops.cast(ops.clamp(graph_of, 0, 1), "f32"), [samples, nodes, 1])
    count = ops.clamp(ops.reduce_sum(mask), 1.0, None)
    mean = ops.reduce_sum(x * mask, [0, 1]) / count
    apart = (x - mean) * mask
    variance = ops.reduce_sum(apart * apart, [0, 1]) / count
    m.set_state(name + ".running_mean", mean)
    m.set_state(name + ".running_var", variance * (count / ops.clamp(count - 1.0, 1.0, None)))
    mean, variance = ops.by_use(mean, kept[0]), ops.by_use(variance, kept[1])
    return (x - mean) * ops.rsqrt(variance + EPSILON) * gain + shift


def gps(m, graph, x, graph_of, name, conv, heads=1, dropout=0.0, attention_dropout=0.0, momentum=0.1):
    """A layer of GPS (Rampasek et al., arXiv 2205.12454), as PyTorch Geometric's GPSConv: `conv(x, name)` gives messages along
    edges, with as many features as `x` [samples, nodes, F]; beside it every node attends to all nodes of its own graph.
    `graph_of` i32 [samples, nodes] numbers the graphs of each sample from 1 on, nodes of a graph behind one another, and is
    0 for padding.

        x = gps(m, graph, x, graph_of, "convs.0", lambda x, name: gine(m, graph, x, edges, name, 64), heads=4)
    """
    samples, nodes, width = x.shape
    if width % heads:
        raise ValueError(f"{width} features are not a multiple of {heads} heads")

    def added(branch, norm):
        return batch_norm_of_nodes(m, ops.dropout(branch, dropout) + x, graph_of, f"{name}.{norm}.module", momentum)

    bound = (6 / (4 * width)) ** 0.5  # Glorot and Bengio 2010, of one matrix for queries, keys and values
    joint = m.weight(name + ".attn.in_proj_weight", [3 * width, width], ops.Init.uniform(-bound, bound))
    rows = ops.linear(x, joint, m.weight(name + ".attn.in_proj_bias", [3 * width]))
    query, key, value = (ops.reshape(ops.slice_axis(rows, 2, k * width, (k + 1) * width), [samples, nodes, heads, width // heads])
                         for k in range(3))
    mixed = ops.attention(query, key, value, graph_of, segments=True, dropout=attention_dropout)
    attended = _linear(m, ops.reshape(mixed, [samples, nodes, width]), name + ".attn.out_proj", width)
    both = added(conv(x, name + ".conv"), "norm1") + added(attended, "norm2")
    wide = ops.dropout(ops.relu(_linear(m, both, name + ".mlp.0", 2 * width)), dropout)
    more = ops.dropout(_linear(m, wide, name + ".mlp.3", width), dropout)
    return batch_norm_of_nodes(m, both + more, graph_of, f"{name}.norm3.module", momentum)
