#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ramet/layout/layout.h"
#include "ramet/runtime/row_tables.h"
#include "ramet/train/train_options.h"
#include "ramet/train/workload.h"

namespace ramet::train {

/// A source whose samples name the rows of tables by their places among the rows of the step that the samples belong
/// to, in ascending order.
class RowSource : public Source {
 public:
  /// Rows of step `step` by table, a function of the samples alone. Any thread may call it.
  virtual RowsOfStep rows_of(int64_t step) const = 0;
};

/// A workload whose tables (Workload::rows) live in streaming memory: a program reads and updates a table that has the
/// rows of one step. The bits are those of the whole table, because the sum of a row's gradients, and its update, do
/// not depend on other rows, because norms are exact sums, to which rows without a gradient add nothing, and because
/// the optimizer would leave rows without a gradient as they are.
struct RowWindow {
  Model model;                              ///< of the programs; its named programs are Evaluator::programs_by_rows
  std::shared_ptr<const RowSource> source;  ///< of training; null where the workload has none
  std::vector<RowTable> tables;

  /// What a person wants to know: rows, where they are, and the bytes of a step.
  std::string text(const Layout& layout) const;
  /// Of the host, beside the devices: pages on their way, and all rows where streaming memory is RAM.
  int64_t host_bytes(const Layout& layout) const;
};

/// The window of a layout with offload=rows. Throws Error (`where`: the layout) with everything that is in the way: no
/// such table, an optimizer that changes rows without a gradient, numbers that depend on the place of a row, several
/// processes (`ranks`), or an evaluation that reads whole tables.
RowWindow make_row_window(const Workload& workload, const TrainOptions& options, const Layout& layout,
                          const std::string& where, int ranks);

/// Puts whole states in the place of windows.
void take_whole_states(const std::vector<RowTable>& tables, std::vector<StateTensor>& states);

/// For uses of a layout that know nothing of tables by rows: throws Error when it asks for them.
void refuse_rows(const Layout& layout, const std::string& where, const std::string& what);

}  // namespace ramet::train
