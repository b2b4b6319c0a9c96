// Kernels that are bound by memory: GB/s that they must move at least, and the share of what the better of memcpy and a
// plain triad (a = b + s c in f32) moves on the same threads in the same run. Operands are larger than the last cache.
//   build/bench/elementwise [threads, default 1] [seconds per kernel, default 0.15] [only kernels whose name has this]
#include <bit>
#include <cmath>
#include <cstring>
#include <string>

#include "bench_tools.h"
#include "ramet/ir/op.h"
#include "ramet/kernel/cpu/cpu_features.h"
#include "ramet/kernel/kernel.h"

namespace ramet::bench {
namespace {

constexpr DType kF32 = DType::kF32, kBF16 = DType::kBF16, kF16 = DType::kF16;

struct Case {
  std::string name, op;
  std::vector<TensorType> inputs;
  Attributes attributes{};
  double bytes = 0;  ///< 0: all inputs and outputs once
};

/// Bytes a second of a = b + 3 c on 3 x 64 MiB, each byte counted once.
double triad(ThreadTeam& team) {
  constexpr int64_t kCount = 16 << 20;
  const Buffer a(kCount * 4), b(kCount * 4), c(kCount * 4);
  auto* x = reinterpret_cast<float*>(a.data());
  const auto *y = reinterpret_cast<float*>(b.data()), *z = reinterpret_cast<float*>(c.data());
  const double time = best_time(team, 0.5, [&] {
    team.split(kCount, 1024, [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i) x[i] = y[i] + 3.0f * z[i];
    });
  });
  return 3.0 * 4 * kCount / time;
}
double copy(ThreadTeam& team) {
  constexpr int64_t kBytes = 128 << 20;
  const Buffer a(kBytes), b(kBytes);
  const double time = best_time(team, 0.3, [&] {
    team.split(kBytes, 4096, [&](int64_t begin, int64_t end, int) {
      std::memcpy(a.data() + begin, b.data() + begin, static_cast<size_t>(end - begin));
    });
  });
  return 2.0 * kBytes / time;
}

Attributes map_of(const std::string& program, const Shape& space, const std::string& dtypes) {
  return {{"program", program}, {"shape", space.dims()}, {"dtypes", dtypes}};
}

/// Norms over channels and pooling, as of ResNet-50, channels last and first.
void add_image_cases(std::vector<Case>& all) {
  using Ints = std::vector<int64_t>;
  for (const DType dtype : {kF32, kBF16})
    for (const bool last : {true, false}) {
      const std::string suffix = std::string(last ? ", last, " : ", first, ") + std::string(name_of(dtype));
      const auto image = [&](int64_t size, int64_t channels) {
        return last ? Shape{16, size, size, channels} : Shape{16, channels, size, size};
      };
      const auto vector = [&](int64_t channels) -> TensorType {
        return {kF32, last ? Shape{1, 1, 1, channels} : Shape{1, channels, 1, 1}};
      };
      const Attributes layout{{"channels_last", last}};
      for (const auto& [size, channels] : {std::pair<int64_t, int64_t>{56, 256}, {14, 1024}, {7, 2048}, {112, 24}}) {
        const TensorType a{dtype, image(size, channels)}, per = vector(channels);
        const std::string of = " " + std::to_string(size) + "x" + std::to_string(channels) + suffix;
        all.push_back({"moments" + of, "channel_moments", {a}, layout});
        all.push_back({"sums" + of, "channel_sums", {a, a, per}, layout});
        all.push_back({"norm+relu" + of,
                       "map",
                       {a, per, per, per},
                       map_of("4:%4=subtract(%0,%1);%5=multiply(%4,%2);%6=add(%5,%3);%7=relu(%6)->%7", a.shape,
                              std::string(name_of(dtype)))});
        all.push_back(
            {"norm grad" + of,
             "map",
             {a, a, per, per, per, per},
             map_of("6:%6=multiply(%0,%2);%7=subtract(%1,%3);%8=multiply(%7,%4);%9=add(%8,%5);%10=add(%6,%9)->%10",
                    a.shape, std::string(name_of(dtype)))});
      }
      const auto pool = [&](const std::string& name, const std::string& op, int64_t size, int64_t channels,
                            Attributes windows) {
        windows.set("channels_last", last);
        const TensorType a{dtype, image(size, channels)};
        all.push_back({name + suffix, op, {a}, windows});
        NodeSignature node{&OpRegistry::instance().get(op), {a}, {}, windows, ""};
        node.outputs = node.op->infer(node);
        windows.set("space", Ints{size, size});
        all.push_back({name + " grad" + suffix, op + "_grad", node.outputs, windows});
      };
      const Attributes three{{"taps", Ints{3, 3}}, {"strides", Ints{2, 2}}, {"low", Ints{1, 1}}, {"high", Ints{1, 1}}};
      Attributes one = three;
      one.set("strides", Ints{1, 1});
      pool("max 3/2 112x64", "max_pool", 112, 64, three);
      pool("max 2/2 56x256", "max_pool", 56, 256, {{"taps", Ints{2, 2}}});
      pool("mean 3/1 35x288", "average_pool", 35, 288, one);
      pool("mean 2/2 56x256", "average_pool", 56, 256, {{"taps", Ints{2, 2}}});
      pool("mean to 7 24x256", "average_pool", 24, 256, {{"sizes", Ints{7, 7}}});
    }
}

std::vector<Case> cases() {
  const Shape wide{8192, 3072}, hidden{24576, 768}, vector{3072}, width{768}, rows{24576};
  const TensorType counter{DType::kI64, Shape{2}}, scalar{kF32, Shape{}};
  const Shape logits{1024, 30522}, big_logits{512, 50257}, weights{1 << 24};
  const Attributes adam{
      {"beta1", 0.9}, {"beta2", 0.999}, {"epsilon", 1e-8}, {"weight_decay", 0.01}, {"decoupled", true}};
  std::vector<Case> all{
      {"cast f32 to bf16", "cast", {{kF32, wide}}, {{"dtype", kBF16}}},
      {"cast bf16 to f32", "cast", {{kBF16, wide}}, {{"dtype", kF32}}},
      {"add f32", "add", {{kF32, wide}, {kF32, wide}}},
      {"add bf16", "add", {{kBF16, wide}, {kBF16, wide}}},
      {"scale bf16", "scale", {{kBF16, wide}}, {{"parameter", 0.5}}},
      {"bias + gelu",
       "map",
       {{kBF16, wide}, {kF32, vector}},
       map_of("2:%2=add(%0,%1);%3=round_bf16(%2);%4=gelu(%3)->%3,%4", wide, "bf16,bf16")},
      {"gelu", "gelu", {{kBF16, wide}}},
      {"gelu_tanh", "gelu_tanh", {{kBF16, wide}}},
      {"gelu_grad + bias sum",
       "map",
       {{kBF16, wide}, {kBF16, wide}},
       map_of("2:%2=gelu_grad(%0,%1);%3=round_bf16(%2)->%3,sum_rows(%3)", wide, "bf16,f32")},
      {"gelu_tanh_grad", "gelu_tanh_grad", {{kBF16, wide}, {kBF16, wide}}},
      {"bias+dropout+residual",
       "map",
       {{kBF16, hidden}, {kF32, width}, {kBF16, hidden}, counter},
       map_of("4:%4=add(%0,%1);%5=dropout[0.1,7,99](%4,%3);%6=add(%5,%2)->%6", hidden, "bf16")},
      {"sum over rows", "reduce_sum", {{kBF16, hidden}}, {{"axes", std::vector<int64_t>{0}}, {"dtype", kF32}}},
      {"sum over last", "reduce_sum", {{kBF16, hidden}}, {{"axes", std::vector<int64_t>{1}}, {"dtype", kF32}}},
      {"layer_norm", "layer_norm", {{kBF16, hidden}, {kF32, width}, {kF32, width}}, {{"epsilon", 1e-5}}},
      {"layer_norm_grad",
       "layer_norm_grad",
       {{kBF16, hidden}, {kBF16, hidden}, {kF32, width}, {kF32, rows}, {kF32, rows}}},
      {"softmax", "softmax", {{kBF16, hidden}}, {{"axis", int64_t{-1}}}},
      {"softmax statistics bf16", "softmax_statistics", {{kBF16, logits}, {DType::kI32, Shape{1024}}}},
      {"softmax statistics grad",
       "softmax_statistics_grad",
       {{kBF16, logits}, {DType::kI32, Shape{1024}}, {kF32, {1024, 1, 4}}, {kF32, {1024, 1, 4}}}},
      {"softmax statistics f32", "softmax_statistics", {{kF32, big_logits}, {DType::kI32, Shape{512}}}},
      {"sum_squares", "sum_squares", {{kF32, weights}}},
      {"adam",
       "adam",
       {{kF32, weights}, {kF32, weights}, {kF32, weights}, {kF32, weights}, scalar, scalar, scalar, scalar},
       adam},
      {"exponents f32", "exponent_histogram", {{kF32, weights}}},
      {"exponents bf16", "exponent_histogram", {{kBF16, weights}}},
      {"lion",
       "lion",
       {{kF32, weights}, {kF32, weights}, {kF32, weights}, scalar, scalar},
       {{"beta1", 0.9}, {"beta2", 0.99}, {"weight_decay", 0.01}}},
      {"lars",
       "lars",
       {{kF32, weights}, {kF32, weights}, {kF32, weights}, scalar, scalar, scalar, scalar},
       {{"momentum", 0.9}, {"weight_decay", 0.01}, {"trust_coefficient", 0.001}, {"norm_cap", 0.0}}},
      {"adafactor step",
       "adafactor_apply",
       {{kF32, weights}, {kF32, weights}, scalar, scalar, scalar, scalar},
       {{"beta1", 0.0},
        {"weight_decay", 0.01},
        {"clip_threshold", 1.0},
        {"scale_epsilon", 1e-3},
        {"elements", int64_t{1 << 24}}}},
      {"head permute", "transpose", {{kBF16, {64, 512, 12, 64}}}, {{"permutation", std::vector<int64_t>{0, 2, 1, 3}}}},
      {"transpose 2d bf16", "transpose", {{kBF16, {4096, 6144}}}, {{"permutation", std::vector<int64_t>{1, 0}}}},
      {"gather", "gather", {{kBF16, {30522, 768}}, {DType::kI32, Shape{24576}}}},
      {"scatter_add",
       "scatter_add",
       {{DType::kI32, Shape{24576}}, {kBF16, hidden}},
       {{"rows", int64_t{30522}}, {"dtype", kF32}}},
      {"concat", "concat", {{kBF16, hidden}, {kBF16, hidden}}, {{"axis", int64_t{1}}}},
  };
  for (const DType narrow : {kF16, kBF16, DType::kF8E4M3, DType::kF8E5M2}) {
    const std::string name(name_of(narrow));
    const Attributes draws{{"rounding", std::string("stochastic")}, {"seed", int64_t{7}}, {"tensor", int64_t{99}}};
    Attributes to{{"dtype", narrow}, {"saturate", true}}, drawn = draws;
    drawn.set("dtype", narrow).set("saturate", true);
    all.push_back({"narrow f32 to " + name, "narrow", {{kF32, wide}}, to});
    all.push_back({"narrow f32 to " + name + ", drawn", "narrow", {{kF32, wide}, counter}, drawn});
    all.push_back({"narrow " + name + " to f32", "narrow", {{narrow, wide}}, {{"dtype", kF32}}});
    if (size_of(narrow) == 1) continue;
    all.push_back({"accumulate " + name + ", drawn", "accumulate", {{narrow, wide}, {kF32, wide}, counter}, draws});
    Attributes held = adam;
    for (const auto& [key, value] : draws) held.set(key, value);
    all.push_back({"adam " + name + ", drawn",
                   "adam",
                   {{narrow, weights},
                    {kF32, weights},
                    {narrow, weights},
                    {narrow, weights},
                    scalar,
                    scalar,
                    scalar,
                    scalar,
                    counter},
                   held});
  }
  add_image_cases(all);
  return all;
}

void run_one(Case& one, ThreadTeam& team, double bandwidth, double budget) {
  NodeSignature node;
  node.op = &OpRegistry::instance().get(one.op);
  node.inputs = one.inputs;
  node.attributes = one.attributes;
  node.outputs = node.op->infer(node);
  const KernelChoice choice = cpu_backend().choose(node, team.size());
  const auto kernel = cpu_backend().make(node, team.size());
  std::vector<std::unique_ptr<Buffer>> held;
  std::vector<const void*> in;
  std::vector<void*> out;
  double bytes = 0;
  for (const TensorType& type : node.inputs) {
    held.push_back(std::make_unique<Buffer>(type.bytes()));
    in.push_back(held.back()->data());
    bytes += static_cast<double>(type.bytes());
    if (type.dtype == DType::kI32 || type.dtype == DType::kI64)
      for (int64_t i = 0; i < type.elements(); ++i)
        store_element(held.back()->data(), type.dtype, i, static_cast<double>(i * 7919 % 30000));
    if (one.op == "exponent_histogram")  // as many exponents as a gradient has
      for (int64_t i = 0; i < type.elements(); ++i)
        store_element(held.back()->data(), type.dtype, i,
                      std::ldexp(1.5, -std::countr_zero(static_cast<uint64_t>(i * 2654435761 >> 7 | 1 << 24))));
  }
  for (const TensorType& type : node.outputs) {
    held.push_back(std::make_unique<Buffer>(type.bytes()));
    out.push_back(held.back()->data());
    bytes += static_cast<double>(type.bytes());
  }
  if (one.op == "gather") bytes = 2.0 * static_cast<double>(node.outputs[0].bytes());
  const Buffer scratch(choice.scratch_bytes);
  const KernelContext context{in, out, scratch.data(), team};
  const double time = best_time(team, budget, [&] { kernel->run(context); });
  std::printf("%-30s %-10s %8.2f ms %7.2f GB/s %5.1f%%\n", one.name.c_str(), choice.name.c_str(), time * 1e3,
              bytes / time * 1e-9, 100 * bytes / time / bandwidth);
}

}  // namespace
}  // namespace ramet::bench

int main(int argc, char** argv) {
  using namespace ramet::bench;
  const int threads = argc > 1 ? std::atoi(argv[1]) : 1;
  const double budget = argc > 2 ? std::atof(argv[2]) : 0.15;
  const std::string only = argc > 3 ? argv[3] : "";
  ThreadTeam team(threads);
  print_load();
  const double of_triad = triad(team), of_copy = copy(team), bandwidth = std::max(of_triad, of_copy);
  std::printf("%s, %d threads: triad %.2f GB/s, memcpy %.2f GB/s\n", cpu_kernel_class().c_str(), threads,
              of_triad * 1e-9, of_copy * 1e-9);
  for (Case& one : cases())
    if (only.empty() || one.name.find(only) != std::string::npos) run_one(one, team, bandwidth, budget);
  print_load();
}
