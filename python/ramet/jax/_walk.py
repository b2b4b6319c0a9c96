"""The walk of a jaxpr: each equation becomes ops of a ramet.ModelBuilder."""
import contextlib

import jax
import numpy as np

import ramet
from ramet._ramet import _at_place

from . import _places
from ._primitives import TABLE, Refusal
from ._values import Values, is_known

INLINED = {"jit", "pjit", "closed_call", "core_call", "remat", "remat2", "checkpoint", "custom_lin"}
MOST_UNROLLED = 4096  # equations of an unrolled loop


class Walk:
    """Walks functions of one model. Values of variables are ramet.Tensors, or NumPy's arrays where they are known."""

    def __init__(self, builder):
        self.builder, self.refusals = builder, _places.Refusals()
        self.values = Values(builder)

    def run(self, closed, arguments, scopes=()):
        return self._run(closed.jaxpr, [np.asarray(each) for each in closed.consts], arguments, scopes)

    def _run(self, jaxpr, constants, arguments, scopes):
        held = dict(zip(jaxpr.constvars, constants)) | dict(zip(jaxpr.invars, arguments))

        def read(variable):
            return np.asarray(variable.val) if hasattr(variable, "val") else held[variable]

        for equation in jaxpr.eqns:
            results = self._equation(equation, [read(each) for each in equation.invars], scopes)
            held.update(zip(equation.outvars, results))
        return [read(each) for each in jaxpr.outvars]

    def _equation(self, equation, inputs, outer):
        scopes = outer + _places.scopes_of(equation)
        name = equation.primitive.name
        if name in INLINED:
            return self._inline(equation.params, inputs, scopes)
        if name == "custom_jvp_call":
            return self._custom(equation, inputs, scopes)
        if name == "scan":
            return self._scan(equation, inputs, scopes)
        if all(is_known(each) for each in inputs) and not equation.effects:
            with contextlib.suppress(NotImplementedError):
                return self._computed(equation, inputs)
        return self._built(equation, inputs, scopes)

    def _inline(self, params, inputs, scopes):
        inner = params["jaxpr"] if "jaxpr" in params else params["call_jaxpr"]
        if hasattr(inner, "jaxpr"):
            return self.run(inner, inputs, scopes)
        return self._run(inner, [], inputs, scopes)

    def _custom(self, equation, inputs, scopes):
        """A function with a derivative of its own. Ramet derives what the function computes, which is the same for the
        functions of JAX itself; a user's may differ on purpose."""
        inner = equation.params["call_jaxpr"]
        about = str(getattr(inner.jaxpr.debug_info, "func_src_info", ""))
        if "jax/_src/" not in about:
            return self._refused(equation, "custom_jvp of " + (about.split(" ")[0] or "a function"))
        if about.startswith("relu ") and not is_known(inputs[0]):
            with self._at(equation, scopes):
                return [ramet.relu(inputs[0])]
        return self._inline(equation.params, inputs, scopes)

    def _scan(self, equation, inputs, scopes):
        params = equation.params
        inner, length = params["jaxpr"], params["length"]
        if length * len(inner.jaxpr.eqns) > MOST_UNROLLED:
            return self._refused(equation, f"scan of {length} steps, which is too long to unroll")
        consts, carried = params["num_consts"], params["num_carry"]
        if length == 0 and len(inner.jaxpr.outvars) > carried:
            return self._refused(equation, "scan of no steps, whose stacked results have no elements")
        carry, rows = inputs[consts:consts + carried], inputs[consts + carried:]
        made = []
        for i in range(length)[::-1] if params["reverse"] else range(length):
            with self._at(equation, scopes):
                row = [each[i] if is_known(each) else ramet.select_index(each, 0, i) for each in rows]
            results = self.run(inner, [*inputs[:consts], *carry, *row], scopes)
            carry = results[:carried]
            made.append(results[carried:])
        if params["reverse"]:
            made.reverse()
        with self._at(equation, scopes):
            stacked = [np.stack(each) if all(is_known(one) for one in each) else
                       ramet.stack([self.values.tensor(one) for one in each], 0) for each in zip(*made)]
        return [*carry, *stacked]

    @staticmethod
    def _computed(equation, inputs):
        """What does not depend on weights and inputs is computed here, by JAX."""
        params = equation.primitive.get_bind_params(equation.params)
        results = equation.primitive.bind(*(jax.numpy.asarray(each) for each in inputs), **params)
        results = results if equation.primitive.multiple_results else [results]
        return [np.asarray(each) for each in results]

    def _built(self, equation, inputs, scopes):
        make = TABLE.get(equation.primitive.name)
        if make is None:
            return self._refused(equation, equation.primitive.name)
        with self._at(equation, scopes):
            try:
                results = make(self.values, equation, *inputs)
            except Refusal as refusal:
                return self._refused(equation, f"{equation.primitive.name} {refusal}")
        return list(results) if equation.primitive.multiple_results else [results]

    def _refused(self, equation, text):
        """Zeros stand for the results, so that the walk finds all that is refused."""
        self.refusals.add(text, _places.line_of(equation))
        return [self.builder.full(each.aval.dtype.name, list(each.aval.shape), 0) for each in equation.outvars]

    @contextlib.contextmanager
    def _at(self, equation, scopes):
        place, part = _places.line_of(equation), _places.part_of(scopes)
        with contextlib.ExitStack() as stack:
            if place:
                stack.enter_context(_at_place(*place))
            if part:
                stack.enter_context(self.builder.part(*part))
            yield
