"""Loops of a traced program, unrolled: `scan`, and `while_loop` whose condition is known when the program is traced.

A loop over time of its own is an LSTM, GRU or RNN layer, which stays one operation whatever the number of steps.
"""

import operator

import torch
from torch.fx import GraphModule, Node

from ramet.errors import UnsupportedOp

from ._places import place_of

SCAN = getattr(torch.ops.higher_order, "scan", None)
WHILE = torch.ops.higher_order.while_loop
# Operations of all repetitions of a loop.
MOST_OPERATIONS = 16384


class Unroller:
    """Replaces the loops of a graph, those inside of loops included. `known`: tensors of placeholders that are constants."""

    def __init__(self, module: GraphModule, known):
        self.module, self.graph, self.known = module, module.graph, dict(known)

    def run(self):
        found = False
        for node in list(self.graph.nodes):
            if node.op != "call_function":
                continue
            if node.target is SCAN:
                self.replace(node, self.scan(node))
            elif node.target is WHILE:
                self.replace(node, self.while_loop(node))
            else:
                continue
            found = True
        if found:
            self.graph.eliminate_dead_code()
            self.module.delete_all_unused_submodules()
            self.module.recompile()
            self.graph.lint()

    def replace(self, node, results):
        for user in list(node.users):
            if user.target is not operator.getitem:
                raise UnsupportedOp("a loop whose results are read as a whole", where=place_of(node), found=str(user.target))
            user.replace_all_uses_with(results[user.args[1]])
            self.graph.erase_node(user)
        self.graph.erase_node(node)

    def body(self, node):
        """The subgraph that a `get_attr` node names, without loops of its own."""
        body = getattr(self.module, node.target)
        Unroller(body, {}).run()
        return body

    def check_size(self, node, body, times):
        operations = sum(each.op == "call_function" for each in body.graph.nodes)
        if operations * times > MOST_OPERATIONS:
            raise UnsupportedOp("a loop is too long to unroll", where=place_of(node),
                                found=f"{times} repetitions of {operations} operations",
                                expected=f"at most {MOST_OPERATIONS} operations",
                                remedy="Use torch.nn.LSTM, GRU or RNN where the loop is one of these, or fewer repetitions")

    def call(self, target, args, like, value):
        """A new node before the current place, with the user's line of `like`."""
        made = self.graph.call_function(target, args)
        made.meta = {key: each for key, each in like.meta.items() if key != "val"}
        made.meta["val"] = value
        return made

    def inlined(self, body, inputs):
        """A copy of a subgraph's nodes with these inputs; the outputs."""
        copies = dict(zip([each for each in body.graph.nodes if each.op == "placeholder"], inputs))
        for each in body.graph.nodes:
            if each.op == "output":
                return [copies[out] if isinstance(out, Node) else out for out in each.args[0]]
            if each.op != "placeholder":
                copies[each] = self.graph.node_copy(each, lambda inner: copies[inner])
        raise AssertionError("a graph without an output")

    def scan(self, node):
        combine, carried, sequences, others = node.args
        body, carried, others = self.body(combine), list(carried), list(others)
        times = sequences[0].meta["val"].shape[0]
        self.check_size(node, body, times)
        rows = [[] for _ in range(len(body.graph.output_node().args[0]) - len(carried))]
        with self.graph.inserting_before(node):
            for step in range(times):
                elements = [self.call(torch.ops.aten.select.int, (each, 0, step), node, each.meta["val"][step])
                            for each in sequences]
                outputs = self.inlined(body, [*carried, *elements, *others])
                carried = outputs[:len(carried)]
                for row, each in zip(rows, outputs[len(carried):]):
                    row.append(each)
            stacked = [self.call(torch.ops.aten.stack.default, (row, 0), node, torch.stack([each.meta["val"] for each in row]))
                       for row in rows]
        return carried + stacked

    def while_loop(self, node):
        condition, body, carried, others = node.args
        condition, body = self.body(condition), self.body(body)
        carried, others = list(carried), list(others)
        values = [self.value_of(each) for each in carried]
        fixed = [self.value_of(each) for each in others]
        times = 0
        with self.graph.inserting_before(node):
            while True:
                (goes_on,) = evaluated(condition, values + fixed)
                if goes_on is None:
                    raise UnsupportedOp("a loop whose number of repetitions depends on data", where=place_of(node),
                                        found="while_loop",
                                        remedy="Repeat a number of times that is known before the first step, and use "
                                               "torch.where to keep what a later repetition must not change")
                if not goes_on:
                    return carried
                times += 1
                self.check_size(node, body, times)
                values = evaluated(body, values + fixed)
                carried = self.inlined(body, [*carried, *others])

    def value_of(self, node):
        """The value of a node that depends on constants alone, or None."""
        if not isinstance(node, Node):
            return node
        if node not in self.known:
            self.known[node] = None
            if node.op == "call_function":
                self.known[node] = applied(node, self.value_of)
        return self.known[node]


def applied(node, value_of):
    """What a node gives, or None where an operand is not known."""
    values = {each: value_of(each) for each in node.all_input_nodes}
    if any(value is None for value in values.values()):
        return None
    args, kwargs = torch.fx.node.map_arg((node.args, node.kwargs), lambda each: values[each])
    return node.target(*args, **kwargs)


def evaluated(body, inputs):
    """The outputs of a subgraph, None where they depend on inputs that are None."""
    values = dict(zip([each for each in body.graph.nodes if each.op == "placeholder"], inputs))
    for each in body.graph.nodes:
        if each.op == "output":
            return [values[out] if isinstance(out, Node) else out
                    for out in (each.args[0] if isinstance(each.args[0], (tuple, list)) else [each.args[0]])]
        if each.op == "call_function":
            values[each] = applied(each, values.get)
        elif each.op != "placeholder":
            values[each] = None
    raise AssertionError("a graph without an output")


def unroll(exported):
    """Unrolls the loops of what torch.export.export returned, before decompositions."""
    constants = exported.graph_signature.inputs_to_lifted_tensor_constants
    known = {node: exported.constants[constants[node.name]] for node in exported.graph.nodes if node.name in constants}
    Unroller(exported.graph_module, known).run()
