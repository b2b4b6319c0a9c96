"""Marks in a traced program where gradients stop.

torch.export loses `torch.no_grad()`, and its decompositions turn `detach` into an alias: a program that Ramet
differentiates itself would then have wrong gradients. So the raw trace gets the op `ramet::stop_gradient` in place of each
`detach`, and on each value that leaves a region without gradients.
"""

import operator

import torch
from torch.fx import GraphModule, Node

from ramet.errors import UnsupportedOp

from ._places import place_of


@torch.library.custom_op("ramet::stop_gradient", mutates_args=())
def stop_gradient(x: torch.Tensor) -> torch.Tensor:
    """A copy of `x` through which no gradient flows."""
    return x.clone()


@stop_gradient.register_fake
def _(x):
    return torch.empty_like(x)


stop_gradient.register_autograd(lambda context, gradient: None)

STOP = torch.ops.ramet.stop_gradient.default
DETACHES = {torch.ops.aten.detach.default, torch.ops.aten.detach_.default, torch.ops.aten.detach_copy.default}
GRAD_REGION = torch.ops.higher_order.wrap_with_set_grad_enabled
AUTOCAST_REGION = getattr(torch.ops.higher_order, "wrap_with_autocast", None)


def region_of(node):
    """(name of the subgraph, its mode of gradients or None for the mode around it, operands), or None."""
    if node.op != "call_function":
        return None
    if node.target is GRAD_REGION:
        return node.args[1].target, bool(node.args[0]), node.args[2:]
    if AUTOCAST_REGION is not None and node.target is AUTOCAST_REGION:
        at = next(i for i, each in enumerate(node.args) if isinstance(each, Node) and each.op == "get_attr")
        return node.args[at].target, None, node.args[at + 1:]
    return None


def is_differentiable(node):
    value = node.meta.get("val")
    return isinstance(value, torch.Tensor) and (value.dtype.is_floating_point or value.dtype.is_complex)


class Marker:
    """Sets the marks in a program. `trained`: placeholders of the parameters that are trained."""

    def __init__(self, module: GraphModule, trained):
        self.module, self.trained = module, trained

    def run(self):
        self.visit(self.module, {node for node in self.module.graph.nodes if node.name in self.trained}, True)

    def visit(self, module, needs, enabled):
        """Marks a graph. `needs`: values that have a gradient; grows. Returns whether each output has a gradient."""
        graph = module.graph
        roots, detached, regions = {}, {}, {}
        for node in list(graph.nodes):
            if node.op != "call_function":
                continue
            region = region_of(node)
            if region:
                regions[node] = self.visit_region(module, node, region, needs, enabled)
            elif node.target is operator.getitem and node.args[0] in regions:
                if regions[node.args[0]][node.args[1]]:
                    needs.add(node)
            else:
                self.visit_call(node, needs, enabled, roots, detached)
        if not enabled:
            self.mark_leaving(graph, regions)
        module.recompile()
        outputs = graph.output_node().args[0]
        return [isinstance(each, Node) and each in needs for each in outputs]

    def visit_region(self, module, node, region, needs, enabled):
        name, mode, operands = region
        subgraph = getattr(module, name)
        inputs = [each for each in subgraph.graph.nodes if each.op == "placeholder"]
        passed = {inner for inner, outer in zip(inputs, operands) if isinstance(outer, Node) and outer in needs}
        return self.visit(subgraph, passed, enabled if mode is None else mode)

    def visit_call(self, node, needs, enabled, roots, detached):
        first = node.args[0] if node.args and isinstance(node.args[0], Node) else None
        schema = getattr(node.target, "_schema", None)
        aliases = schema is not None and first is not None and bool(schema.arguments) and \
            schema.arguments[0].alias_info is not None
        root = roots.get(first, first)
        if aliases:
            roots[node] = root
        if node.target in DETACHES:
            detached.setdefault(root, node)
            node.target = STOP
            return
        if aliases and schema.arguments[0].alias_info.is_write:
            self.check_write(node, root, needs, enabled, detached)
        if enabled and is_differentiable(node) and any(each in needs for each in node.all_input_nodes):
            needs.add(node)
        if enabled and isinstance(node.meta.get("val"), (tuple, list)) and \
                any(each in needs for each in node.all_input_nodes):
            needs.add(node)
        if node.target is operator.getitem and first in needs and is_differentiable(node):
            needs.add(node)

    def check_write(self, node, root, needs, enabled, detached):
        if root in detached:
            raise UnsupportedOp(
                f"{node.target} changes a tensor in place after detach() gave a second view of it",
                where=place_of(node),
                remedy="Copy the tensor before the change: x.detach().clone()")
        if not enabled and (root in needs):
            raise UnsupportedOp(
                f"{node.target} changes in place, under torch.no_grad(), a tensor that has a gradient",
                where=place_of(node),
                remedy="Compute a new tensor instead, or change the tensor outside of torch.no_grad()")

    def mark_leaving(self, graph, regions):
        """In a region without gradients: marks what its outputs and inner regions with gradients read."""
        enabling = {node for node in regions if node.target is GRAD_REGION and node.args[0]}
        for node in list(graph.nodes):
            if node.op != "call_function" or node in regions or not is_differentiable(node) or node.target is STOP:
                continue
            if node.target is operator.getitem and node.args[0] in regions:
                continue  # the inner region has marked what it had to
            leaving = [user for user in node.users if user.op == "output" or user in enabling]
            if not leaving:
                continue
            with graph.inserting_after(node):
                mark = graph.call_function(STOP, (node,))
            mark.meta = dict(node.meta)
            for user in leaving:
                user.replace_input_with(node, mark)


def set_marks(exported):
    """Sets the marks in what torch.export.export returned, before decompositions."""
    signature = exported.graph_signature
    state = exported.state_dict
    trained = {name for name, target in signature.inputs_to_parameters.items() if state[target].requires_grad}
    Marker(exported.graph_module, trained).run()


# Ops that read a float tensor and give one without a gradient.
CONSTANT_OPS = {"zeros_like", "ones_like", "full_like", "empty_like", "rand_like", "randn_like", "new_zeros", "new_ones",
                "new_full", "new_empty", "bernoulli"}


def reached_by_gradient(exported, output):
    """Names of the parameters that have a gradient when `output`, the name of a node, is minimised."""
    nodes = {node.name: node for node in exported.graph.nodes}
    signature = exported.graph_signature
    seen, stack, reached = set(), [nodes[output]], set()
    while stack:
        node = stack.pop()
        if node in seen:
            continue
        seen.add(node)
        if node.name in signature.inputs_to_parameters:
            reached.add(signature.inputs_to_parameters[node.name])
        if node.op != "call_function" or node.target is STOP:
            continue
        if getattr(node.target, "_opname", "") in CONSTANT_OPS:
            continue
        stack += [each for each in node.all_input_nodes
                  if is_differentiable(each) or isinstance(each.meta.get("val"), (tuple, list))]
    return reached
