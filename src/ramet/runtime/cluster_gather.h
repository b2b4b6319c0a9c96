#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "ramet/runtime/cluster_state.h"

namespace ramet::runtime {

/// Brings results from the devices that hold parts of them to the host of the leading rank, or of all: each as one
/// logical tensor. A result that several devices hold comes from the first of them. Takes as much host memory as the
/// results, and on each rank as much again as its devices give.
class ResultGather {
 public:
  /// Which results of a program (Executable::programs) there are: those for which `keep` says yes.
  using Keep = std::function<bool(const Segment& segment, const Binding& result)>;
  /// The replica whose devices give micro-batch `micro`, and the number of the micro-batch among those that they give.
  struct Giver {
    int replica = 0;
    int64_t number = 0;
  };

  ResultGather(ClusterState& cluster, int32_t program, int64_t count, const Keep& keep,
               std::function<Giver(int64_t micro)> giver, bool everywhere);

  /// The names of the results that there are.
  std::vector<std::string> names() const;
  /// Takes the part of a micro-batch's result that a device of this process holds. Devices may call it at the same
  /// time.
  void take(const ClusterDevice& device, int64_t micro, std::string_view name, const std::byte* data);
  /// All ranks together: the results of each micro-batch; on ranks that do not lead empty lists, but for `everywhere`.
  std::vector<ResultTensors> finish();

 private:
  struct Item {
    std::string name;
    int stage = 0;
    Sharding sharding;
  };
  /// The results that a device gives for a micro-batch: items, and the place of each in the message.
  struct Share {
    std::map<size_t, int64_t> place;  ///< by item
    int64_t bytes = 0;                ///< of one micro-batch
    int64_t micro_batches = 0;
    std::vector<std::byte> packed;  ///< of a device of another rank than the leading one
  };

  void find_items(int32_t program, const Keep& keep);
  void find_shares();
  bool keeps_results() const { return cluster_.rank == 0 || everywhere_; }
  void unpack(int device, const std::vector<std::byte>& bytes);
  void put(const Item& item, size_t index, int64_t micro, const Mesh::Position& position, const std::byte* data);
  void send_to_all();

  ClusterState& cluster_;
  const int64_t count_;
  const std::function<Giver(int64_t micro)> giver_;
  const bool everywhere_;
  std::vector<Item> items_;
  std::map<std::string, size_t, std::less<>> item_of_;
  std::vector<Share> shares_;  // by device
  std::vector<ResultTensors> results_;
};

}  // namespace ramet::runtime
