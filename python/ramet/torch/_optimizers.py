"""torch.optim's optimizers as Ramet's: kinds, options, groups of weights, learning rates and states."""

import dataclasses

import torch

from ramet.errors import Error, UnsupportedOp

from . import optim

RATE = "lr"
# Options that change no number.
IGNORED = {"foreach", "fused", "initial_lr", "params", RATE, "names", "param_names", "max_lr", "min_lr", "base_momentum",
           "max_momentum", "swa_lr", "decoupled_weight_decay"}


@dataclasses.dataclass(frozen=True)
class Kind:
    """One class of optimizers. `options`: torch's option to Ramet's; `needs`: the only value that Ramet has of an option;
    `states`: torch's state to Ramet's; `whole`: options that groups share."""

    kind: str
    options: dict
    needs: dict = dataclasses.field(default_factory=dict)
    states: dict = dataclasses.field(default_factory=dict)
    whole: tuple = ()


NONE_OF_THESE = {"maximize": False, "differentiable": False, "capturable": False}
ADAM = dict(options={"eps": "epsilon", "weight_decay": "weight_decay"}, needs=NONE_OF_THESE | {"amsgrad": False},
            states={"exp_avg": "m", "exp_avg_sq": "v"})
KINDS = {
    torch.optim.SGD: Kind("sgd", {"momentum": "momentum", "weight_decay": "weight_decay", "nesterov": "nesterov"},
                          NONE_OF_THESE | {"dampening": 0}, {"momentum_buffer": "momentum"}, ("nesterov",)),
    torch.optim.Adam: Kind("adam", **ADAM),
    torch.optim.AdamW: Kind("adamw", **ADAM),
    torch.optim.RMSprop: Kind("rmsprop", {"alpha": "alpha", "eps": "epsilon", "weight_decay": "weight_decay",
                                          "momentum": "momentum", "centered": "centered"}, NONE_OF_THESE,
                              {"square_avg": "v", "momentum_buffer": "momentum", "grad_avg": "mean"},
                              ("alpha", "centered")),
    torch.optim.Adagrad: Kind("adagrad", {"lr_decay": "rate_decay", "eps": "epsilon", "weight_decay": "weight_decay",
                                          "initial_accumulator_value": "first_sum"}, NONE_OF_THESE, {"sum": "sum"},
                              ("rate_decay", "first_sum")),
    optim.LAMB: Kind("lamb", {"eps": "epsilon", "weight_decay": "weight_decay", "bias_correction": "bias_correction"},
                     states={"exp_avg": "m", "exp_avg_sq": "v"}, whole=("bias_correction",)),
    optim.LARS: Kind("lars", {"momentum": "momentum", "weight_decay": "weight_decay",
                              "trust_coefficient": "trust_coefficient"},
                     states={"momentum_buffer": "momentum"}, whole=("trust_coefficient",)),
    optim.Lion: Kind("lion", {"weight_decay": "weight_decay"}, states={"exp_avg": "m"}),
    optim.Adafactor: Kind("adafactor", {name: name for name in (
        "weight_decay", "clip_threshold", "decay_rate", "factored", "relative_step", "scale_parameter", "first_moment")},
        states={"exp_avg_sq_row": "row", "exp_avg_sq_col": "column", "exp_avg_sq": "v", "exp_avg": "m"},
        whole=("clip_threshold", "decay_rate", "factored", "relative_step", "scale_parameter", "first_moment")),
}


def kind_of(optimizer):
    if not isinstance(optimizer, torch.optim.Optimizer):
        raise UnsupportedOp("no optimizer of torch.optim", where="optimizer", found=type(optimizer).__name__,
                            expected=", ".join(each.__name__ for each in KINDS),
                            remedy="Make it as for PyTorch: torch.optim.AdamW(module.parameters(), lr=1e-3)")
    kind = KINDS.get(type(optimizer))
    if kind is None:
        raise UnsupportedOp("an optimizer that Ramet does not have", where="optimizer",
                            found=f"{type(optimizer).__module__}.{type(optimizer).__name__}",
                            expected=", ".join(each.__name__ for each in KINDS),
                            remedy="Use one of these, of torch.optim or ramet.torch.optim")
    for hooks in ("_optimizer_step_pre_hooks", "_optimizer_step_post_hooks"):
        if getattr(optimizer, hooks, None):
            raise UnsupportedOp("an optimizer with hooks", where="optimizer", found=hooks.strip("_"),
                                remedy="Remove them; Ramet calls no Python during a step")
    if kind.kind == "adam" and any(group.get("decoupled_weight_decay") for group in optimizer.param_groups):
        kind = KINDS[torch.optim.AdamW]
    return kind


def number(value, where):
    try:
        return float(value)
    except (TypeError, ValueError):
        raise Error("an option of the optimizer that is no number", where=where, found=repr(value)) from None


def options_of(kind, group, where):
    """Ramet's options of a group; refuses what Ramet does not have."""
    refused, found = [], {}
    if group.get("base_momentum") != group.get("max_momentum"):  # which a scheduler leaves here that changes betas or momentum
        raise UnsupportedOp("a scheduler that changes momentum or betas", where=where,
                            found=f"{group.get('base_momentum')} to {group.get('max_momentum')}",
                            remedy="Make it with cycle_momentum=False, and the optimizer anew: only the learning rate may change")
    for name, value in group.items():
        if name in kind.needs:
            if value != kind.needs[name] and not (value is None and not kind.needs[name]):
                refused.append(f"{name}={value!r} (only {kind.needs[name]!r})")
        elif name == "betas":
            found["beta1"], found["beta2"] = (number(each, f"{where}.betas") for each in value)
        elif name in kind.options:
            found[kind.options[name]] = value if isinstance(value, bool) else number(value, f"{where}.{name}")
        elif name not in IGNORED:
            refused.append(f"{name}={value!r}")
    if refused:
        raise UnsupportedOp("options of the optimizer that Ramet does not have", where=where, found=", ".join(refused),
                            remedy="Leave these options as they are by default")
    return found


@dataclasses.dataclass(frozen=True)
class Group:
    """Weights with options of their own."""

    name: str
    weights: tuple  # names
    options: dict


class Plan:
    """What Ramet takes from an optimizer. The optimizer itself stays the source of learning rates."""

    def __init__(self, optimizer, names_of):
        """`names_of`: id of a parameter to its names in the module, the first one first."""
        self.optimizer, self.kind = optimizer, kind_of(optimizer)
        self.groups, self.order, foreign = [], [], 0
        for i, group in enumerate(optimizer.param_groups):
            names = []
            for parameter in group["params"]:
                known = names_of.get(id(parameter))
                foreign += known is None
                self.order.append(known[0] if known else None)
                if known and parameter.requires_grad:
                    names.append(known[0])
            options = options_of(self.kind, group, f"optimizer.param_groups[{i}]")
            self.groups.append(Group(f"group{i}", tuple(names), options))
        if foreign:
            raise Error("the optimizer has parameters that are not the module's", where="optimizer",
                        found=f"{foreign} of {len(self.order)} parameters",
                        remedy="Make the optimizer of this module's parameters(), after the module is complete")
        if not any(group.weights for group in self.groups):
            raise Error("no parameter is trained", where="optimizer",
                        remedy="Set requires_grad of the parameters to train")
        self._check_whole()
        self.rates()

    def _check_whole(self):
        for name in self.kind.whole:
            values = {group.options.get(name) for group in self.groups}
            if len(values) > 1:
                raise UnsupportedOp("an option that must be the same in all groups of the optimizer", where="optimizer",
                                    found=f"{name} of {', '.join(str(value) for value in sorted(values, key=str))}",
                                    remedy="Give all groups the same value")

    @property
    def options(self):
        """Of all weights: those of the first group."""
        return self.groups[0].options

    @property
    def weights(self):
        return {name for group in self.groups for name in group.weights}

    def rates(self):
        """Learning rates of the groups now, by the groups' names."""
        rates = {}
        for group, now in zip(self.groups, self.optimizer.param_groups):
            rate = number(now[RATE], f"optimizer.param_groups: lr of {group.name}")
            if not 0 <= rate < float("inf"):
                raise Error("a learning rate that is not 0 or more", where=f"optimizer.param_groups: {group.name}",
                            found=repr(rate))
            rates[group.name] = rate
        return rates

    def check_unchanged(self):
        """Refuses a change of options that are compiled into the program."""
        if len(self.optimizer.param_groups) != len(self.groups):
            raise UnsupportedOp("a group was added to the optimizer", where="optimizer",
                                remedy="Add all groups before ramet.torch.training_model")
        for i, (group, now) in enumerate(zip(self.groups, self.optimizer.param_groups)):
            options = options_of(self.kind, now, f"optimizer.param_groups[{i}]")
            changed = [name for name, value in options.items() if value != group.options.get(name)]
            if changed:
                raise UnsupportedOp(
                    "options of the optimizer changed after the program was compiled",
                    where=f"optimizer.param_groups[{i}]",
                    found=", ".join(f"{name} {group.options.get(name)} -> {options[name]}" for name in changed),
                    remedy="Only the learning rate may change")

    # --- states, in torch.optim's form ---

    def state_dict(self, steps, state, states):
        """`state`: name of a state to its tensor; `states`: names of all that there are."""
        by_weight = {}
        if steps > 0:
            for number_of_weight, weight in enumerate(self.order):
                found = {theirs: state(f"optimizer.{ours}.{weight}")
                         for theirs, ours in self.kind.states.items() if f"optimizer.{ours}.{weight}" in states}
                if found:
                    if self.kind.kind != "sgd":
                        found["step"] = torch.tensor(float(steps))
                    by_weight[number_of_weight] = found
        plain = self.optimizer.state_dict()
        return {"state": by_weight, "param_groups": plain["param_groups"]}

    def states_of(self, given, states):
        """(steps or None, tensors by the names of Ramet's states) of a state_dict of torch.optim."""
        steps, tensors = set(), {}
        for number_of_weight, found in given.get("state", {}).items():
            if not isinstance(number_of_weight, int) or not 0 <= number_of_weight < len(self.order):
                raise Error("a state of a parameter that the optimizer does not have", where="optimizer state_dict",
                            found=str(number_of_weight), expected=f"0 to {len(self.order) - 1}")
            weight = self.order[number_of_weight]
            for theirs, value in found.items():
                if theirs == "step":
                    steps.add(int(value))
                    continue
                if value is None:
                    continue
                name = f"optimizer.{self.kind.states.get(theirs)}.{weight}"
                if name not in states:
                    raise Error("a state that the program does not have", where=f"optimizer state_dict, '{weight}'",
                                found=theirs, expected=", ".join(self.kind.states) or "no state")
                tensors[name] = value
        if len(steps) > 1:
            raise Error("parameters that were updated in different numbers of steps", where="optimizer state_dict",
                        found=", ".join(str(step) for step in sorted(steps)), expected="one number")
        return (steps.pop() if steps else None), tensors
