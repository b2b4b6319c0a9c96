"""Weights on their way from a module into a program, and back. A program reads them piece by piece, so that neither the
import nor the model has a copy of them."""

import functools
import tempfile

import numpy
import torch

from ramet.errors import Error


class Aside:
    """Numbers of parameters in a temporary file, which goes with `close`."""

    def __init__(self):
        self.file, self._places = None, {}

    def add(self, parameters):
        """Writes those that are not there yet."""
        if self.file is None:
            self.file = tempfile.TemporaryFile()
        for parameter in parameters:
            if id(parameter) not in self._places:
                self._places[id(parameter)] = self.file.tell()
                parameter.detach().contiguous().numpy().tofile(self.file)

    def add_trained(self, module):
        """Those of a module that may be trained, as far as a program can have them."""
        self.add(each for each in module.parameters()
                 if each.requires_grad and each.dtype == torch.float32 and each.layout == torch.strided and
                 each.device.type == "cpu" and not is_released(each))

    def place(self, parameter):
        """The byte where one begins that was added."""
        return self._places[id(parameter)]

    def close(self):
        if self.file:
            self.file.close()
        self.file, self._places = None, {}


class Weights:
    """The trained weights of a module, which a program reads when it gets its first values."""

    def __init__(self, module, trained, aside=None):
        """`aside`: what was written of them before, and has not changed since."""
        own = dict(module.named_parameters(remove_duplicate=False))
        self._parameters = {name: own[name] for name in trained}
        self._aside, self._places = aside or Aside(), {}

    def reader(self, name):
        """A function of (first, count) that gives elements of a weight."""
        return functools.partial(self._read, name)

    def _read(self, name, first, count):
        if name in self._places:
            self._aside.file.seek(self._places[name] + 4 * first)
            return numpy.fromfile(self._aside.file, numpy.float32, count)
        parameter = self._parameters[name]
        if is_released(parameter):
            raise Error("the module has released its weights", where=f"'{name}'",
                        remedy="copy_to(module) of the compiled model gives them back")
        return parameter.detach().contiguous().view(-1)[first:first + count]

    def release(self, names):
        """The module gives the memory of these back. The numbers are in a temporary file until `close`, so that they are at no
        moment in memory twice."""
        for name in sorted(names):
            parameter = self._parameters[name]
            if parameter.numel() > 1:
                self._aside.add([parameter])
                self._places[name] = self._aside.place(parameter)
        for name in self._places:
            self._parameters[name].data = torch.full((), float("nan")).expand(self._parameters[name].shape)

    def restore(self):
        """The module gets what `release` took from it: no program has become of it."""
        given = {}
        for name, place in self._places.items():
            parameter = self._parameters[name]
            if place not in given:
                self._aside.file.seek(place)
                numbers = numpy.fromfile(self._aside.file, numpy.float32, parameter.numel())
                given[place] = torch.from_numpy(numbers).view(parameter.shape)
            parameter.data = given[place]
        self.close()

    def close(self):
        self._aside.close()
        self._places = {}


def is_released(tensor):
    """Whether it is one NaN in the place of a weight that a program has."""
    return tensor.numel() > 1 and not any(tensor.stride()) and tensor.untyped_storage().nbytes() == 4


def give_back(module, first_names, value_of):
    """Gives weights that were released memory of their own again. `value_of(state, like)`; tied ones share it."""
    given = {}
    for name, parameter in module.named_parameters(remove_duplicate=False):
        if is_released(parameter):
            state = first_names[name]
            if state not in given:
                given[state] = value_of(state, parameter)
            parameter.data = given[state]
