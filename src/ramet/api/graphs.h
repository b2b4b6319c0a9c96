#pragma once

#include "ramet/base/house.h"

#include <array>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "ramet/base/error.h"
#include "ramet/model.h"
#include "ramet/model/model.h"
#include "ramet/ops/build.h"

namespace ramet::api {

/// What a model under construction has declared; its programs read it.
struct Declarations {
  std::string model;
  std::vector<StateTensor> weights, states;
  std::vector<model::InputSpec> inputs;

  /// The weight or state of that name, or null.
  const StateTensor* find_state(const std::string& name) const;
  const model::InputSpec* find_input(const std::string& name) const;
};

/// An Error with the place in the user's program behind its `where`.
[[noreturn]] void rethrow_at(const Error& error, const std::source_location& place);
/// Runs `act`; the line of the user's call is added to an Error that it throws.
template <typename Act>
auto at_place(const std::source_location& place, const Act& act) {
  try {
    return act();
  } catch (const Error& error) {
    rethrow_at(error, place);
  }
}
/// Throws ShapeError for an extent below 0, and Error for more bytes than there are.
void check_type(const std::string& name, const TensorType& type);
/// "model 'digits' at mlp.cc:12"
std::string where_of(const Declarations& declared, const std::source_location& place);

}  // namespace ramet::api

namespace ramet::v0::detail {

/// The graphs that a Builder writes: of a model that of training and that of evaluation, of a program its own.
class Graphs : public std::enable_shared_from_this<Graphs> {
 public:
  enum class Of { kModel, kProgram };
  Graphs(Of of, const std::string& name, std::shared_ptr<api::Declarations> declared);

  api::Declarations& declared() { return *declared_; }
  bool is_program() const { return of_ == Of::kProgram; }
  int size() const { return is_program() ? 1 : 2; }
  ir::Graph& graph(int which) { return graphs_[static_cast<size_t>(which)]; }
  ir::GraphBuilder& build(int which) { return *builds_[static_cast<size_t>(which)]; }
  /// Whether a graph is the one with dropout.
  bool trains(int which) const { return !is_program() && which == 0; }

  /// A tensor of values of all graphs, and its value in one of them; an invalid one for an invalid one.
  Tensor tensor(const std::array<ir::ValueId, 2>& ids);
  ir::Tensor in(int which, const Tensor& tensor);
  const TensorType& type_of(const Tensor& tensor) { return in(0, tensor).type(); }
  /// Of an argument; Error where it was never made.
  static Graphs& of(const Operand& operand);
  static Graphs& of(const Tensor& tensor) { return *tensor.graphs_; }
  static bool has(const Tensor& tensor, const Graphs& graphs) {
    return !tensor.graphs_ || tensor.graphs_.get() == &graphs;
  }
  static Graphs& of(Builder& builder) { return *builder.graphs_; }

  /// The input of role state with this name and type, in all graphs.
  Tensor state_input(const std::string& name, const TensorType& type);
  /// The random counter of a micro-batch.
  ir::Tensor counter(int which);
  /// A name for the random numbers of an op at this place, which no other op has.
  std::string random_name(const std::string& op);
  void output(const std::string& name, const Operand& value, ir::OutputRole role, int graphs);
  /// Adds scopes around all that follows, until `leave`.
  void enter(const std::string& name, const std::source_location& place);
  void enter(const std::string& stack, int64_t index, const std::source_location& place);
  void leave();

  /// Builds the same on each graph: `make(which, build)` gives the results, and what it adds knows the line of the
  /// call.
  template <typename Make>
  std::vector<Tensor> build_each(const std::source_location& place, const Make& make) {
    return api::at_place(place, [&] {
      std::vector<std::array<ir::ValueId, 2>> ids;
      for (int which = 0; which < size(); ++which) {
        ir::NodeInfo info = build(which).info();
        info.origin = ir::origin_of(place);
        const ir::InfoScope scope(build(which), std::move(info));
        const std::vector<ir::Tensor> made = make(which, build(which));
        ids.resize(made.size(), {ir::kNoValue, ir::kNoValue});
        for (size_t i = 0; i < made.size(); ++i) ids[i][static_cast<size_t>(which)] = made[i].id;
      }
      std::vector<Tensor> tensors;
      for (const auto& each : ids) tensors.push_back(tensor(each));
      return tensors;
    });
  }

 private:
  Of of_;
  std::shared_ptr<api::Declarations> declared_;
  std::deque<ir::Graph> graphs_;
  std::vector<std::unique_ptr<ir::GraphBuilder>> builds_;
  std::map<std::string, int> random_names_;
};

}  // namespace ramet::v0::detail
