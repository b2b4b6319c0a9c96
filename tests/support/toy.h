#pragma once

#include <cmath>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "ramet/base/error.h"
#include "ramet/base/host_tensor.h"
#include "ramet/kernel/kernel.h"
#include "ramet/kernel/reference/reference.h"
#include "ramet/transform/step_graph.h"

namespace ramet::tests::toy {

// Ops that stand in for real ones where a test is about graphs, memory and order, not about numbers. All are f32.

/// y = sum of x_i / (i + 2), any number of inputs of one shape; may be written over any of them.
inline const OpDef& blend() {
  static const OpDef op = [] {
    OpDef def;
    def.name = "toy_blend";
    def.max_inputs = -1;
    def.attributes = {{"salt", AttributeSpec::Kind::kInt, false, "makes nodes differ"}};
    def.infer = [](const NodeSignature& node) {
      for (const TensorType& type : node.inputs)
        if (type != node.inputs[0]) throw Error({.what = "blend of two types", .where = node.text()});
      return std::vector<TensorType>{node.inputs[0]};
    };
    def.cost = [](const NodeSignature& node) {
      return Cost{static_cast<double>(node.inputs.size() * 2) * static_cast<double>(node.outputs[0].elements()),
                  static_cast<int64_t>(node.inputs.size()) * node.inputs[0].bytes(), node.outputs[0].bytes()};
    };
    return def;
  }();
  return op;
}

/// The same, but each output element needs all of the input: y_j = x_j + x_(n-1-j) / 3. Never in place. Uses scratch.
inline const OpDef& mirror() {
  static const OpDef op = [] {
    OpDef def;
    def.name = "toy_mirror";
    def.min_inputs = def.max_inputs = 1;
    def.infer = [](const NodeSignature& node) { return std::vector<TensorType>{node.inputs[0]}; };
    return def;
  }();
  return op;
}

/// Two outputs: x / 2 (may be in place) and the sum, f32[].
inline const OpDef& halve_and_sum() {
  static const OpDef op = [] {
    OpDef def;
    def.name = "toy_halve_and_sum";
    def.min_inputs = def.max_inputs = 1;
    def.infer = [](const NodeSignature& node) { return std::vector<TensorType>{node.inputs[0], {DType::kF32, {}}}; };
    return def;
  }();
  return op;
}

/// The same bytes as a vector.
inline const OpDef& flatten() {
  static const OpDef op = [] {
    OpDef def;
    def.name = "toy_flatten";
    def.min_inputs = def.max_inputs = 1;
    def.is_view = true;
    def.infer = [](const NodeSignature& node) {
      return std::vector<TensorType>{{node.inputs[0].dtype, Shape{node.inputs[0].elements()}}};
    };
    return def;
  }();
  return op;
}

/// a + b, as the op that accumulates gradients.
inline const OpDef& add() {
  static const OpDef op = [] {
    OpDef def = blend();
    def.name = "toy_add";
    def.min_inputs = def.max_inputs = 2;
    def.map_op = "add";
    return def;
  }();
  return op;
}

/// The same, but no pass may join it to others: each sum is rounded.
inline const OpDef& plain_add() {
  static const OpDef op = [] {
    OpDef def = blend();
    def.name = "toy_plain_add";
    def.min_inputs = def.max_inputs = 2;
    return def;
  }();
  return op;
}

template <typename Run>
class FunctionKernel final : public Kernel {
 public:
  explicit FunctionKernel(Run run) : run_(std::move(run)) {}
  void run(const KernelContext& context) const override { run_(context); }

 private:
  Run run_;
};

template <typename Run>
std::unique_ptr<Kernel> kernel_of(Run run) {
  return std::make_unique<FunctionKernel<Run>>(std::move(run));
}

inline const float* input(const KernelContext& context, size_t i) {
  return static_cast<const float*>(context.inputs[i]);
}
inline float* output(const KernelContext& context, size_t i) { return static_cast<float*>(context.outputs[i]); }

inline std::vector<std::pair<int, int>> all_inputs(const NodeSignature& node) {
  std::vector<std::pair<int, int>> pairs;
  for (size_t i = 0; i < node.inputs.size(); ++i) pairs.emplace_back(static_cast<int>(i), 0);
  return pairs;
}

/// Kernels for the ops above. Without `in_place` none may write over its operands: the plain way, for comparison.
inline Backend make_backend(bool in_place = true) {
  Backend backend("toy");
  const auto aliases = in_place ? all_inputs : [](const NodeSignature&) { return std::vector<std::pair<int, int>>{}; };
  const auto never = [](const NodeSignature&) { return std::string(); };
  backend.add({"toy_blend",
               "plain",
               never,
               [](const NodeSignature& node, int) {
                 return kernel_of(
                     [n = node.outputs[0].elements(), count = node.inputs.size()](const KernelContext& context) {
                       for (int64_t j = 0; j < n; ++j) {
                         float sum = 0;
                         for (size_t i = 0; i < count; ++i) sum += input(context, i)[j] / static_cast<float>(i + 2);
                         output(context, 0)[j] = sum;
                       }
                     });
               },
               {},
               aliases,
               {}});
  for (const char* name : {"toy_add", "toy_plain_add"})
    backend.add({name,
                 "plain",
                 never,
                 [](const NodeSignature& node, int) {
                   return kernel_of([n = node.outputs[0].elements()](const KernelContext& context) {
                     for (int64_t j = 0; j < n; ++j)
                       output(context, 0)[j] = input(context, 0)[j] + input(context, 1)[j];
                   });
                 },
                 {},
                 aliases,
                 {}});
  backend.add({"toy_mirror",
               "plain",
               never,
               [](const NodeSignature& node, int) {
                 return kernel_of([n = node.outputs[0].elements()](const KernelContext& context) {
                   float* scratch = static_cast<float*>(context.scratch);
                   for (int64_t j = 0; j < n; ++j) scratch[j] = input(context, 0)[n - 1 - j];
                   for (int64_t j = 0; j < n; ++j) output(context, 0)[j] = input(context, 0)[j] + scratch[j] / 3;
                 });
               },
               [](const NodeSignature& node, int) { return std::max<int64_t>(4, node.outputs[0].bytes()); },
               {},
               {}});
  backend.add({"toy_halve_and_sum",
               "plain",
               never,
               [](const NodeSignature& node, int) {
                 return kernel_of([n = node.outputs[0].elements()](const KernelContext& context) {
                   float sum = 0;
                   for (int64_t j = 0; j < n; ++j) {
                     sum += input(context, 0)[j];
                     output(context, 0)[j] = input(context, 0)[j] / 2;
                   }
                   output(context, 1)[0] = sum;
                 });
               },
               {},
               aliases,
               {}});
  backend.add({"toy_flatten",
               "plain",
               never,
               [](const NodeSignature& node, int) {
                 return kernel_of([bytes = node.outputs[0].bytes()](const KernelContext& context) {
                   std::copy_n(static_cast<const std::byte*>(context.inputs[0]), bytes,
                               static_cast<std::byte*>(context.outputs[0]));
                 });
               },
               {},
               {},
               {}});
  add_reference_kernels(backend);  // for what passes make of the ops: maps, say
  return backend;
}

/// A tensor of pleasant numbers that differ.
inline HostTensor numbers(const TensorType& type, uint32_t seed) {
  HostTensor tensor(type);
  std::mt19937 random(seed);
  for (int64_t i = 0; i < tensor.elements(); ++i) tensor.set(i, static_cast<double>(random() % 2001) / 1000 - 1);
  return tensor;
}

/// Of a node of a part of a model.
inline NodeInfo in_layer(int layer, const std::string& rest = "", NodePass pass = NodePass::kForward) {
  NodeInfo info = "layer" + std::to_string(layer) + rest;
  info.part = {"layer", layer};
  info.pass = pass;
  return info;
}

}  // namespace ramet::tests::toy
