// An LSTM and a GRU layer, forward and backward node, at the shapes of Zaremba et al.'s medium language model (35
// steps, 20 samples, 650 units) and of larger ones: useful GF/s of the products with the hidden weight, and the share
// of the peak that a plain loop of fused multiply-adds reaches on the same threads in the same run.
//   build/bench/recurrent [seconds per case, default 0.2]
#include <cstring>
#include <string>

#include "bench_tools.h"
#include "ramet/kernel/kernel.h"
#include "ramet/ops/recurrent.h"

namespace ramet::bench {
namespace {

struct Layer {
  std::string op;
  int64_t steps, batch, hidden;
};

/// The node of a layer's forward or backward pass.
NodeSignature node_of(const Layer& layer, bool gradient, DType dtype) {
  const int64_t t = layer.steps, b = layer.batch, h = layer.hidden, gates = layer.op == "lstm" ? 4 : 3;
  const TensorType weight{dtype, Shape{gates * h, h}}, state{dtype, Shape{b, h}}, cell{DType::kF32, Shape{b, h}};
  const TensorType y{dtype, Shape{t, b, h}}, kept{dtype, Shape{t, b, 4 * h}}, cells{DType::kF32, Shape{t, b, h}};
  NodeSignature node;
  node.op = &OpRegistry::instance().get(layer.op + (gradient ? "_grad" : ""));
  const bool lstm = layer.op == "lstm";
  if (!gradient) {
    node.inputs = {{dtype, Shape{t, b, gates * h}}, weight, state};
    if (lstm) node.inputs.push_back(cell);
  } else if (lstm) {
    node.inputs = {weight, state, cell, y, kept, cells, y, state, cell};
  } else {
    node.inputs = {weight, state, y, kept, y, state};
  }
  node.outputs = node.op->infer(node);
  return node;
}

void run_one(const Layer& layer, bool gradient, DType dtype, ThreadTeam& team, double peak, double budget) {
  const NodeSignature node = node_of(layer, gradient, dtype);
  std::vector<std::unique_ptr<Buffer>> memory;
  std::vector<const void*> inputs;
  std::vector<void*> outputs;
  for (const TensorType& type : node.inputs) {
    memory.push_back(std::make_unique<Buffer>(type.bytes()));
    inputs.push_back(memory.back()->data());
  }
  for (const TensorType& type : node.outputs) {
    memory.push_back(std::make_unique<Buffer>(type.bytes()));
    outputs.push_back(memory.back()->data());
  }
  const KernelChoice choice = cpu_backend().choose(node, team.size());
  const Buffer scratch(choice.scratch_bytes);
  const auto kernel = cpu_backend().make(node, team.size());
  const double time = best_time(team, budget, [&] { kernel->run({inputs, outputs, scratch.data(), team}); });
  double flops = 0;
  for (const MatrixProduct& product : node.op->products(node))
    flops += 2.0 * static_cast<double>(product.batch * product.m) * static_cast<double>(product.k * product.n);
  std::printf("%-4s %-4s %ld x %ld x %-4ld %-8s %9.3f ms %7.1f GF/s %5.1f%%  scratch %.1f MiB\n",
              std::string(name_of(dtype)).c_str(), layer.op.c_str(), static_cast<long>(layer.steps),
              static_cast<long>(layer.batch), static_cast<long>(layer.hidden), gradient ? "backward" : "forward",
              time * 1e3, flops / time * 1e-9, 100 * flops / time * 1e-9 / peak,
              static_cast<double>(choice.scratch_bytes) / (1 << 20));
}

}  // namespace
}  // namespace ramet::bench

int main(int argc, char** argv) {
  using namespace ramet::bench;
  const double budget = argc > 1 ? std::atof(argv[1]) : 0.2;
  bench::beside_peaks([&](DType dtype, ThreadTeam& team, double peak) {
    for (const Layer& layer : {Layer{"lstm", 35, 20, 650}, Layer{"lstm", 35, 64, 1024}, Layer{"gru", 35, 20, 650}})
      for (const bool gradient : {false, true}) run_one(layer, gradient, dtype, team, peak, budget);
  });
}
