#include "ramet/ops/edge_map.h"

#include <vector>

#include "ramet/base/host_tensor.h"
#include "ramet/kernel/reference/reference.h"
#include "ramet/ops/map_types.h"
#include "ramet/ops/neighbors.h"

// The oracle of maps over edges: all rows that edges read and all their values as whole tensors, made by `map`.

namespace ramet::kernel {
namespace {

using ops::EdgeMapForm;

class EdgeMapOracle {
 public:
  explicit EdgeMapOracle(const ReferenceOperands& operands)
      : operands_(operands), form_(operands.node()), tables_(static_cast<int>(form_.tables.size())) {
    for (int t = 0; t < tables_; ++t) rows_.push_back(rows_of(t));
  }

  void run() {
    std::vector<HostTensor> inputs, outputs;
    for (int i = 0; i < form_.program.inputs; ++i) inputs.push_back(input(i));
    for (const TensorType& type : operands_.node().outputs) outputs.emplace_back(TensorType{type.dtype, form_.space});
    evaluate(inputs, outputs);
    for (size_t i = 0; i < outputs.size(); ++i) give(static_cast<int>(i), outputs[i]);
  }

 private:
  const EdgeMapForm::Read& read(int i) const { return form_.reads[static_cast<size_t>(i)]; }
  int64_t edges() const { return form_.samples * form_.edges; }

  /// For each edge its row within its sample by a table, -1: none.
  std::vector<int64_t> rows_of(int table) const {
    const EdgeMapForm::Table& at = form_.tables[static_cast<size_t>(table)];
    const NodeSignature& node = operands_.node();
    std::vector<int64_t> rows(static_cast<size_t>(edges()), -1);
    if (at.pointers) {
      const auto* const ptr = static_cast<const int32_t*>(operands_.input_bytes(table));
      ops::check_segments(node, ptr, form_.samples, at.rows, form_.edges);
      for (int64_t b = 0; b < form_.samples; ++b)
        for (int64_t row = 0; row < at.rows; ++row)
          for (int64_t e = ptr[b * (at.rows + 1) + row]; e < ptr[b * (at.rows + 1) + row + 1]; ++e)
            rows[static_cast<size_t>(b * form_.edges + e)] = row;
      return rows;
    }
    for (int64_t e = 0; e < edges(); ++e) {
      const int64_t row = operands_.get_int(table, e);
      if (row < 0 || row >= at.rows)
        throw ops::wrong_edge_list(node, "table " + std::to_string(table) + ", edge " + std::to_string(e), row, 0,
                                   at.rows - 1);
      rows[static_cast<size_t>(e)] = row;
    }
    return rows;
  }

  /// An input of the program as `map` takes it.
  HostTensor input(int i) const {
    const TensorType& type = operands_.input_type(tables_ + i);
    const auto* const bytes = static_cast<const std::byte*>(operands_.input_bytes(tables_ + i));
    if (read(i).table < 0) {
      HostTensor same(type);
      std::copy_n(bytes, same.data.size(), same.data.begin());
      return same;
    }
    std::vector<int64_t> dims(form_.space.dims().begin(), form_.space.dims().begin() + form_.lead);
    dims.insert(dims.end(), read(i).features.dims().begin(), read(i).features.dims().end());
    HostTensor rows({type.dtype, Shape(dims)});
    const int64_t size = read(i).features.elements() * static_cast<int64_t>(size_of(type.dtype));
    for (int64_t e = 0; e < edges(); ++e)
      if (const int64_t row = rows_[static_cast<size_t>(read(i).table)][static_cast<size_t>(e)]; row >= 0)
        std::copy_n(bytes + (e / form_.edges * read(i).rows + row) * size, size, rows.data.begin() + e * size);
    return rows;
  }

  void evaluate(const std::vector<HostTensor>& inputs, std::vector<HostTensor>& outputs) const {
    NodeSignature map;
    map.op = &OpRegistry::instance().get("map");
    std::vector<DType> dtypes;
    KernelContext context = operands_.context();
    std::vector<const void*> from;
    std::vector<void*> to;
    for (const HostTensor& each : inputs) map.inputs.push_back(each.type), from.push_back(each.data.data());
    for (HostTensor& each : outputs) {
      map.outputs.push_back(each.type), to.push_back(each.data.data());
      dtypes.push_back(each.type.dtype);
    }
    map.attributes = Attributes{
        {"program", form_.program.text()}, {"shape", form_.space.dims()}, {"dtypes", ops::dtypes_text(dtypes)}};
    map.name = operands_.node().name;
    context.inputs = from;
    context.outputs = to;
    run_reference_map(ReferenceOperands(map, context));
  }

  void give(int output, const HostTensor& values) const {
    const EdgeMapForm::Give& give = form_.gives[static_cast<size_t>(output)];
    if (give.table < 0) {
      std::copy(values.data.begin(), values.data.end(), static_cast<std::byte*>(operands_.output_bytes(output)));
      return;
    }
    const std::vector<int64_t>& rows = rows_[static_cast<size_t>(give.table)];
    std::vector<double> sums(static_cast<size_t>(form_.samples * give.rows * form_.width), 0.0);
    std::vector<int64_t> counts(static_cast<size_t>(form_.samples * give.rows), 0);
    for (int64_t e = 0; e < edges(); ++e) {
      if (rows[static_cast<size_t>(e)] < 0) continue;
      const int64_t row = e / form_.edges * give.rows + rows[static_cast<size_t>(e)];
      ++counts[static_cast<size_t>(row)];
      for (int64_t f = 0; f < form_.width; ++f)
        sums[static_cast<size_t>(row * form_.width + f)] += values.get(e * form_.width + f);
    }
    for (int64_t i = 0; i < std::ssize(sums); ++i) {
      const int64_t count = give.mean ? std::max<int64_t>(1, counts[static_cast<size_t>(i / form_.width)]) : 1;
      operands_.set(output, i, sums[static_cast<size_t>(i)] / static_cast<double>(count));
    }
  }

  const ReferenceOperands& operands_;
  const EdgeMapForm form_;
  const int tables_;
  std::vector<std::vector<int64_t>> rows_;  ///< of each table
};

}  // namespace

void add_reference_edge_map(Backend& backend) {
  add_reference(backend, "edge_map", [](const ReferenceOperands& operands) { EdgeMapOracle(operands).run(); });
}

}  // namespace ramet::kernel
