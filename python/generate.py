#!/usr/bin/env python3
"""Writes the Python bindings of ops and optimizers: reads include/ramet/ops.h and optimizer.h, writes C++ for nanobind.

usage: generate.py OPS_H OPTIMIZER_H OUTPUT.cc

Names are those of C++. An options struct of an op becomes keyword arguments; a struct of results, of weights or of an
optimizer becomes a class.
A declaration that this script does not understand is an error.
"""
import re
import sys

# C++ type of an argument: the type of the lambda's parameter, and how it is passed on.
ARGUMENTS = {
    "Operand": ("OperandArgument", "{0}.tensor"),
    "const Tensor&": ("OperandArgument", "{0}.tensor"),
    "Tensor": ("OperandArgument", "{0}.tensor"),
    "double": ("double", "{0}"),
    "int64_t": ("int64_t", "{0}"),
    "bool": ("bool", "{0}"),
    "std::string": ("std::string", "{0}"),
    "const std::string&": ("std::string", "{0}"),
    "std::string_view": ("std::string", "{0}"),
    "DType": ("DTypeArgument", "{0}.dtype()"),
    "std::optional<DType>": ("std::optional<DTypeArgument>", "dtype_of({0})"),
    "std::optional<double>": ("std::optional<double>", "{0}"),
    "Shape": ("std::vector<int64_t>", "ramet::Shape({0})"),
    "std::vector<int64_t>": ("std::vector<int64_t>", "{0}"),
    "const std::vector<int64_t>&": ("std::vector<int64_t>", "{0}"),
    "std::vector<double>": ("std::vector<double>", "{0}"),
    "const std::vector<Tensor>&": ("std::vector<OperandArgument>", "tensors_of({0})"),
    "const std::vector<RecurrentWeights>&": ("const std::vector<ramet::RecurrentWeights>&", "{0}"),
    "LossReduction": ("std::string", "reduction_of({0})"),
    "Builder&": ("PyBuilder&", "{0}.get()"),
}
DEFAULTS = {"Tensor()": "nb::none()", "std::nullopt": "nb::none()", "LossReduction::kMean": '"mean"'}
PYTHON_WORDS = {"lambda": "lambda_", "from": "from_", "is": "is_", "in": "in_"}


def strip_comment(text):
    return re.sub(r"//.*", "", text)


def split_arguments(text):
    parts, depth, now = [], 0, ""
    for letter in text:
        depth += letter in "(<{"
        depth -= letter in ")>}"
        if letter == "," and depth == 0:
            parts.append(now.strip())
            now = ""
        else:
            now += letter
    return parts + [now.strip()] if now.strip() else parts


def default_of(cpp_type, text):
    """A default value as nanobind takes it."""
    if text in DEFAULTS:
        return DEFAULTS[text]
    if text in ("{}", ""):
        if cpp_type == "Tensor":
            return "nb::none()"
        if cpp_type.startswith("std::optional"):
            return "nb::none()"
        return ARGUMENTS[cpp_type][0] + "{}"
    if match := re.fullmatch(r"DType::k(\w+)", text):
        return f'"{match[1].lower()}"'
    if cpp_type == "double" and re.fullmatch(r"-?[\d.e-]+", text):
        return f"double({text})"
    if cpp_type == "int64_t":
        return f"int64_t({text})"
    return text


class Argument:
    def __init__(self, cpp_type, name, default, doc=""):
        self.type, self.name, self.default, self.doc = cpp_type, name, default, doc
        self.python = PYTHON_WORDS.get(name, name)

    def parameter(self):
        return f"{ARGUMENTS[self.type][0]} {self.python}"

    def passed(self):
        return ARGUMENTS[self.type][1].format(self.python)

    def annotation(self):
        text = f'"{self.python}"_a'
        return text if self.default is None else f"{text} = {default_of(self.type, self.default)}"


def parse_argument(text):
    match = re.fullmatch(r"(.*?)\s*\b(\w+)(?:\s*=\s*(.*))?", text, re.S)
    left, default = (text.split("=", 1) + [None])[:2]
    match = re.fullmatch(r"(.*[\s&])(\w+)", left.strip(), re.S)
    return Argument(match[1].strip(), match[2], default.strip() if default is not None else None)


class Struct:
    def __init__(self, name, fields, doc):
        self.name, self.fields, self.doc = name, fields, doc


def parse_struct(name, lines, doc):
    fields, pending = [], []
    for line in lines:
        comment = re.search(r"///<\s*(.*)$", line)
        above = re.match(r"\s*///(?!<)\s?(.*)$", line)
        if above:
            pending.append(above[1].strip())
            continue
        code = strip_comment(line).strip().rstrip(";")
        if code.startswith("enum "):
            continue
        if not code:
            if line.strip().startswith("///<"):
                fields[-1].doc += " " + comment[1]
            elif line.strip().startswith("//") and fields:
                fields[-1].doc += " " + line.strip().lstrip("/ ")
            continue
        about = (comment[1] if comment else " ".join(pending)).strip()
        pending = []
        match = re.match(r"([\w:]+(?:<[\w:]+>)?)\s+(.*)", code)
        for piece in split_arguments(match[2]):
            named = re.fullmatch(r"(\w+)(?:\s*=\s*(.*)|(\{\}))?", piece)
            fields.append(Argument(match[1], named[1], named[2] if named[2] is not None else named[3], about))
    return Struct(name, fields, doc)


def read(path):
    """Structs by name, and functions in order: (name, result, arguments, doc)."""
    lines = open(path).read().split("\n")
    structs, functions, doc, i = {}, [], [], 0
    while i < len(lines):
        line = lines[i]
        if re.match(r"\s*///", line):
            doc.append(re.sub(r"^\s*///<?\s?", "", line))
        elif match := re.match(r"struct (\w+) \{", line):
            end = lines.index("};", i)
            structs[match[1]] = parse_struct(match[1], lines[i + 1:end], " ".join(doc))
            doc, i = [], end
        elif line.startswith("RAMET_API "):
            text = line
            while ";" not in strip_comment(text.split("\n")[-1]):
                i += 1
                text += "\n" + lines[i]
            trailing = re.search(r"///<\s*(.*)$", text)
            code = re.sub(r"\s+", " ", "\n".join(strip_comment(part) for part in text.split("\n"))).strip()
            match = re.fullmatch(r"RAMET_API ([\w:<>, ]+?) (\w+)\((.*)\);", code)
            if not match:
                sys.exit(f"generate.py: {path}:{i + 1}: a declaration that is not understood: {code}")
            arguments = [parse_argument(each) for each in split_arguments(match[3])]
            about = doc + ([trailing[1]] if trailing else [])
            functions.append((match[2], match[1], arguments, " ".join(about), i + 1))
            doc = []
        elif not line.strip().startswith("//"):
            doc = []
        i += 1
    return structs, functions


def options_struct(argument, structs):
    name = argument.type.removeprefix("const ").rstrip("&")
    return structs[name] if name in structs and name.endswith("Options") else None


def cpp_text(text):
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def write_function(function, structs, path):
    name, result, arguments, doc, line = function
    plain, flattened, calls, before, notes = [], [], [], [], []
    for argument in arguments:
        if "source_location" in argument.type:
            continue
        options = options_struct(argument, structs)
        if options:
            before.append(f"    ramet::{options.name} {argument.name};")
            for field in options.fields:
                if field.type not in ARGUMENTS:
                    sys.exit(f"generate.py: {path}: {options.name}::{field.name} has a type that is not known")
                before.append(f"    {argument.name}.{field.name} = {field.passed()};")
                (flattened if field.default is not None else plain).append(field)
                if field.doc:
                    notes.append(f"{field.python}: {field.doc}")
            calls.append(argument.name)
        elif argument.type.removeprefix("const ").rstrip("&") in structs:
            of = argument.type.removeprefix("const ").rstrip("&")
            ARGUMENTS.setdefault(argument.type, (f"const ramet::{of}&", "{0}"))
            plain.append(argument)
            calls.append(argument.passed())
        elif argument.type in ARGUMENTS:
            plain.append(argument)
            calls.append(argument.passed())
        else:
            sys.exit(f"generate.py: {path}:{line}: {name}: the type '{argument.type}' is not known")
    every = plain + flattened
    names = [each.python for each in every]
    if len(set(names)) != len(names):
        sys.exit(f"generate.py: {path}:{line}: {name}: two arguments of one name: {names}")
    annotations = [each.annotation() for each in plain]
    if flattened:
        annotations += ["nb::kw_only()"] + [each.annotation() for each in flattened]
    text = doc + ("\n\n" + "\n".join(notes) if notes else "")
    text = cpp_text(text).replace("\n", "\\n")
    out = [f'  m.def("{name}", []({", ".join(each.parameter() for each in every)}) {{']
    out += before
    out.append(f"    return ramet::{name}({', '.join(calls)});")
    out.append(f"  }}, nb::call_guard<AtCaller>(), {', '.join(annotations)}, {text});")
    return "\n".join(out)


def write_class(struct, is_result):
    """Weights are made by the user; results are read, and unpacked like a tuple."""
    name = struct.name
    out = [f'  nb::class_<ramet::{name}>(m, "{name}", {cpp_text(struct.doc)})']
    if not is_result:
        parameters = ", ".join(field.parameter() for field in struct.fields)
        values = ", ".join(f".{field.name} = {field.passed()}" for field in struct.fields)
        annotations = ", ".join(field.annotation() for field in struct.fields)
        out.append(f'      .def("__init__", [](ramet::{name}* self, {parameters}) {{\n'
                   f"        new (self) ramet::{name}{{{values}}};\n      }}, {annotations})")
    for field in struct.fields:
        out.append(f'      .def_prop_ro("{field.python}", [](const ramet::{name}& self) {{ return tensor_or_none(self.'
                   f"{field.name}); }}, {cpp_text(field.doc)})")
    if is_result:
        values = ", ".join(f"tensor_or_none(self.{field.name})" for field in struct.fields)
        out.append(f'      .def("__iter__", [](const ramet::{name}& self) {{ return nb::iter(nb::make_tuple({values})); }})')
    return "\n".join(out) + ";"


def write_optimizer(struct):
    name = struct.name
    fields = struct.fields
    out = [f'  nb::class_<ramet::{name}>(m, "{name}", {cpp_text(struct.doc)})']
    values = ", ".join(f".{field.name} = {field.passed()}" for field in fields)
    out.append(f'      .def("__init__", [](ramet::{name}* self, {", ".join(field.parameter() for field in fields)}) {{\n'
               f"        new (self) ramet::{name}{{{values}}};\n"
               f"      }}, nb::kw_only(), {', '.join(field.annotation() for field in fields)})")
    for field in fields:
        out.append(f'      .def_rw("{field.python}", &ramet::{name}::{field.name}, {cpp_text(field.doc)})')
    shown = ' + ", '.join(f'{field.python}=" + text_of(self.{field.name})' for field in fields)
    out.append(f'      .def("__repr__", [text_of](const ramet::{name}& self) {{ return std::string("ramet.{name}({shown} + ")"); }})')
    return "\n".join(out) + ";"


def main():
    path, optimizers_path, target = sys.argv[1:]
    optimizers, _ = read(optimizers_path)
    with open(optimizers_path) as file:
        kinds = re.search(r"using Optimizer = std::variant<([^>]*)>", file.read())[1]
    structs, functions = read(path)
    results = {result for _, result, _, _, _ in functions}
    classes = [struct for struct in structs.values() if not struct.name.endswith("Options")]
    # The functions first: they tell which options have types that are not known.
    defined = "\n".join(write_function(function, structs, path) for function in functions)
    text = f"""// Written by python/generate.py from the public headers. Do not edit.
#include "builder.h"
#include "options.h"
#include "ramet/ramet.h"

namespace ramet_python {{

void bind_ops(nb::module_& m) {{
{chr(10).join(write_class(struct, struct.name in results) for struct in classes)}
{defined}
}}

void bind_optimizers(nb::module_& m) {{
  const auto text_of = [](auto value) {{ return nb::cast<std::string>(nb::repr(nb::cast(value))); }};
{chr(10).join(write_optimizer(optimizers[kind.strip()]) for kind in kinds.split(","))}
}}

}}  // namespace ramet_python
"""
    with open(target, "w") as file:
        file.write(text)


if __name__ == "__main__":
    main()
