#pragma once

#include "ramet/base/house.h"

#include <map>
#include <optional>

#include "ramet/ir/graph.h"

namespace ramet::front {

/// Evaluates values of a graph that no input decides, and remembers what it found. The graph may grow meanwhile.
class KnownValues {
 public:
  explicit KnownValues(const Graph& graph) : graph_(graph) {}

  /// The elements of a value; null where some input decides them, or where they are too many (64 MiB).
  const TensorData* find(ValueId wanted);
  /// Says what an input holds.
  void set(ValueId value, TensorData data) { known_[value] = std::move(data); }

 private:
  void forget(ValueId id) { known_[id] = std::nullopt; }
  void evaluate(NodeId id);

  const Graph& graph_;
  std::map<ValueId, std::optional<TensorData>> known_{};
};

}  // namespace ramet::front
