#include "ramet/train/onnx_gradient.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <optional>
#include <set>
#include <vector>

#include "ramet/base/error.h"
#include "ramet/base/hash.h"
#include "ramet/base/rng.h"
#include "ramet/kernel/interpret.h"
#include "ramet/ops/build.h"
#include "ramet/transform/differentiate.h"

namespace ramet::train {
namespace {

using Kind = GradientCheck::Kind;
using Feeds = std::map<std::string, HostTensor>;

constexpr int kMostPoints = 12;
constexpr double kStep = 1e-5, kCoarseStep = 3e-3;  // of the arguments; coarse where a node computes in f32

/// Uniform in [-1, 1): element i of a named draw.
double draw(const std::string& what, int64_t number, int64_t i) {
  const RandomStream random(1, RandomPurpose::kTest, static_cast<uint64_t>(number), hash64(what));
  return 2 * static_cast<double>(random.uniform(static_cast<uint64_t>(i))) - 1;
}

HostTensor in_double(const HostTensor& from) {
  if (!is_floating(from.type.dtype)) return from;
  HostTensor made(TensorType{DType::kF64, from.type.shape});
  for (int64_t i = 0; i < from.elements(); ++i) made.set(i, from.get(i));
  return made;
}

/// Values of one type that the type holds well enough for a comparison.
double tolerance_of(const Graph& graph) {
  double tolerance = 2e-3;
  for (const Value& value : graph.values())
    if (is_floating(value.type.dtype) && size_of(value.type.dtype) < 4)
      tolerance = std::max(tolerance, size_of(value.type.dtype) == 2 ? 4e-2 : 0.3);
  return tolerance;
}

class Checker {
 public:
  Checker(const Graph& graph, const Feeds& feeds) : graph_(graph), first_(feeds) {
    for (const GraphInput& input : graph.inputs()) {
      const Value& value = graph.value(input.value);
      if (is_floating(value.type.dtype) && value.type.elements() > 0) targets_.push_back(value.name);
    }
    for (const GraphOutput& output : graph.outputs()) {
      const TensorType& type = graph.type(output.value);
      if (is_floating(type.dtype) && type.elements() > 0) projected_.push_back(output.name);
    }
  }

  GradientCheck run() {
    if (targets_.empty()) return {Kind::kNone, "no input of floats"};
    if (projected_.empty()) return {Kind::kNone, "no output of floats"};
    std::string constant;
    std::erase_if(targets_, [&](const std::string& name) {
      const bool stops = !reaches(name);
      if (stops) constant += (constant.empty() ? "without " : ", ") + name;
      return stops;
    });
    if (targets_.empty()) return {Kind::kNone, "no gradient flows from an output to an input"};
    find_endless();
    Graph gradients("gradient");
    try {
      gradients = transform::differentiate(with_loss(), kLoss, targets_);
    } catch (const Error& error) {
      return {Kind::kNone, error.parts().what};
    }
    const double tolerance = tolerance_of(graph_);
    for (int point = 0; point < kMostPoints; ++point) {
      const Feeds feeds = near(point);
      std::string differs;
      if (!check_point(gradients, feeds, point, tolerance, differs)) continue;
      return differs.empty() ? GradientCheck{Kind::kChecked, constant} : GradientCheck{Kind::kWrong, differs};
    }
    return {Kind::kUnsure,
            (finite_ ? "no derivative at " : "not finite at ") + std::to_string(kMostPoints) + " points"};
  }

 private:
  static constexpr const char* kLoss = "ramet.loss";

  /// Whether an output may depend on an input through nodes that let gradients through.
  bool reaches(const std::string& input) const {
    std::vector<bool> active(graph_.values().size(), false);
    active[static_cast<size_t>(graph_.find_input(input))] = true;
    for (const Node& node : graph_.nodes()) {
      bool any = false;
      for (const ValueId each : node.inputs) any = any || active[static_cast<size_t>(each)];
      if (!any || node.op->gradient_stops) continue;
      for (const ValueId output : node.outputs)
        if (is_floating(graph_.type(output).dtype)) active[static_cast<size_t>(output)] = true;
    }
    return std::any_of(projected_.begin(), projected_.end(), [&](const std::string& name) {
      return active[static_cast<size_t>(graph_.find_output(name)->value)];
    });
  }

  /// Elements of outputs that are not finite (scores of hidden keys, for example) have no part in the projection.
  void find_endless() {
    Feeds at;
    for (const auto& [name, tensor] : first_) at[name] = in_double(tensor);
    bool exact = true;
    const std::vector<HostTensor> results = interpret_in_double(graph_, at, exact);
    for (size_t o = 0; o < results.size(); ++o)
      for (int64_t i = 0; is_floating(results[o].type.dtype) && i < results[o].elements(); ++i)
        if (!std::isfinite(results[o].get(i))) endless_[graph_.outputs()[o].name].insert(i);
    // Where nothing else is left, other points may be finite.
    for (const std::string& name : projected_)
      if (static_cast<int64_t>(endless_[name].size()) < graph_.type(graph_.find_output(name)->value).elements()) return;
    endless_.clear();
  }

  /// The graph with the sum of its outputs by random factors as another output, in f32.
  Graph with_loss() const {
    Graph made(graph_.name());
    GraphCopier copier(graph_, made);
    copier.copy_inputs();
    for (NodeId id = 0; id < static_cast<NodeId>(graph_.nodes().size()); ++id) copier.copy_node(id);
    GraphBuilder build(made);
    Tensor sum;
    for (const std::string& name : projected_) {
      Tensor value = build.tensor(copier[graph_.find_output(name)->value]);
      const Shape shape = value.shape();
      if (value.dtype() != DType::kF32) value = ops::cast(value, DType::kF32);
      HostTensor factors(TensorType{DType::kF32, shape});
      for (int64_t i = 0; i < factors.elements(); ++i) factors.set(i, factor(name, i));
      if (const auto left_out = endless_.find(name); left_out != endless_.end()) {
        HostTensor kept(TensorType{DType::kBool, shape});
        for (int64_t i = 0; i < kept.elements(); ++i) kept.set(i, left_out->second.count(i) ? 0 : 1);
        value =
            ops::select(ops::constant(build, TensorData(std::move(kept))), value, ops::full(build, DType::kF32, {}, 0));
      }
      Tensor part = ops::multiply(value, ops::constant(build, TensorData(std::move(factors))));
      part = ops::reduce_sum(ops::reshape(part, Shape({shape.elements()})), {0}, false);
      sum = sum.valid() ? ops::add(sum, part) : part;
    }
    build.output(kLoss, sum);
    return made;
  }
  static double factor(const std::string& output, int64_t i) {
    return static_cast<float>(draw("factors of " + output, 0, i));
  }

  /// The first point, or one near it.
  Feeds near(int point) const {
    Feeds made = first_;
    if (point == 0) return made;
    const double reach = 0.02 * point;
    for (const std::string& name : targets_) {
      HostTensor& tensor = made.at(name);
      for (int64_t i = 0; i < tensor.elements(); ++i) {
        const double given = tensor.get(i),
                     x = std::isfinite(given) && std::fabs(given) < 1e6 ? given : draw(name, point, i);
        tensor.set(i, x + reach * draw("moves of " + name, point, i) * (std::fabs(x) + 0.2));
      }
    }
    return made;
  }

  double projection(const Feeds& at, bool& exact) const {
    const std::vector<HostTensor> results = interpret_in_double(graph_, at, exact);
    double sum = 0;
    for (size_t o = 0; o < results.size(); ++o) {
      const std::string& name = graph_.outputs()[o].name;
      if (std::find(projected_.begin(), projected_.end(), name) == projected_.end()) continue;
      const auto left_out = endless_.find(name);
      for (int64_t i = 0; i < results[o].elements(); ++i)
        if (left_out == endless_.end() || !left_out->second.count(i)) sum += factor(name, i) * results[o].get(i);
    }
    return sum;
  }

  /// The derivative along a direction by central differences; nothing where there is none, or the function is not
  /// finite: the one-sided differences must agree, and those of half the step too.
  std::optional<double> difference(const Feeds& at, const Feeds& direction, double middle, bool exact) const {
    const double h = exact ? kStep : kCoarseStep, agree = exact ? 1e-4 : 1e-1;
    const auto value = [&](double t) {
      Feeds moved = at;
      for (const auto& [name, along] : direction) {
        HostTensor& tensor = moved.at(name);
        for (int64_t i = 0; i < tensor.elements(); ++i) tensor.set(i, tensor.get(i) + t * along.get(i));
      }
      bool ignored = true;
      return projection(moved, ignored);
    };
    const double up = value(h), down = value(-h), half_up = value(h / 2), half_down = value(-h / 2);
    const double slope = (up - down) / (2 * h);
    for (const double side : {(up - middle) / h, (middle - down) / h, (half_up - half_down) / h})
      if (!std::isfinite(side) || std::fabs(side - slope) > agree * (1 + std::fabs(slope) + std::fabs(middle)))
        return std::nullopt;
    // By Richardson's rule the error is of order h^4.
    return (4 * (half_up - half_down) / h - slope) / 3;
  }

  /// False where the function has no derivative at the point. `differs` tells what is wrong.
  bool check_point(const Graph& gradients, const Feeds& feeds, int point, double tolerance, std::string& differs) {
    Feeds at;
    for (const auto& [name, tensor] : feeds) at[name] = in_double(tensor);
    bool exact = true;
    const double middle = projection(at, exact);
    finite_ = std::isfinite(middle);
    if (!finite_) return false;
    const std::vector<HostTensor> results = interpret(gradients, cpu_backend(), feeds);
    std::map<std::string, const HostTensor*> found;
    for (size_t i = 0; i < results.size(); ++i) found[gradients.outputs()[i].name] = &results[i];
    if (!exact) tolerance = std::max(tolerance, 2e-2);
    std::vector<std::vector<std::string>> groups = {targets_};
    if (targets_.size() > 1)
      for (const std::string& name : targets_) groups.push_back({name});
    for (const std::vector<std::string>& group : groups) {
      Feeds direction;
      double slope = 0, scale = 0;
      for (const std::string& name : group) {
        HostTensor along(TensorType{DType::kF64, at.at(name).type.shape});
        for (int64_t i = 0; i < along.elements(); ++i) {
          along.set(i, draw("direction of " + name, point, i));
          const double term = found.at("grad." + name)->get(i) * along.get(i);
          slope += term, scale += std::fabs(term);
        }
        direction[name] = std::move(along);
      }
      const auto expected = difference(at, direction, middle, exact);
      if (!expected) return false;
      const double allowed =
          tolerance * (scale + std::fabs(*expected)) + (exact ? 1e-6 : 1e-3) * (1 + std::fabs(middle));
      if (std::fabs(slope - *expected) <= allowed) continue;
      char text[160];
      std::snprintf(text, sizeof text, "along '%s' the slope is %.6g by the gradient, %.6g by differences",
                    group.size() == 1 ? group[0].c_str() : "all inputs", slope, *expected);
      differs = text;
      return true;
    }
    return true;
  }

  const Graph& graph_;
  const Feeds& first_;
  std::vector<std::string> targets_{}, projected_{};
  std::map<std::string, std::set<int64_t>> endless_{};  ///< by output
  bool finite_ = true;                                  ///< at the last point
};

}  // namespace

std::string_view name_of(GradientCheck::Kind kind) {
  switch (kind) {
    case Kind::kChecked: return "checked";
    case Kind::kNone: return "none";
    case Kind::kUnsure: return "unsure";
    case Kind::kWrong: return "wrong";
  }
  return "";
}

GradientCheck check_gradient(const Graph& graph, const std::map<std::string, HostTensor>& feeds) {
  return Checker(graph, feeds).run();
}

}  // namespace ramet::train
