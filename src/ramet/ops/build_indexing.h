#pragma once

#include <string>
#include <utility>
#include <vector>

#include "ramet/ops/build.h"

namespace ramet::ops {

// Elements found by index, and elements in order. Indices are i32 or i64. An index out of range is an error at run time
// that names the op, the position and the range; nothing has been written then. Where several updates meet in one
// element, the update of the last position wins ("set"), or the updates are joined in order of position.

// --- the general ops ---

/// How index tensors address the elements of a tensor (ops/index_space.h).
struct Addressing {
  std::vector<int64_t> axes;     ///< of the tensor: one an index tensor
  std::vector<int64_t> along{};  ///< for each dimension of the indices an axis of the tensor, or -1; empty: all -1
  int64_t before = 0;            ///< how many of the other axes stand before the indices' dimensions in the result
  bool from_end = false;         ///< a negative index counts from the end
};
/// The addressed elements: the first `before` of the axes that are not addressed, the dimensions of the indices, the
/// other axes.
Tensor take(Tensor a, const std::vector<Tensor>& indices, const Addressing& addressing);
/// How an update changes an element: "set", "add", "mul", "min" or "max". Floats narrower than f32 are summed and
/// multiplied in f32, starting from the element, and rounded once. Without `include_self`, the value of an element that
/// has updates does not count.
struct UpdateBy {
  std::string by = "set";
  bool include_self = true;
};
/// `a` with updates (of the shape and type of take's result) at the addressed elements.
Tensor put(Tensor a, Tensor updates, const std::vector<Tensor>& indices, const Addressing& addressing,
           const UpdateBy& by);

// --- along one axis ---

/// out[i, j, k] = a[i, indices[i, j, k], k] for axis 1 (torch.gather, ONNX GatherElements). The indices have a's rank,
/// and at most a's extents on the other axes.
Tensor gather_elements(Tensor a, Tensor indices, int64_t axis, bool from_end = false);
/// `a` with updates (of the shape of the indices) at the elements that gather_elements would read (torch.scatter,
/// scatter_reduce). `by.by` may also be "mean", for floats: the sum over the number of its terms.
Tensor scatter_elements(Tensor a, Tensor indices, Tensor updates, int64_t axis, const UpdateBy& by = {},
                        bool from_end = false);
/// a[..., indices, ...]: the indices' dimensions replace `axis` (torch.index_select and embeddings, ONNX Gather). On
/// axis 0 without `from_end` this is the op `gather`, whose table a layout may cut into rows.
Tensor index_select(Tensor a, Tensor indices, int64_t axis, bool from_end = false);

// --- tuples of indices ---

/// indices [B..., I..., n] hold coordinates on the n axes of `a` [B..., D..., rest...] behind `batch_dims` shared
/// dimensions -> [B..., I..., rest...] (ONNX GatherND, tf.gather_nd).
Tensor gather_nd(Tensor a, Tensor indices, int64_t batch_dims = 0, bool from_end = false);
/// `a` with updates [I..., rest...] at indices [I..., n] (ONNX ScatterND). `by.by` may also be "mean".
Tensor scatter_nd(Tensor a, Tensor indices, Tensor updates, const UpdateBy& by = {}, bool from_end = false);

// --- advanced indexing, as NumPy's and PyTorch's ---

/// a[indices[0], indices[1], ...]: an invalid Tensor is a full slice, and missing ones behind are too. The index
/// tensors broadcast; their dimensions stand where the first index tensor stands when all index tensors are neighbours,
/// and else first. Negative indices count from the end. Masks (bool) are refused: the size of the result would depend
/// on data.
Tensor index(Tensor a, const std::vector<Tensor>& indices);
/// `a` with a[indices...] = values, or += with `accumulate`. The values broadcast to the shape of index(a, indices).
/// One mask (bool, over neighbouring axes) in place of all indices is allowed when the values have extent 1, or no
/// dimension, where the masked elements would stand.
Tensor index_put(Tensor a, const std::vector<Tensor>& indices, Tensor values, bool accumulate = false);
/// `a` with the next element of `source`, in row-major order, wherever the mask is true (torch.masked_scatter). The
/// mask and `a` broadcast to one shape. Fewer elements in the source than true ones in the mask are an error at run
/// time.
Tensor masked_scatter(Tensor a, Tensor mask, Tensor source);

/// Throws the Error for an op whose result has a size that depends on data (nonzero, masked_select, unique), with what
/// to do instead. `where` names the node or the line.
[[noreturn]] void refuse_size_of_data(const std::string& op, const std::string& where);

// --- order ---

/// The elements in order along `axis`, and their i32 indices. Equal elements keep their order (the sort is stable). A
/// NaN counts as the greatest.
std::pair<Tensor, Tensor> sort(Tensor a, int64_t axis, bool descending = false);
Tensor argsort(Tensor a, int64_t axis, bool descending = false);
/// The k greatest (or least) elements along `axis` in that order, and their i32 indices; of equals the first. A NaN
/// counts as the greatest.
std::pair<Tensor, Tensor> top_k(Tensor a, int64_t k, int64_t axis, bool largest = true);
/// How many elements of `sorted` (ascending along the last axis) are less than each of `values`; with `right`, less or
/// equal: i32. `sorted` is a vector, or has the values' leading dimensions (torch.searchsorted, torch.bucketize).
/// `sorter` may give the indices that bring `sorted` into order (argsort).
Tensor search_sorted(Tensor sorted, Tensor values, bool right = false, Tensor sorter = {});

// --- running results along an axis ---

struct RunningOptions {
  bool reverse = false;    ///< from the last element to the first
  bool exclusive = false;  ///< of the elements before alone; the first result is that of no elements
};
Tensor cumsum(Tensor a, int64_t axis, const RunningOptions& options);
Tensor cumprod(Tensor a, int64_t axis, const RunningOptions& options = {});
/// The greatest (least) element so far and its i32 index, the last of equals; a NaN stays.
std::pair<Tensor, Tensor> cummax(Tensor a, int64_t axis);
std::pair<Tensor, Tensor> cummin(Tensor a, int64_t axis);
/// h[t] = factors[t] * h[t-1] + terms[t], with h[-1] = 0; with `reverse` from the last element to the first.
Tensor linear_scan(Tensor factors, Tensor terms, int64_t axis, bool reverse = false);

}  // namespace ramet::ops
