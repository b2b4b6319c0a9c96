#include "ramet/front/torch_json.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "ramet/base/error.h"

namespace ramet::front {
namespace {

using Json = nlohmann::json;

constexpr int64_t kMostDimensions = 64;

/// torch's numbers of element types (ScalarType of torch/_export/serde/schema.py).
struct ScalarType {
  int64_t number;
  const char* name;
  std::optional<DType> dtype;
};
constexpr std::array<ScalarType, 22> kScalarTypes = {{
    {1, "u8", DType::kU8},
    {2, "i8", DType::kI8},
    {3, "i16", DType::kI16},
    {4, "i32", DType::kI32},
    {5, "i64", DType::kI64},
    {6, "f16", DType::kF16},
    {7, "f32", DType::kF32},
    {8, "f64", DType::kF64},
    {9, "complex32", std::nullopt},
    {10, "complex64", std::nullopt},
    {11, "complex128", std::nullopt},
    {12, "bool", DType::kBool},
    {13, "bf16", DType::kBF16},
    {28, "u16", DType::kU16},
    {29, "f8e4m3", DType::kF8E4M3},
    {30, "f8e5m2", DType::kF8E5M2},
    {31, "float8_e4m3fnuz", std::nullopt},
    {32, "float8_e5m2fnuz", std::nullopt},
    {33, "float8_e8m0fnu", std::nullopt},
    {34, "u32", DType::kU32},
    {35, "u64", DType::kU64},
    {0, "unknown", std::nullopt},
}};
constexpr std::array<const char*, 5> kMemoryFormats = {"unknown", "contiguous", "channels_last", "channels_last_3d",
                                                       "preserve"};
constexpr std::array<const char*, 8> kLayouts = {"unknown",    "sparse_coo", "sparse_csr", "sparse_csc",
                                                 "sparse_bsr", "sparse_bsc", "mkldnn",     "strided"};

/// The member that a union of the format has: its name and its value.
struct Member {
  std::string_view name;
  const Json& value;
};

/// Reads one program. Every access to the text goes through the functions below, which throw Error.
class Reader {
 public:
  explicit Reader(const std::string& source) : source_(source) {}

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
  [[noreturn]] void refuse(const std::string& what, const std::string& found = "", const std::string& expected = "",
                           const std::string& remedy = "") const {
    throw Error({.what = what,
                 .where = at_.empty() ? source_ : source_ + ": " + at_,
                 .found = found,
                 .expected = expected,
                 .remedy = remedy});
  }

  // --- parts of the text ---

  const Json& field(const Json& of, const char* name) const {
    if (!of.is_object()) refuse("a program of torch.export has no object where one must be", of.type_name(), name);
    const auto found = of.find(name);
    if (found == of.end()) refuse("a program of torch.export lacks a field", "", name);
    return *found;
  }
  const Json& object(const Json& of, const char* name) const {
    const Json& value = field(of, name);
    if (!value.is_object()) refuse_kind(name, value, "an object");
    return value;
  }
  const Json& list(const Json& of, const char* name) const {
    const Json& value = field(of, name);
    if (!value.is_array()) refuse_kind(name, value, "a list");
    return value;
  }
  std::string text(const Json& of, const char* name) const { return text_of(field(of, name), name); }
  std::string text_of(const Json& value, std::string_view name) const {
    if (!value.is_string()) refuse_kind(name, value, "a text");
    return value.get<std::string>();
  }
  int64_t integer(const Json& value, std::string_view name) const {
    if (!value.is_number_integer()) refuse_kind(name, value, "an integer");
    if (value.is_number_unsigned() &&
        value.get<uint64_t>() > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()))
      refuse_kind(name, value, "an integer of 64 bits");
    return value.get<int64_t>();
  }
  double number(const Json& value, std::string_view name) const {
    if (value.is_number()) return value.get<double>();
    if (value.is_string()) {
      const std::string word = value.get<std::string>();
      if (word == "Infinity") return std::numeric_limits<double>::infinity();
      if (word == "-Infinity") return -std::numeric_limits<double>::infinity();
      if (word == "NaN") return std::numeric_limits<double>::quiet_NaN();
    }
    refuse_kind(name, value, "a number");
  }
  bool flag(const Json& value, std::string_view name) const {
    if (!value.is_boolean()) refuse_kind(name, value, "true or false");
    return value.get<bool>();
  }
  Member member(const Json& of, std::string_view name) const {
    if (!of.is_object() || of.size() != 1) refuse_kind(name, of, "an object with one field");
    return {of.begin().key(), *of.begin()};
  }
  [[noreturn]] void refuse_kind(std::string_view name, const Json& value, const std::string& expected) const {
    refuse("'" + std::string(name) + "' of a program of torch.export is of the wrong kind", value.type_name(),
           expected);
  }

  // --- the program ---

  void check_version(const Json& root) const {
    const Json& version = object(root, "schema_version");
    const int64_t major = integer(field(version, "major"), "major"), minor = integer(field(version, "minor"), "minor");
    if (major != kTorchSchemaMajor)
      refuse("the program has another version of torch.export's format",
             std::to_string(major) + "." + std::to_string(minor), std::to_string(kTorchSchemaMajor) + ".x",
             "Export the module with a version of PyTorch that writes format " + std::to_string(kTorchSchemaMajor) +
                 " (2.15 does)");
  }

  const ScalarType& scalar_type(const Json& value) const {
    const int64_t wanted = integer(value, "dtype");
    for (const ScalarType& type : kScalarTypes)
      if (type.number == wanted) return type;
    refuse("an element type that is not known", std::to_string(wanted));
  }

  void read_type(const std::string& name, const Json& value) {
    at_ = "tensor '" + name + "'";
    const ScalarType& scalar = scalar_type(field(value, "dtype"));
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
    at_.clear();
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
    at_ = "tensor '" + name + "'";
    try {
      static_cast<void>(type.bytes());  // which must be a number
    } catch (const Error& error) {
      refuse(error.parts().what, error.parts().found);
    }
    at_.clear();
    program_.types[name] = std::move(type);
  }

  template <size_t N>
  std::string word(const std::array<const char*, N>& words, int64_t number, const char* name) const {
    if (number < 0 || number >= static_cast<int64_t>(N))
      refuse("'" + std::string(name) + "' of a program of torch.export is out of range", std::to_string(number));
    return words[static_cast<size_t>(number)];
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
    at_ = "node " + std::to_string(program_.calls.size());
    TracedCall call;
    std::string target = text(node, "target");
    at_ += " " + target;
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
    at_.clear();
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
    at_ = "an input";
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
    at_.clear();
  }
  void add_input(TracedInput::Kind kind, std::string value, std::string target) {
    if (const auto reason = program_.untyped.find(value); reason != program_.untyped.end()) {
      at_ = "input '" + target + "'";
      refuse("an input of the program is not supported: " + reason->second, "", "a dense tensor of a fixed shape",
             "Export the module without dynamic_shapes, and with real numbers");
    }
    program_.inputs.push_back({kind, std::move(value), std::move(target)});
  }

  void read_output(const Json& spec) {
    const auto [kind, value] = member(spec, "output_specs");
    at_ = "an output";
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
    at_.clear();
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

  const std::string& source_;
  std::string at_{};  ///< part of the text that is read
  TracedProgram program_{};
};

/// "model.py:88 in forward": the innermost line of a trace that is not PyTorch's own.
std::string Reader::origin_of_trace(const std::string& trace) {
  std::string best, last;
  for (size_t begin = trace.find("File \""); begin != std::string::npos; begin = trace.find("File \"", begin + 1)) {
    const size_t path_begin = begin + 6, path_end = trace.find("\", line ", path_begin);
    if (path_end == std::string::npos) break;
    const size_t line_begin = path_end + 8;
    const size_t line_end = trace.find_first_not_of("0123456789", line_begin);
    const size_t end = std::min(trace.find('\n', line_begin), trace.size());
    if (line_end == std::string::npos || line_end > end) break;
    const std::string path = trace.substr(path_begin, path_end - path_begin);
    last = path.substr(path.find_last_of("/\\") + 1) + ":" + trace.substr(line_begin, line_end - line_begin);
    const size_t function = trace.find(", in ", line_end);
    if (function != std::string::npos && function < end)
      last += " in " + trace.substr(function + 5, end - function - 5);
    if (path.find("site-packages/torch/") == std::string::npos) best = last;
  }
  return best.empty() ? last : best;
}

}  // namespace

const TracedArgument* TracedCall::find(std::string_view name) const {
  for (const auto& [key, argument] : arguments)
    if (key == name) return &argument;
  return nullptr;
}

TracedProgram read_torch_program(std::string_view text, const std::string& source) {
  Json root;
  try {
    root = Json::parse(text);
  } catch (const Json::exception& error) {
    throw Error({.what = "the text of a program is no JSON",
                 .where = source,
                 .found = error.what(),
                 .expected = "models/model.json of a file that torch.export.save wrote"});
  }
  return Reader(source).read(root);
}

}  // namespace ramet::front
