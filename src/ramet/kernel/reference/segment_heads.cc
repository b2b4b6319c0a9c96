#include "ramet/ops/segment_heads.h"

#include "ramet/kernel/reference/reference.h"
#include "ramet/ops/neighbors.h"

namespace ramet::kernel {
namespace {

using ops::SegmentHeadsForm;

/// A node's form, with its pointers checked, and the places of its elements.
class Heads {
 public:
  Heads(const ReferenceOperands& operands, const SegmentHeadsForm& form)
      : form_(form), ptr_(static_cast<const int32_t*>(operands.input_bytes(2))) {
    ops::check_segments(operands.node(), ptr_, form.batch, form.rows, form.edges);
    for (int64_t i = 0; i < operands.output_type(0).elements(); ++i) operands.set(0, i, 0);
  }

  /// Calls visit(b, row, edge) for all edges.
  template <typename Visit>
  void each_edge(const Visit& visit) const {
    for (int64_t b = 0; b < form_.batch; ++b)
      for (int64_t row = 0; row < form_.rows; ++row) {
        const int32_t* const at = ptr_ + b * (form_.rows + 1) + row;
        for (int64_t edge = at[0]; edge < at[1]; ++edge) visit(b, row, edge);
      }
  }
  int64_t row(int64_t b, int64_t head, int64_t row, int64_t feature) const {
    return ((b * form_.heads + head) * form_.rows + row) * form_.width + feature;
  }
  int64_t edge(int64_t b, int64_t edge, int64_t feature) const {
    return (b * form_.edges + edge) * form_.width + feature;
  }
  int64_t weight(int64_t b, int64_t edge, int64_t head) const { return (b * form_.edges + edge) * form_.heads + head; }

 private:
  const SegmentHeadsForm& form_;
  const int32_t* ptr_;
};

void segment_dot(const ReferenceOperands& operands) {
  const SegmentHeadsForm form = ops::segment_dot_form(operands.node());
  const Heads at(operands, form);
  at.each_edge([&](int64_t b, int64_t row, int64_t edge) {
    for (int64_t h = 0; h < form.heads; ++h) {
      double sum = 0;
      for (int64_t f = 0; f < form.width; ++f)
        sum += operands.get(0, at.row(b, h, row, f)) * operands.get(1, at.edge(b, edge, f));
      operands.set(0, at.weight(b, edge, h), sum);
    }
  });
}

void segment_combine(const ReferenceOperands& operands) {
  const SegmentHeadsForm form = ops::segment_combine_form(operands.node());
  const Heads at(operands, form);
  std::vector<double> sums(static_cast<size_t>(form.batch * form.heads * form.rows * form.width));
  at.each_edge([&](int64_t b, int64_t row, int64_t edge) {
    for (int64_t h = 0; h < form.heads; ++h)
      for (int64_t f = 0; f < form.width; ++f)
        sums[static_cast<size_t>(at.row(b, h, row, f))] +=
            operands.get(1, at.weight(b, edge, h)) * operands.get(0, at.edge(b, edge, f));
  });
  for (size_t i = 0; i < sums.size(); ++i) operands.set(0, static_cast<int64_t>(i), sums[i]);
}

void segment_blend(const ReferenceOperands& operands) {
  const SegmentHeadsForm form = ops::segment_blend_form(operands.node());
  const Heads at(operands, form);
  at.each_edge([&](int64_t b, int64_t row, int64_t edge) {
    for (int64_t f = 0; f < form.width; ++f) {
      double sum = 0;
      for (int64_t h = 0; h < form.heads; ++h)
        sum += operands.get(1, at.weight(b, edge, h)) * operands.get(0, at.row(b, h, row, f));
      operands.set(0, at.edge(b, edge, f), sum);
    }
  });
}

}  // namespace

void add_reference_segment_heads(Backend& backend) {
  add_reference(backend, "segment_dot", segment_dot);
  add_reference(backend, "segment_combine", segment_combine);
  add_reference(backend, "segment_blend", segment_blend);
}

}  // namespace ramet::kernel
