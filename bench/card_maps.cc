// Maps as training has them, and what belongs to them, on the device `cuda`: microseconds, and the rate of the bytes
// that must move.
//
//   build/bench/card_maps [TURNS]     # 50
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <vector>

#include "ramet/ir/op.h"
#include "ramet/kernel/cuda/cuda.h"
#include "ramet/kernel/devices.h"
#include "ramet/ops/map_program.h"

namespace ramet::bench {
namespace {

struct Case {
  const char* what;
  std::string op;
  std::vector<TensorType> inputs;
  Attributes attributes;
};

Case map_of(const char* what, const std::string& program, const Shape& space, std::vector<TensorType> inputs,
            const std::string& dtypes) {
  return {what, "map", std::move(inputs), {{"program", program}, {"shape", space.dims()}, {"dtypes", dtypes}}};
}

std::vector<Case> cases() {
  constexpr DType kBf16 = DType::kBF16, kF32 = DType::kF32;
  const Shape narrow{16384, 1024}, wide{16384, 4096}, odd{8192, 1601};
  const TensorType counter{DType::kI64, {2}};
  return {
      map_of("add, bf16", "2:%2=add(%0,%1)->%2", narrow, {{kBf16, narrow}, {kBf16, narrow}}, "bf16"),
      map_of("scale, f32", "1:%1=scale[0.5](%0)->%1", narrow, {{kF32, narrow}}, "f32"),
      map_of("gelu, bf16", "1:%1=gelu(%0)->%1", wide, {{kBf16, wide}}, "bf16"),
      map_of("gelu_tanh, bf16", "1:%1=gelu_tanh(%0)->%1", wide, {{kBf16, wide}}, "bf16"),
      map_of("gelu_grad and bias's sums, bf16", "2:%2=gelu_grad(%0,%1)->%2,sum_rows(%2)", wide,
             {{kBf16, wide}, {kBf16, wide}}, "bf16,f32"),
      map_of("sums over rows, bf16", "1:->sum_rows(%0)", narrow, {{kBf16, narrow}}, "f32"),
      map_of("sums over the last, bf16", "1:->sum_last(%0)", narrow, {{kBf16, narrow}}, "f32"),
      map_of("bias, dropout, residual, bf16", "4:%4=add(%0,%1);%5=dropout[0.1,42,99](%4,%3);%6=add(%5,%2)->%6", narrow,
             {{kBf16, narrow}, {kBf16, {1024}}, {kBf16, narrow}, counter}, "bf16"),
      map_of("dropout's gradient and sums, bf16", "2:%2=dropout[0.1,42,99](%0,%1)->%2,sum_rows(%2)", narrow,
             {{kBf16, narrow}, counter}, "bf16,f32"),
      map_of("bias, rows of 1601, bf16", "2:%2=add(%0,%1)->%2", odd, {{kBf16, odd}, {kBf16, {1601}}}, "bf16"),
      map_of("a number a row, bf16", "2:%2=multiply(%0,%1)->%2", narrow, {{kBf16, narrow}, {kF32, {16384, 1}}}, "bf16"),
      map_of("to f32", "1:%1=stop_gradient(%0)->%1", narrow, {{kBf16, narrow}}, "f32"),
      map_of("sine, f32", "1:%1=sin(%0)->%1", narrow, {{kF32, narrow}}, "f32"),
      {"rotary, bf16", "rotary", {{kBf16, {16, 1024, 16, 64}}, {kF32, {1024, 32}}, {kF32, {1024, 32}}}, {}},
      {"truncated normal, f32",
       "random",
       {},
       {{"kind", std::string("truncated_normal")},
        {"dtype", kF32},
        {"shape", narrow.dims()},
        {"a", 0.0},
        {"b", 0.02},
        {"seed", int64_t{1}},
        {"tensor", int64_t{2}}}}};
}

NodeSignature node_of(const Case& one) {
  NodeSignature node;
  node.op = &OpRegistry::instance().get(one.op);
  node.name = "bench";
  node.attributes = one.attributes;
  node.inputs = one.inputs;
  node.outputs = node.op->infer(node);
  return node;
}

int64_t up(int64_t bytes) { return (bytes + 255) / 256 * 256; }

/// Seconds of a turn, of the device's own clock.
double seconds_of(Device& device, const NodeSignature& node, int turns, int64_t* moved) {
  const program::KernelChoice choice = cuda_backend().choose(node, 1);
  const std::unique_ptr<Kernel> kernel = cuda_backend().make(node, 1);
  int64_t bytes = up(choice.scratch_bytes);
  *moved = 0;
  std::vector<int64_t> places;
  for (const auto* types : {&node.inputs, &node.outputs})
    for (const TensorType& type : *types) {
      places.push_back(bytes);
      bytes += up(type.bytes());
      *moved += type.bytes();
    }
  const DeviceMemory memory = device.take(bytes, Memory::kDevice, "a bench");
  const auto queue = device.make_queue();
  std::vector<const void*> inputs;
  std::vector<void*> outputs;
  for (size_t i = 0; i < node.inputs.size(); ++i) inputs.push_back(memory.data() + places[i]);
  for (size_t i = 0; i < node.outputs.size(); ++i) outputs.push_back(memory.data() + places[node.inputs.size() + i]);
  double begin = 0, end = 0;
  for (int turn = -3; turn < turns; ++turn) {
    if (turn == 0) queue->stamp(&begin);
    queue->launch(*kernel, {inputs, outputs, memory.data()});
  }
  queue->stamp(&end);
  queue->wait();
  return (end - begin) / turns;
}

int run(int turns) {
  const std::unique_ptr<Device> device = find_device("cuda").make(1);
  for (const Case& one : cases()) {
    const NodeSignature node = node_of(one);
    int64_t moved = 0;
    const double seconds = seconds_of(*device, node, turns, &moved);
    std::printf("%-36s %8.1f us  %6.0f GB/s\n", one.what, seconds * 1e6, static_cast<double>(moved) / seconds * 1e-9);
  }
  return 0;
}

}  // namespace
}  // namespace ramet::bench

int main(int count, char** words) {
  try {
    return ramet::bench::run(count > 1 ? std::atoi(words[1]) : 50);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
