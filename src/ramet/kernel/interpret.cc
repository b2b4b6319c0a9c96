#include "ramet/kernel/interpret.h"

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

}  // namespace ramet::kernel
