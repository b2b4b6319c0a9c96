#include "ramet/kernel/interpret.h"

#include <algorithm>
#include <cstdlib>
#include <memory>

#include "ramet/base/error.h"

namespace ramet::kernel {
namespace {

struct Free {
  void operator()(void* memory) const { std::free(memory); }
};
using Memory = std::unique_ptr<void, Free>;

/// 64-byte aligned; never null, so that empty tensors have an address.
Memory allocate(int64_t bytes) {
  void* memory = std::aligned_alloc(64, (static_cast<size_t>(bytes) / 64 + 1) * 64);
  if (!memory)
    throw Error({.what = "out of memory in the interpreter", .found = std::to_string(bytes) + " bytes"},
                ErrorKind::kFailure);
  return Memory(memory);
}

void run_node(const NodeSignature& node, const Backend& backend, const std::string& kernel,
              const std::vector<const void*>& inputs, const std::vector<void*>& outputs, ThreadTeam& team) {
  const std::unique_ptr<Kernel> made = backend.make(node, team.size(), kernel);
  int64_t scratch_bytes = 0;
  if (kernel.empty()) scratch_bytes = backend.choose(node, team.size()).scratch_bytes;
  for (const KernelEntry& entry : backend.entries(node.op->name))
    if (entry.name == kernel && entry.scratch) scratch_bytes = entry.scratch(node, team.size());
  const Memory scratch = allocate(scratch_bytes);
  made->run({inputs, outputs, scratch.get(), team});
}

HostTensor copy_out(const TensorType& type, const void* memory) {
  HostTensor tensor(type);
  const auto* bytes = static_cast<const std::byte*>(memory);
  tensor.data.assign(bytes, bytes + type.bytes());
  return tensor;
}

Memory copy_in(const HostTensor& tensor) {
  Memory memory = allocate(tensor.type.bytes());
  std::copy(tensor.data.begin(), tensor.data.end(), static_cast<std::byte*>(memory.get()));
  return memory;
}

const HostTensor& feed_of(const std::map<std::string, HostTensor>& feeds, const Value& input) {
  const auto found = feeds.find(input.name);
  if (found == feeds.end())
    throw Error({.what = "no tensor is fed to the graph input", .where = "'" + input.name + "'"});
  if (found->second.type != input.type)
    throw Error({.what = "the tensor fed to the graph input is of another type",
                 .where = "'" + input.name + "'",
                 .found = found->second.type.text(),
                 .expected = input.type.text()});
  return found->second;
}

}  // namespace

std::vector<HostTensor> interpret(const Graph& graph, const Backend& backend,
                                  const std::map<std::string, HostTensor>& feeds, int threads) {
  ThreadTeam team(threads);
  std::vector<Memory> memory(graph.values().size());
  const auto at = [&](ValueId value) -> Memory& { return memory[static_cast<size_t>(value)]; };
  for (const GraphInput& input : graph.inputs()) at(input.value) = copy_in(feed_of(feeds, graph.value(input.value)));

  std::vector<NodeId> last_use(graph.values().size(), kNoNode);
  for (NodeId id = 0; id < static_cast<NodeId>(graph.nodes().size()); ++id)
    for (ValueId input : graph.node(id).inputs) last_use[static_cast<size_t>(input)] = id;
  const NodeId end = static_cast<NodeId>(graph.nodes().size());
  for (const GraphOutput& output : graph.outputs()) last_use[static_cast<size_t>(output.value)] = end;

  for (NodeId id = 0; id < end; ++id) {
    const Node& node = graph.node(id);
    std::vector<const void*> inputs;
    std::vector<void*> outputs;
    for (ValueId input : node.inputs) inputs.push_back(at(input).get());
    for (ValueId output : node.outputs) {
      at(output) = allocate(graph.type(output).bytes());
      outputs.push_back(at(output).get());
    }
    run_node(graph.signature(id), backend, "", inputs, outputs, team);
    for (ValueId input : node.inputs)
      if (last_use[static_cast<size_t>(input)] == id) at(input).reset();
    for (ValueId output : node.outputs)
      if (last_use[static_cast<size_t>(output)] == kNoNode) at(output).reset();
  }
  std::vector<HostTensor> results;
  for (const GraphOutput& output : graph.outputs())
    results.push_back(copy_out(graph.type(output.value), at(output.value).get()));
  return results;
}

std::vector<HostTensor> interpret_node(const NodeSignature& node, const Backend& backend,
                                       const std::vector<HostTensor>& inputs, int threads, const std::string& kernel) {
  ThreadTeam team(threads);
  std::vector<Memory> memory;
  std::vector<const void*> in;
  std::vector<void*> out;
  for (const HostTensor& input : inputs) in.push_back(memory.emplace_back(copy_in(input)).get());
  for (const TensorType& type : node.outputs) out.push_back(memory.emplace_back(allocate(type.bytes())).get());
  run_node(node, backend, kernel, in, out, team);
  std::vector<HostTensor> results;
  for (size_t i = 0; i < node.outputs.size(); ++i) results.push_back(copy_out(node.outputs[i], out[i]));
  return results;
}

namespace {

TensorType in_double(const TensorType& type) {
  return is_floating(type.dtype) ? TensorType{DType::kF64, type.shape} : type;
}

HostTensor converted(const HostTensor& from, const TensorType& type) {
  if (from.type == type) return from;
  HostTensor made(type);
  for (int64_t i = 0; i < made.elements(); ++i) made.set(i, from.get(i));
  return made;
}

/// Whether a node only rounds floating values.
bool only_rounds(const NodeSignature& node) {
  const std::string& op = node.op->name;
  return node.inputs.size() == 1 && node.outputs.size() == 1 && is_floating(node.inputs[0].dtype) &&
         is_floating(node.outputs[0].dtype) && (op == "cast" || op.starts_with("round_"));
}

std::vector<HostTensor> node_in_double(const NodeSignature& node, const std::vector<HostTensor>& inputs, bool& exact) {
  if (only_rounds(node)) return {inputs[0]};
  const bool floats = std::any_of(node.inputs.begin(), node.inputs.end(),
                                  [](const TensorType& type) { return is_floating(type.dtype); });
  if (floats) {
    NodeSignature wide = node;
    for (TensorType& type : wide.inputs) type = in_double(type);
    for (TensorType& type : wide.outputs) type = in_double(type);
    try {
      for (const KernelEntry& entry : reference_backend().entries(node.op->name))
        if (!entry.refuse || entry.refuse(wide).empty()) return interpret_node(wide, reference_backend(), inputs);
    } catch (const Error&) {  // an op that keeps a state in f32 alone
    }
    exact = false;
  }
  // Constants, and nodes that only the fast kernels compute.
  std::vector<HostTensor> given;
  for (size_t i = 0; i < inputs.size(); ++i) given.push_back(converted(inputs[i], node.inputs[i]));
  std::vector<HostTensor> made = interpret_node(node, cpu_backend(), given);
  for (HostTensor& each : made) each = converted(each, in_double(each.type));
  return made;
}

}  // namespace

std::vector<HostTensor> interpret_in_double(const Graph& graph, const std::map<std::string, HostTensor>& feeds,
                                            bool& exact) {
  std::vector<HostTensor> values(graph.values().size());
  for (const GraphInput& input : graph.inputs())
    values[static_cast<size_t>(input.value)] = feeds.at(graph.value(input.value).name);
  for (NodeId id = 0; id < static_cast<NodeId>(graph.nodes().size()); ++id) {
    const Node& node = graph.node(id);
    std::vector<HostTensor> inputs;
    for (const ValueId input : node.inputs) inputs.push_back(values[static_cast<size_t>(input)]);
    std::vector<HostTensor> made = node_in_double(graph.signature(id), inputs, exact);
    for (size_t i = 0; i < made.size(); ++i) values[static_cast<size_t>(node.outputs[i])] = std::move(made[i]);
  }
  std::vector<HostTensor> results;
  for (const GraphOutput& output : graph.outputs()) results.push_back(values[static_cast<size_t>(output.value)]);
  return results;
}

}  // namespace ramet::kernel
