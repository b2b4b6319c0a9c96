#include "ramet/front/torch_json.h"

#include <algorithm>
#include <array>

#include "ramet/base/error_types.h"
#include "ramet/front/torch_fields.h"

namespace ramet::front {
namespace {

constexpr int64_t kMostDimensions = 64;

constexpr std::array<const char*, 5> kMemoryFormats = {"unknown", "contiguous", "channels_last", "channels_last_3d",
                                                       "preserve"};
constexpr std::array<const char*, 8> kLayouts = {"unknown",    "sparse_coo", "sparse_csr", "sparse_csc",
                                                 "sparse_bsr", "sparse_bsc", "mkldnn",     "strided"};

/// Reads one program. Every access to the text goes through TorchFields.
class Reader : private TorchFields {
 public:
  explicit Reader(const std::string& source) : TorchFields(source) {}

  TracedProgram read(const Json& root) {
    check_version(root);
    const Json& module = object(root, "graph_module");
    const Json& graph = object(module, "graph");
    for (const auto& [name, value] : object(graph, "tensor_values").items()) read_type(name, value);
    for (const Json& node : list(graph, "nodes")) read_call(node);
    const Json& signature = object(module, "signature");
    for (const Json& spec : list(signature, "input_specs")) read_input(spec);
    for (const Json& spec : list(signature, "output_specs")) read_output(spec);
    check_names();
    return std::move(program_);
  }

 private:
  void check_version(const Json& root) const {
    const Json& version = object(root, "schema_version");
    const int64_t major = integer(field(version, "major"), "major"), minor = integer(field(version, "minor"), "minor");
    if (major != kTorchSchemaMajor)
      refuse("the program has another version of torch.export's format",
             std::to_string(major) + "." + std::to_string(minor), std::to_string(kTorchSchemaMajor) + ".x",
             "Export the module with a version of PyTorch that writes format " + std::to_string(kTorchSchemaMajor) +
                 " (2.15 does)");
  }

  void read_type(const std::string& name, const Json& value) {
    at("tensor '" + name + "'");
    const TorchDType& scalar = scalar_type(field(value, "dtype"));
    std::vector<int64_t> dims;
    std::string shape;
    bool fixed = true;
    const Json& sizes = list(value, "sizes");
    if (std::ssize(sizes) > kMostDimensions)
      refuse("a tensor has too many dimensions", std::to_string(sizes.size()), std::to_string(kMostDimensions));
    for (const Json& size : sizes) {
      const auto [kind, extent] = member(size, "sizes");
      if (kind == "as_int") {
        dims.push_back(integer(extent, kind));
        if (dims.back() < 0) refuse("a tensor has a negative extent", std::to_string(dims.back()));
        shape += (shape.empty() ? "" : ", ") + std::to_string(dims.back());
      } else if (kind == "as_expr") {
        fixed = false;
        shape += (shape.empty() ? "" : ", ") + text(extent, "expr_str");
      } else {
        refuse("a size of a kind that is not known", std::string(kind), "as_int or as_expr");
      }
    }
    const int64_t layout = integer(field(value, "layout"), "layout");
    at("");
    if (!fixed) {
      program_.untyped[name] = "its shape [" + shape + "] is not fixed";
    } else if (layout != 7) {
      program_.untyped[name] = "it is " + word(kLayouts, layout, "layout") + ", not dense";
    } else if (scalar.number == 10) {
      dims.push_back(2);
      add_type(name, DType::kF32, std::move(dims));
      program_.complex.insert(name);
    } else if (!scalar.dtype) {
      program_.untyped[name] = "its elements are " + std::string(scalar.name);
    } else {
      add_type(name, *scalar.dtype, std::move(dims));
    }
  }
  void add_type(const std::string& name, DType dtype, std::vector<int64_t> dims) {
    TensorType type{dtype, Shape(std::move(dims))};
    at("tensor '" + name + "'");
    try {
      static_cast<void>(type.bytes());  // which must be a number
    } catch (const Error& error) {
      refuse(error.parts().what, error.parts().found);
    }
    at("");
    program_.types[name] = std::move(type);
  }

  static TracedArgument of_integer(int64_t value) {
    TracedArgument made;
    made.kind = TracedArgument::Kind::kInt, made.integer = value, made.number = static_cast<double>(value);
    return made;
  }
  static TracedArgument of_number(double value) {
    TracedArgument made;
    made.kind = TracedArgument::Kind::kFloat, made.number = value;
    return made;
  }
  static TracedArgument of_flag(bool value) {
    TracedArgument made;
    made.kind = TracedArgument::Kind::kBool, made.flag = value, made.integer = value, made.number = value;
    return made;
  }
  static TracedArgument of_text(std::string value, TracedArgument::Kind kind = TracedArgument::Kind::kText) {
    TracedArgument made;
    made.kind = kind, made.text = std::move(value);
    return made;
  }
  TracedArgument of_tensor(const Json& value) const {
    return of_text(text(value, "name"), TracedArgument::Kind::kTensor);
  }
  /// A number that the program computes: it has a name like a tensor, but no type.
  TracedArgument of_symbol(const Json& value) {
    std::string name = text(value, "as_name");
    if (!program_.types.count(name)) program_.untyped.try_emplace(name, "it is a number that depends on data");
    return of_text(std::move(name), TracedArgument::Kind::kTensor);
  }
  template <typename Make>
  TracedArgument of_list(const Json& values, std::string_view name, const Make& make) {
    if (!values.is_array()) refuse_kind(name, values, "a list");
    TracedArgument made;
    made.kind = TracedArgument::Kind::kList;
    for (const Json& value : values) made.list.push_back(make(value));
    return made;
  }

  TracedArgument read_argument(const Json& argument) {
    const auto [kind, value] = member(argument, "arg");
    const std::string_view name = kind;
    const auto integers = [&](const Json& one) { return of_integer(integer(one, name)); };
    const auto numbers = [&](const Json& one) { return of_number(number(one, name)); };
    if (name == "as_none") return {};
    if (name == "as_tensor") return of_tensor(value);
    if (name == "as_tensors") return of_list(value, name, [&](const Json& one) { return of_tensor(one); });
    if (name == "as_int") return of_integer(integer(value, name));
    if (name == "as_ints") return of_list(value, name, integers);
    if (name == "as_float") return of_number(number(value, name));
    if (name == "as_floats") return of_list(value, name, numbers);
    if (name == "as_bool") return of_flag(flag(value, name));
    if (name == "as_bools") return of_list(value, name, [&](const Json& one) { return of_flag(flag(one, name)); });
    if (name == "as_string") return of_text(text_of(value, name));
    if (name == "as_strings") return of_list(value, name, [&](const Json& one) { return of_text(text_of(one, name)); });
    if (name == "as_scalar_type") return of_text(scalar_type(value).name);
    if (name == "as_memory_format") return of_text(word(kMemoryFormats, integer(value, name), "as_memory_format"));
    if (name == "as_layout") return of_text(word(kLayouts, integer(value, name), "as_layout"));
    if (name == "as_device") return of_text(text(value, "type"));
    if (name == "as_optional_tensor") return optional_tensor(value);
    if (name == "as_optional_tensors")
      return of_list(value, name, [&](const Json& one) { return optional_tensor(one); });
    if (name == "as_int_lists")
      return of_list(value, name, [&](const Json& one) { return of_list(one, name, integers); });
    if (name == "as_float_lists")
      return of_list(value, name, [&](const Json& one) { return of_list(one, name, numbers); });
    if (name == "as_nested_tensors")
      return of_list(value, name, [&](const Json& one) {
        return of_list(one, name, [&](const Json& inner) { return of_tensor(inner); });
      });
    if (name == "as_sym_int" || name == "as_sym_float" || name == "as_sym_bool") return symbolic(value);
    if (name == "as_sym_ints" || name == "as_sym_floats" || name == "as_sym_bools")
      return of_list(value, name, [&](const Json& one) { return symbolic(one); });
    // Graphs, operators, complex numbers and objects of classes: no operator of the table takes them.
    return of_text("an argument of kind " + std::string(name));
  }
  TracedArgument optional_tensor(const Json& value) const {
    const auto [kind, inner] = member(value, "as_optional_tensor");
    return kind == "as_none" ? TracedArgument() : of_tensor(inner);
  }
  TracedArgument symbolic(const Json& value) {
    const auto [kind, inner] = member(value, "as_sym_int");
    if (kind == "as_int") return of_integer(integer(inner, kind));
    if (kind == "as_float") return of_number(number(inner, kind));
    if (kind == "as_bool") return of_flag(flag(inner, kind));
    return of_symbol(value);
  }

  /// Appends the names of the tensors of an argument, "" for each that is none.
  static void add_names(const TracedArgument& argument, std::vector<std::string>& names) {
    if (argument.kind == TracedArgument::Kind::kList)
      for (const TracedArgument& one : argument.list) add_names(one, names);
    else
      names.push_back(argument.kind == TracedArgument::Kind::kTensor ? argument.text : "");
  }

  void read_call(const Json& node) {
    at("node " + std::to_string(program_.calls.size()));
    TracedCall call;
    std::string target = text(node, "target");
    at("node " + std::to_string(program_.calls.size()) + " " + target);
    constexpr std::string_view kPrefix = "torch.ops.";
    if (target.starts_with(kPrefix)) target.erase(0, kPrefix.size());
    const size_t first = target.find('.'), second = first == std::string::npos ? first : target.find('.', first + 1);
    call.op = target.substr(0, second);
    if (second != std::string::npos) call.overload = target.substr(second + 1);
    for (const Json& input : list(node, "inputs"))
      call.arguments.emplace_back(text(input, "name"), read_argument(field(input, "arg")));
    for (const Json& output : list(node, "outputs")) add_names(read_argument(output), call.outputs);
    const Json& metadata = object(node, "metadata");
    if (const auto modules = metadata.find("nn_module_stack"); modules != metadata.end())
      call.module = read_modules(text_of(*modules, "nn_module_stack"));
    if (const auto trace = metadata.find("stack_trace"); trace != metadata.end())
      call.origin = origin_of_trace(text_of(*trace, "stack_trace"));
    program_.calls.push_back(std::move(call));
    at("");
  }

  /// The path of the innermost module of "KEY,PATH,CLASS;KEY,PATH,CLASS".
  std::string read_modules(const std::string& stack) {
    std::string path;
    for (size_t begin = 0; begin < stack.size();) {
      const size_t end = std::min(stack.find(';', begin), stack.size());
      const std::string entry = stack.substr(begin, end - begin);
      const size_t first = entry.find(','), last = entry.rfind(',');
      if (first != std::string::npos && last > first) {
        path = entry.substr(first + 1, last - first - 1);
        // A second call of a module has the path "layer@1".
        path.erase(std::min(path.find('@'), path.size()));
        program_.modules[path] = entry.substr(last + 1);
      }
      begin = end + 1;
    }
    return path;
  }

  static std::string origin_of_trace(const std::string& trace);

  void read_input(const Json& spec) {
    const auto [kind, value] = member(spec, "input_specs");
    at("an input");
    using Kind = TracedInput::Kind;
    if (kind == "parameter")
      add_input(Kind::kParameter, text(object(value, "arg"), "name"), text(value, "parameter_name"));
    else if (kind == "buffer")
      add_input(Kind::kBuffer, text(object(value, "arg"), "name"), text(value, "buffer_name"));
    else if (kind == "tensor_constant")
      add_input(Kind::kConstant, text(object(value, "arg"), "name"), text(value, "tensor_constant_name"));
    else if (kind == "user_input") {
      // Plain numbers and Nones are constants of the trace.
      const TracedArgument argument = read_argument(object(value, "arg"));
      if (argument.kind == TracedArgument::Kind::kTensor) add_input(Kind::kUser, argument.text, argument.text);
    } else if (kind != "constant_input") {
      refuse("the program has an input that is no tensor", std::string(kind), "tensors and plain numbers",
             "Give such objects to the module when it is built, not when it is called");
    }
    at("");
  }
  void add_input(TracedInput::Kind kind, std::string value, std::string target) {
    if (const auto reason = program_.untyped.find(value); reason != program_.untyped.end()) {
      at("input '" + target + "'");
      refuse("an input of the program is not supported: " + reason->second, "", "a dense tensor of a fixed shape",
             "Export the module without dynamic_shapes, and with real numbers");
    }
    program_.inputs.push_back({kind, std::move(value), std::move(target)});
  }

  void read_output(const Json& spec) {
    const auto [kind, value] = member(spec, "output_specs");
    at("an output");
    if (kind == "user_output") {
      const TracedArgument argument = read_argument(object(value, "arg"));
      const bool tensor = argument.kind == TracedArgument::Kind::kTensor;
      program_.outputs.push_back({TracedOutput::Kind::kUser, tensor ? argument.text : "", ""});
    } else if (kind == "loss_output") {
      program_.outputs.push_back({TracedOutput::Kind::kUser, text(object(value, "arg"), "name"), ""});
    } else if (kind == "buffer_mutation") {
      program_.outputs.push_back(
          {TracedOutput::Kind::kBufferMutation, text(object(value, "arg"), "name"), text(value, "buffer_name")});
    } else {
      refuse("the program changes something that is no buffer", std::string(kind), "outputs and changed buffers",
             kind == "user_input_mutation" ? "Copy the input (x = x.clone()) before it is changed in place"
                                           : "Change parameters by the optimizer alone");
    }
    at("");
  }

  /// Every value has a type (or a reason why not) and is made once, before it is read.
  void check_names() {
    std::set<std::string, std::less<>> made;
    const auto make = [&](const std::string& name, const std::string& by) {
      if (name.empty()) return;
      if (!program_.types.count(name) && !program_.untyped.count(name))
        program_.untyped[name] = "its type is not recorded";
      if (!made.insert(name).second) refuse("two values of a program have one name", "'" + name + "' of " + by);
    };
    const auto read = [&](const std::string& name, const std::string& by) {
      if (!made.count(name)) refuse("a program reads a value before it is made", "'" + name + "' by " + by);
    };
    for (const TracedInput& input : program_.inputs) make(input.value, "the inputs");
    for (const TracedCall& call : program_.calls) {
      std::vector<std::string> names;
      for (const auto& [name, argument] : call.arguments) add_names(argument, names);
      for (const std::string& name : names)
        if (!name.empty()) read(name, call.op);
      for (const std::string& name : call.outputs) make(name, call.op);
    }
    for (const TracedOutput& output : program_.outputs)
      if (!output.value.empty()) read(output.value, "the outputs");
  }

  TracedProgram program_{};
};

/// "model.py:88 in forward": the innermost line of a trace that is not PyTorch's own; "" where all are.
std::string Reader::origin_of_trace(const std::string& trace) {
  std::string best;
  for (size_t begin = trace.find("File \""); begin != std::string::npos; begin = trace.find("File \"", begin + 1)) {
    const size_t path_begin = begin + 6, path_end = trace.find("\", line ", path_begin);
    if (path_end == std::string::npos) break;
    const size_t line_begin = path_end + 8;
    const size_t line_end = trace.find_first_not_of("0123456789", line_begin);
    const size_t end = std::min(trace.find('\n', line_begin), trace.size());
    if (line_end == std::string::npos || line_end > end) break;
    const std::string path = trace.substr(path_begin, path_end - path_begin);
    if (path.find("site-packages/torch/") != std::string::npos) continue;
    best = path.substr(path.find_last_of("/\\") + 1) + ":" + trace.substr(line_begin, line_end - line_begin);
    const size_t function = trace.find(", in ", line_end);
    if (function != std::string::npos && function < end)
      best += " in " + trace.substr(function + 5, end - function - 5);
  }
  return best;
}

}  // namespace

void each_tensor_of(const TracedArgument& argument, const std::function<void(const std::string&)>& visit) {
  if (argument.kind == TracedArgument::Kind::kTensor) visit(argument.text);
  for (const TracedArgument& one : argument.list) each_tensor_of(one, visit);
}

void each_tensor_of(const TracedCall& call, const std::function<void(const std::string&)>& visit) {
  for (const auto& [name, argument] : call.arguments) each_tensor_of(argument, visit);
}

const TracedArgument* TracedCall::find(std::string_view name) const {
  for (const auto& [key, argument] : arguments)
    if (key == name) return &argument;
  return nullptr;
}

TracedProgram read_torch_program(std::string_view text, const std::string& source) {
  return read_torch_program(parse_torch_text(text, source), source);
}
TracedProgram read_torch_program(const Json& root, const std::string& source) { return Reader(source).read(root); }

}  // namespace ramet::front
