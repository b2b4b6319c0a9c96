#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ramet/runtime/streaming_store.h"
#include "ramet/transform/step_graph.h"

namespace ramet::runtime {

struct ClusterState;

/// A table and its optimizer's states: tensors of which a step reads and changes some rows, the same in each.
struct RowTable {
  struct State {
    StateTensor whole;   ///< all rows
    StateTensor window;  ///< the rows of a step, as the devices' programs have the state; of the same name
  };
  std::vector<State> states;
  int64_t rows() const { return states[0].whole.type.shape[0]; }
  int64_t window() const { return states[0].window.type.shape[0]; }
  int64_t widest_window() const;  ///< bytes
};

/// Rows of each table that a step reads: ascending, without duplicates.
using RowsOfStep = std::vector<std::vector<int32_t>>;

/// Tables that live in streaming memory. Before a step its rows are copied to the devices' windows, and those of the
/// step before it back; meanwhile the rows of the step after it are fetched. A row's bytes in all states of a table are
/// one record. Records lie in pages: blocks of a file, or single records in RAM. One thread drives it.
class RowTables {
 public:
  /// `streaming`: "ram", or a folder for files. All bytes are zero at first. Throws Error (kFailure) when there is no
  /// room for them.
  RowTables(std::vector<RowTable> tables, const std::string& streaming);
  ~RowTables();
  RowTables(const RowTables&) = delete;
  RowTables& operator=(const RowTables&) = delete;

  /// The whole form of a state; null when no table has it.
  const StateTensor* find(const std::string& name) const;
  /// Whether `state` is the whole form of one.
  bool holds(const StateTensor& state) const;

  /// Bytes [offset, offset + bytes) of a whole state, as Cluster::write_state and read_state. `devices` have the
  /// windows.
  void write(ClusterState& devices, const StateTensor& state, int64_t offset, std::span<const std::byte> bytes);
  void read(ClusterState& devices, const StateTensor& state, int64_t offset, std::span<std::byte> to);

  /// Gives the devices the rows of a step; place i of a window is row rows[t][i] of table t. The rows of `next` are
  /// fetched until the next call. Returns whether the windows are others than before, so that `run_derive` is due.
  bool bring(ClusterState& devices, const RowsOfStep& rows, const RowsOfStep& next);

  /// Bytes of streaming memory, and of host memory for pages on their way.
  static int64_t streaming_bytes(const std::vector<RowTable>& tables, bool files);
  static int64_t staging_bytes(const std::vector<RowTable>& tables, bool files);
  /// The most that a step can bring in; it writes as much back.
  static int64_t step_bytes(const std::vector<RowTable>& tables, bool files);

 private:
  struct Table;
  std::vector<std::unique_ptr<Table>> tables_;
};

}  // namespace ramet::runtime
