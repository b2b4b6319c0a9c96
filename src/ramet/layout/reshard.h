#pragma once

#include <map>
#include <string>
#include <vector>

#include "ramet/ir/graph.h"
#include "ramet/layout/sharding.h"

namespace ramet::layout {

/// How a value lies on the devices of a mesh: cut, and perhaps only a part of a sum.
struct Spread {
  std::vector<Cut> cuts;  ///< in order of dimensions
  int64_t flat_parts = 1, flat_stride = 1;
  uint32_t partial = 0;  ///< bit MeshAxis: members of the axis hold terms of a sum

  bool flat() const { return flat_parts > 1; }
  bool whole() const { return cuts.empty() && !flat() && partial == 0; }
  const Cut* cut_of(int dim) const;
  friend bool operator==(const Spread&, const Spread&) = default;
};
constexpr uint32_t bit_of(MeshAxis axis) { return 1u << static_cast<unsigned>(axis); }
/// The sharding of a tensor that lies so and is no partial sum.
Sharding sharding_of(const TensorType& logical, const Spread& spread);

/// Brings values from one spread to another by collectives and local copies, each way once. A cut that only moves to
/// another dimension is one all-to-all.
class Resharder {
 public:
  /// `deal`: the clusters of a graph in the order of the devices, for cuts that are dealt.
  Resharder(const Mesh& mesh, Graph& graph, std::vector<int64_t> deal = {})
      : mesh_(mesh), graph_(graph), deal_(std::move(deal)) {}
  /// The value as it lies in `to`. Sums that `to` does not leave partial are made here, into its cut or flat parts
  /// where it has them. The nodes are known as what `maker` says, with "/reshard" behind its name.
  ValueId convert(ValueId value, const TensorType& logical, const Spread& from, const Spread& to,
                  const NodeInfo& maker);

 private:
  struct State;
  void finish_sums(State& state, const Spread& to);
  void leave_flat(State& state);
  void change_cuts(State& state, const Spread& to);
  void enter_flat(State& state, const Spread& to);
  ValueId flatten(const State& state, int64_t parts);
  ValueId in_order_of_clusters(const State& state, int dim);
  ValueId add(const std::string& op, ValueId input, Attributes attributes, const State& state);

  const Mesh& mesh_;
  Graph& graph_;
  const std::vector<int64_t> deal_;
  std::map<std::pair<ValueId, std::string>, ValueId> known_;
};

}  // namespace ramet::layout
