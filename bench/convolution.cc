// The convolutions of ResNet-50 on images of 224, in f32 and bf16, with the epilogues that prediction gives them:
// the kernel, GF/s, the share of the peak that a plain loop of fused multiply-adds reaches on the same threads in the
// same run, and last what all of them take together.
//   build/bench/convolution [seconds per convolution, default 0.1] [f32 | bf16] [images, default 16] [kernel, as tiles:
//   where it may]
#include <cstring>
#include <string>

#include "bench_tools.h"
#include "ramet/kernel/kernel.h"
#include "ramet/ops/convolution.h"

namespace ramet::bench {
namespace {

int64_t images = 16;

struct Case {
  int64_t extent, channels, filters, taps, stride;  ///< extent of the input
  int times;                                        ///< in the network
  const char* epilogue;                             ///< "", "relu" or "sum"
};

std::vector<Case> cases() {
  std::vector<Case> all{{224, 3, 64, 7, 2, 1, "relu"}};
  const auto stage = [&](int64_t extent, int64_t before, int64_t width, int64_t stride, int blocks) {
    const int64_t to = extent / stride, wide = 4 * width;
    all.push_back({extent, before, wide, 1, stride, 1, ""});
    all.push_back({extent, before, width, 1, 1, 1, "relu"});
    all.push_back({extent, width, width, 3, stride, 1, "relu"});
    all.push_back({to, width, wide, 1, 1, blocks, "sum"});
    all.push_back({to, wide, width, 1, 1, blocks - 1, "relu"});
    all.push_back({to, width, width, 3, 1, blocks - 1, "relu"});
  };
  stage(56, 64, 64, 1, 3);
  stage(56, 256, 128, 2, 4);
  stage(28, 512, 256, 2, 6);
  stage(14, 1024, 512, 2, 3);
  return all;
}

NodeSignature node_of(const Case& one, DType dtype) {
  NodeSignature node;
  node.op = &OpRegistry::instance().get("convolution");
  const int64_t low = (one.taps - 1) / 2, high = one.taps / 2;
  node.inputs = {{dtype, {images, one.extent, one.extent, one.channels}},
                 {dtype, {one.filters, one.channels, one.taps, one.taps}},
                 {DType::kF32, {one.filters}}};
  node.attributes = {{"strides", std::vector<int64_t>{one.stride, one.stride}},
                     {"low", std::vector<int64_t>{low, low}},
                     {"high", std::vector<int64_t>{high, high}},
                     {"channels_last", true}};
  node.outputs = node.op->infer(node);
  if (const std::string kind = one.epilogue; !kind.empty()) {
    if (kind == "sum") node.inputs.push_back(node.outputs[0]);
    node.attributes.set("epilogue",
                        std::string(kind == "sum" ? "2:%2=add(%0,%1);%3=relu(%2)->%3" : "1:%1=relu(%0)->%1"));
    node.outputs = node.op->infer(node);
  }
  return node;
}

/// Seconds of all convolutions of this kind, and their operations.
struct Total {
  double time = 0, flops = 0;
};

/// The kernel of that name if it takes the node, else the best one.
const KernelEntry& entry_of(const NodeSignature& node, const std::string& name) {
  const std::string best = cpu_backend().choose(node, 1).name;
  const KernelEntry* chosen = nullptr;
  for (const KernelEntry& entry : cpu_backend().entries(node.op->name)) {
    if (entry.name == best && !chosen) chosen = &entry;
    if (entry.name == name && entry.refuse(node).empty()) chosen = &entry;
  }
  return *chosen;
}

void run_one(const Case& one, DType dtype, ThreadTeam& team, double peak, double budget, const std::string& name,
             Total& total) {
  NodeSignature node = node_of(one, dtype);
  const double flops = node.op->cost(node).flops;
  const KernelEntry& entry = entry_of(node, name);
  if (const auto layout = entry.blocking ? entry.blocking(node, 1) : std::nullopt) {
    node.attributes.set("b_blocked", layout->format)
        .set("b_shape", node.inputs[1].shape.dims())
        .set("b_dtype", node.inputs[1].dtype);
    node.inputs[1] = {DType::kU8, {layout->bytes}};
  }
  const auto kernel = entry.make(node, team.size());
  std::vector<std::unique_ptr<Buffer>> operands;
  std::vector<const void*> inputs;
  for (const TensorType& type : node.inputs)
    inputs.push_back(operands.emplace_back(std::make_unique<Buffer>(type.bytes()))->data());
  const Buffer out(node.outputs[0].bytes()), scratch(entry.scratch(node, team.size()));
  void* const to = out.data();
  const double time = best_time(team, budget, [&] { kernel->run({inputs, {&to, 1}, scratch.data(), team}); });
  total.time += time * one.times, total.flops += flops * one.times;
  std::printf("%-4s %3ld x %4ld -> %4ld, %ldx%ld by %ld %-4s %7.3f ms %7.1f GF/s %5.1f%%  %d times  %s\n",
              std::string(name_of(dtype)).c_str(), one.extent, one.channels, one.filters, one.taps, one.taps,
              one.stride, one.epilogue, time * 1e3, flops / time * 1e-9, 100 * flops / time * 1e-9 / peak, one.times,
              entry.name.c_str());
}

}  // namespace
}  // namespace ramet::bench

int main(int argc, char** argv) {
  using namespace ramet::bench;
  const double budget = argc > 1 ? std::atof(argv[1]) : 0.1;
  const std::string only = argc > 2 ? argv[2] : "", kernel = argc > 4 ? argv[4] : "";
  if (argc > 3) ramet::bench::images = std::atoll(argv[3]);
  beside_peaks([&](DType dtype, ThreadTeam& team, double peak) {
    if (!only.empty() && only != name_of(dtype)) return;
    Total total;
    for (const auto& one : cases())
      if (one.times > 0) run_one(one, dtype, team, peak, budget, kernel, total);
    std::printf("%-4s all convolutions %36.1f ms %7.1f GF/s %5.1f%%\n", std::string(name_of(dtype)).c_str(),
                total.time * 1e3, total.flops / total.time * 1e-9, 100 * total.flops / total.time * 1e-9 / peak);
  });
}
