// Computes small graphs on request, and their gradients, for programs that compare ops with those of other libraries
// (bench/opinfo.py).
//   build/bench/op_server < requests > answers
//
// A request is one line of JSON, and then the bytes of its inputs, one after another:
//
//   {"inputs": [{"dtype": "f32", "shape": [2, 3]}, ...],
//    "calls": [{"op": "matmul", "tensors": [0, 1], "attributes": {"transpose_b": true}}, ...],
//    "outputs": [7, ...], "gradients": [0, ...], "backend": "cpu", "threads": 1}
//
// Tensors are numbered: the inputs first, then the results of the calls in turn; -1 is a tensor that is left out. "op"
// is a function that bench/op_functions.h lists, or else an op of the registry. "gradients" lists inputs; the
// last inputs are then the weights of the outputs in the scalar that is differentiated, one for each floating output.
// An infinite or undefined number is a text: "inf", "nan".
//
// Instead of "calls" and "outputs" a request may have a "program", the text of a program that torch.export traced
// (bench/torch_ops.py). Its inputs are the first ones, and all its outputs are the request's.
//
// The answer is one line of JSON and the bytes of its arrays: "outputs" and "gradients" with their types. Each of the
// two is absent when it was refused: "refused" and "gradient_refused" say why.
#include <iostream>
#include <map>
#include <span>
#include <stdexcept>
#include <string>

#include <nlohmann/json.hpp>

#include "op_functions.h"
#include "ramet/base/error.h"
#include "ramet/front/importer.h"
#include "ramet/front/patterns.h"
#include "ramet/front/torch_json.h"
#include "ramet/kernel/interpret.h"
#include "ramet/ops/build.h"
#include "ramet/transform/differentiate.h"

namespace ramet::bench {
namespace {

HostTensor tensor_of(const Json& json) {
  return HostTensor::of(dtype_from_name(json.at("dtype").get<std::string>()), Shape(json.at("shape").get<Ints>()),
                        json.at("values").get<std::vector<double>>());
}

Attribute attribute_of(const Json& value, AttributeSpec::Kind kind) {
  using Kind = AttributeSpec::Kind;
  switch (kind) {
    case Kind::kBool: return value.get<bool>();
    case Kind::kInt: return value.get<int64_t>();
    case Kind::kFloat: return value.is_string() ? std::stod(value.get<std::string>()) : value.get<double>();
    case Kind::kString: return value.get<std::string>();
    case Kind::kInts: return value.get<Ints>();
    case Kind::kDType: return dtype_from_name(value.get<std::string>());
    case Kind::kTensor: return TensorData(tensor_of(value));
  }
  throw Error({.what = "unknown kind of attribute"});
}

/// A node of an op of the registry.
Tensors registry_call(const std::string& name, const Arguments& arguments) {
  const OpDef* op = OpRegistry::instance().find(name);
  if (!op) throw Error({.what = "no such op", .found = name});
  Attributes attributes;
  for (const auto& [key, value] : arguments.attributes().items()) {
    const AttributeSpec* known = nullptr;
    for (const AttributeSpec& spec : op->attributes)
      if (spec.name == key) known = &spec;
    if (!known) throw Error({.what = "no such attribute of op " + name, .found = key});
    attributes.set(key, attribute_of(value, known->kind));
  }
  Tensors given;
  for (const Tensor& tensor : arguments.all())
    if (tensor.valid()) given.push_back(tensor);
  return arguments.build().ops(name, given, std::move(attributes));
}

Tensors call(const Json& json, GraphBuilder& build, const Tensors& known) {
  Tensors tensors;
  for (const Json& index : json.at("tensors"))
    tensors.push_back(index.get<int64_t>() < 0 ? Tensor{} : known.at(index.get<size_t>()));
  const Json attributes = json.value("attributes", Json::object());
  const Arguments arguments(build, std::move(tensors), attributes);
  const std::string name = json.at("op");
  const auto found = functions().find(name);
  return found != functions().end() ? found->second(arguments) : registry_call(name, arguments);
}

std::string input_name(size_t index) { return "input" + std::to_string(index); }

Tensor input(const Json& request, GraphBuilder& build, size_t index) {
  const Json& type = request.at("inputs").at(index);
  return build.input(input_name(index), dtype_from_name(type.at("dtype").get<std::string>()),
                     Shape(type.at("shape").get<Ints>()));
}

/// The tensors of a request, in their order, and its outputs.
struct Made {
  Tensors tensors, outputs;
};

Made made_of_calls(const Json& request, GraphBuilder& build) {
  Made made;
  for (size_t i = 0; i < request.at("inputs").size(); ++i) made.tensors.push_back(input(request, build, i));
  for (const Json& each : request.at("calls"))
    for (const Tensor& result : call(each, build, made.tensors)) made.tensors.push_back(result);
  for (const Json& index : request.at("outputs")) made.outputs.push_back(made.tensors.at(index.get<size_t>()));
  return made;
}

/// The tensors are the inputs alone.
Made made_of_program(const Json& request, Graph& graph, GraphBuilder& build) {
  const auto text = request.at("program").get<std::string>();
  front::TracedProgram program = front::read_torch_program(std::string_view(text), "the request");
  program = front::fuse_patterns(std::move(program));
  front::Importer::Options options{.trains = true};
  for (size_t i = 0; i < program.inputs.size(); ++i) {
    const TensorType& type = program.types.at(program.inputs[i].value);
    options.inputs[program.inputs[i].value] = {
        .name = input_name(i), .type = type, .axes = std::vector<std::string>(static_cast<size_t>(type.shape.rank()))};
  }
  front::Importer importer(program, graph, options);
  importer.run();
  if (!importer.refusals().empty()) front::throw_refusals("request", importer.refusals());
  Made made;
  for (size_t i = 0; i < program.inputs.size(); ++i)
    made.tensors.push_back(build.tensor(graph.find_input(input_name(i))));
  for (size_t i = program.inputs.size(); i < request.at("inputs").size(); ++i)
    made.tensors.push_back(input(request, build, i));
  for (const front::TracedOutput& output : program.outputs)
    made.outputs.push_back(build.tensor(importer.value(output.value).id));
  return made;
}

/// The graph of a request; `weights` are the numbers of the inputs that weigh floating outputs.
Graph graph_of(const Json& request, const std::vector<size_t>& weights) {
  Graph graph("request");
  GraphBuilder build(graph);
  const auto [tensors, outputs] =
      request.contains("program") ? made_of_program(request, graph, build) : made_of_calls(request, build);
  std::vector<Tensor> floating;
  for (size_t i = 0; i < outputs.size(); ++i) {
    build.output("output" + std::to_string(i), outputs[i]);
    if (is_floating(outputs[i].dtype())) floating.push_back(outputs[i]);
  }
  if (weights.empty()) return graph;
  if (weights.size() != floating.size())
    throw Error({.what = "one weight is needed for each floating output",
                 .found = std::to_string(weights.size()),
                 .expected = std::to_string(floating.size())});
  Tensor loss{};
  for (size_t i = 0; i < floating.size(); ++i) {
    const Tensor term = reduce_sum(multiply(floating[i], tensors.at(weights[i])));
    loss = loss.valid() ? add(loss, term) : term;
  }
  build.output("loss", loss);
  return graph;
}

void describe(Json& list, const HostTensor& tensor) {
  list.push_back({{"dtype", name_of(tensor.type.dtype)}, {"shape", tensor.type.shape.dims()}});
}

struct Answer {
  Json json = Json::object();
  std::vector<HostTensor> arrays;

  void add(const char* name, std::span<const HostTensor> tensors) {
    json[name] = Json::array();
    for (const HostTensor& tensor : tensors) {
      describe(json[name], tensor);
      arrays.push_back(tensor);
    }
  }
};

/// Runs `work`; what it refuses is written to `json[name]`.
template <typename Work>
bool attempt(Json& json, const char* name, const Work& work) {
  try {
    work();
    return true;
  } catch (const Error& error) {
    json[name] = error.what();
  } catch (const Json::exception& error) {
    json[name] = std::string("bad request: ") + error.what();
  } catch (const std::out_of_range& error) {
    json[name] = std::string("bad request: ") + error.what();
  }
  return false;
}

/// The feeds of a graph that may draw random numbers.
std::map<std::string, HostTensor> with_counter(const Graph& graph, std::map<std::string, HostTensor> feeds) {
  if (graph.find_input("counter") != kNoValue) feeds.emplace("counter", HostTensor({DType::kI64, {2}}));
  return feeds;
}

Answer answer(const Json& request, const std::map<std::string, HostTensor>& feeds) {
  Answer result;
  const kernel::Backend& backend =
      request.value("backend", "cpu") == "reference" ? kernel::reference_backend() : kernel::cpu_backend();
  const int threads = request.value("threads", 1);
  size_t outputs = 0;
  const bool ran = attempt(result.json, "refused", [&] {
    const Graph graph = graph_of(request, {});
    const auto values = kernel::interpret(graph, backend, with_counter(graph, feeds), threads);
    outputs = values.size();
    result.add("outputs", values);
  });
  const std::vector<size_t> wanted = request.value("gradients", std::vector<size_t>());
  if (!ran || wanted.empty()) return result;
  attempt(result.json, "gradient_refused", [&] {
    size_t floating = 0;
    for (const HostTensor& output : result.arrays) floating += is_floating(output.type.dtype);
    const size_t inputs = request.at("inputs").size();
    if (floating == 0 || floating > inputs) throw Error({.what = "no output has a gradient"});
    std::vector<size_t> weights;
    for (size_t i = 0; i < floating; ++i) weights.push_back(inputs - floating + i);
    std::vector<std::string> names;
    for (size_t index : wanted) names.push_back(input_name(index));
    const Graph graph = transform::differentiate(graph_of(request, weights), "loss", names);
    const auto values = kernel::interpret(graph, backend, with_counter(graph, feeds), threads);
    result.add("gradients", std::span(values).subspan(values.size() - wanted.size()));
  });
  return result;
}

/// The inputs' bytes that follow a request.
std::map<std::string, HostTensor> read_feeds(const Json& request) {
  std::map<std::string, HostTensor> feeds;
  for (size_t i = 0; i < request.at("inputs").size(); ++i) {
    const Json& type = request.at("inputs")[i];
    HostTensor tensor(
        TensorType{dtype_from_name(type.at("dtype").get<std::string>()), Shape(type.at("shape").get<Ints>())});
    std::cin.read(reinterpret_cast<char*>(tensor.data.data()), static_cast<std::streamsize>(tensor.data.size()));
    feeds.emplace(input_name(i), std::move(tensor));
  }
  return feeds;
}

int answer_all() {
  std::string line;
  while (std::getline(std::cin, line)) {
    Json request;
    try {
      request = Json::parse(line);
      const auto feeds = read_feeds(request);
      if (!std::cin) throw Error({.what = "the request's arrays are cut off"});
      const Answer result = answer(request, feeds);
      std::cout << result.json.dump() << '\n';
      for (const HostTensor& array : result.arrays)
        std::cout.write(reinterpret_cast<const char*>(array.data.data()),
                        static_cast<std::streamsize>(array.data.size()));
    } catch (const std::exception& error) {
      // Where the next request begins is unknown.
      std::cout << Json{{"refused", std::string("bad request: ") + error.what()}}.dump() << std::endl;
      return 2;
    }
    std::cout.flush();
  }
  return 0;
}

}  // namespace
}  // namespace ramet::bench

int main() { return ramet::bench::answer_all(); }
