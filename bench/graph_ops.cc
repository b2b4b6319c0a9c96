// Sums over neighbours and softmaxes over edges of one graph, forward, each alone: what bench/graph_ops.py compares
// with DGL. Prints a JSON object for each op.
//   build/bench/graph_ops SET.safetensors [seconds per op, default 0.3] [threads, default 2]
#include <cstring>
#include <string>

#include "bench_tools.h"
#include "ramet/graphs/graph_set.h"
#include "ramet/kernel/kernel.h"
#include "ramet/ops/neighbors.h"

namespace ramet::bench {
namespace {

using Numbers = std::vector<int32_t>;

/// The lists of a graph's edges, as ops/neighbors.h has them.
struct Lists {
  int64_t nodes = 0, edges = 0;
  Numbers source, ptr, target, by_source, source_ptr;

  explicit Lists(const graphs::GraphSet& set) : nodes(set.node_ptr(0)[1]), edges(set.edge_ptr(0)[1]) {
    const auto from = set.sources(0), to = set.targets(0);
    source.assign(from.begin(), from.begin() + edges);
    ptr.assign(static_cast<size_t>(nodes) + 1, 0), source_ptr = ptr;
    for (int64_t e = 0; e < edges; ++e) ++ptr[at(to[at(e)]) + 1], ++source_ptr[at(from[at(e)]) + 1];
    for (size_t i = 1; i < ptr.size(); ++i) ptr[i] += ptr[i - 1], source_ptr[i] += source_ptr[i - 1];
    target.resize(at(edges)), by_source.resize(at(edges));
    Numbers next = source_ptr;
    for (int64_t e = 0; e < edges; ++e) {
      const auto place = at(next[at(from[at(e)])]++);
      target[place] = to[at(e)], by_source[place] = static_cast<int32_t>(e);
    }
  }

 private:
  static size_t at(int64_t i) { return static_cast<size_t>(i); }
};

/// An operand: floats of a shape, or numbers of a list.
struct Operand {
  TensorType type;
  const Numbers* numbers = nullptr;
};

double op_time(const std::string& op, const std::vector<Operand>& operands, Attributes attributes, ThreadTeam& team,
               double budget) {
  NodeSignature node;
  node.op = &OpRegistry::instance().get(op);
  node.name = "bench";
  node.attributes = std::move(attributes);
  for (const Operand& operand : operands) node.inputs.push_back(operand.type);
  node.outputs = node.op->infer(node);
  const auto kernel = cpu_backend().make(node, team.size());
  std::vector<std::unique_ptr<Buffer>> buffers;
  std::vector<const void*> in;
  for (const Operand& operand : operands) {
    buffers.push_back(std::make_unique<Buffer>(operand.type.bytes()));
    if (operand.numbers)
      std::memcpy(buffers.back()->data(), operand.numbers->data(), operand.numbers->size() * sizeof(int32_t));
    in.push_back(buffers.back()->data());
  }
  const Buffer out(node.outputs[0].bytes()), scratch(cpu_backend().choose(node, team.size()).scratch_bytes);
  void* to[] = {out.data()};
  const KernelContext context{in, to, scratch.data(), team};
  return best_time(team, budget, [&] { kernel->run(context); });
}

void run(const Lists& lists, ThreadTeam& team, double budget) {
  const auto floats = [](Shape shape) { return Operand{{DType::kF32, std::move(shape)}, nullptr}; };
  const auto list = [](const Numbers& numbers) {
    return Operand{{DType::kI32, Shape{1, std::ssize(numbers)}}, &numbers};
  };
  const std::vector<Operand> all{list(lists.source), list(lists.ptr), list(lists.target), list(lists.by_source),
                                 list(lists.source_ptr)};
  const auto tell = [&](const std::string& name, int64_t width, double time) {
    std::printf("{\"op\": \"%s\", \"width\": %ld, \"nodes\": %ld, \"edges\": %ld, \"ms\": %.4f}\n", name.c_str(),
                static_cast<long>(width), static_cast<long>(lists.nodes), static_cast<long>(lists.edges), time * 1e3);
    std::fflush(stdout);
  };
  const auto neighbor_sum = [&](int64_t width, int64_t heads) {
    std::vector<Operand> operands{floats({1, lists.nodes, width})};
    operands.insert(operands.end(), all.begin(), all.end());
    if (heads == 1) operands.push_back(floats({1, lists.edges}));
    if (heads > 1) operands.push_back(floats({1, lists.edges, heads}));
    return op_time("neighbor_sum", operands, {}, team, budget);
  };
  for (const int64_t width : {16, 32, 64, 128}) {
    tell("sum", width, neighbor_sum(width, 0));
    tell("weighted sum", width, neighbor_sum(width, 1));
  }
  tell("sum of 8 heads", 64, neighbor_sum(64, 8));
  std::vector<Operand> dot{floats({1, lists.nodes, 32}), floats({1, lists.nodes, 32})};
  dot.insert(dot.end(), all.begin(), all.end());
  tell("dot", 32, op_time("neighbor_dot", dot, {}, team, budget));
  for (const int64_t heads : {1, 8})
    tell("softmax", heads,
         op_time("segment_softmax", {floats({1, lists.edges, heads}), list(lists.ptr)}, {}, team, budget));
}

}  // namespace
}  // namespace ramet::bench

int main(int argc, char** argv) try {
  using namespace ramet::bench;
  if (argc < 2) {
    std::fprintf(stderr, "usage: graph_ops SET.safetensors [seconds per op] [threads]\n");
    return 2;
  }
  const double budget = argc > 2 ? std::atof(argv[2]) : 0.3;
  ramet::ThreadTeam team(argc > 3 ? std::atoi(argv[3]) : 2);
  bench::run(bench::Lists(ramet::graphs::GraphSet::open(argv[1])), team, budget);
  return 0;
} catch (const std::exception& fault) {
  std::fprintf(stderr, "%s\n", fault.what());
  return 1;
}
