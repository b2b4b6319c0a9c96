// Elements at index tensors on any axes: take and put.

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <span>
#include <type_traits>

#include "ramet/base/error.h"
#include "ramet/kernel/cpu/element_math.h"
#include "ramet/kernel/cpu/families.h"
#include "ramet/kernel/cpu/map_steps.h"
#include "ramet/ops/index_space.h"

namespace ramet::kernel {
namespace {

using cpu::map_steps;
using Dims = std::vector<int64_t>;

constexpr int64_t kRoom = 1024;    ///< updates that a thread widens at a time
constexpr int64_t kFewUnits = 16;  ///< below so many, threads share something else
constexpr int64_t kGrain = 4096;   ///< elements that are worth a thread
constexpr int64_t kStretchBytes = 1 << 16;

int64_t size_in(DType dtype) { return static_cast<int64_t>(size_of(dtype)); }

/// Indices of either integer type.
class IndexData {
 public:
  IndexData() = default;
  IndexData(const TensorType& type, const void* data) : wide_(type.dtype == DType::kI64), data_(data) {}
  int64_t operator[](int64_t i) const {
    return wide_ ? static_cast<const int64_t*>(data_)[i] : static_cast<const int32_t*>(data_)[i];
  }
  /// Calls `run` with the typed array.
  template <typename Run>
  void typed(const Run& run) const {
    if (wide_)
      run(static_cast<const int64_t*>(data_));
    else
      run(static_cast<const int32_t*>(data_));
  }

 private:
  bool wide_ = false;
  const void* data_ = nullptr;
};

constexpr size_t kMostIndices = 16;  ///< as many as a tensor may have axes
using IndexTensors = std::array<IndexData, kMostIndices>;

/// [begin, end)
struct Range {
  int64_t begin = 0, end = 0;
  bool contains(int64_t i) const { return i >= begin && i < end; }
};

/// Kept dimensions that are one in memory.
struct KeptDim {
  int64_t extent = 1;
  int64_t stride = 0;  ///< in the whole
  int64_t picked = 0;  ///< elements of the picked tensor from one to the next
};

/// A dimension of the space, merged with neighbours where all strides allow it.
struct SpaceDim {
  int64_t extent = 1;
  int64_t along = 0;  ///< stride in the whole; 0: along no axis
  Dims steps;         ///< stride in each index tensor
};

/// Parts of the work that a thread does; everything by default.
struct Share {
  Range outer, inner;  ///< of the kept elements before and behind the space
  int dim = -1;        ///< of the space, of which the thread does `coordinates`; -1: all dimensions whole
  Range coordinates;
  Range first_index;  ///< coordinates that index tensor 0 may name
};

/// The first of elements [begin, end) that is not in [least, extent); -1 when all are.
template <typename T>
int64_t first_outside(const T* values, int64_t begin, int64_t end, int64_t least, int64_t extent) {
  const auto range = static_cast<uint64_t>(extent - least);
  const auto outside = [&](int64_t i) {
    return static_cast<uint64_t>(values[i]) - static_cast<uint64_t>(least) >= range;
  };
  for (int64_t i = begin; i < end;) {
    const int64_t stop = std::min(end, i + 256);
    bool some = false;  // without a branch an element
    for (int64_t j = i; j < stop; ++j) some |= outside(j);
    for (; some; ++i)
      if (outside(i)) return i;
    i = stop;
  }
  return -1;
}

/// Loops over the positions of an index space, made once for a node.
class PickLoops {
 public:
  PickLoops(const NodeSignature& node, size_t first_index)
      : space_(node, first_index), first_index_(first_index), size_(size_in(node.inputs[0].dtype)) {
    const Dims own = space_.whole.strides();
    for (int axis : space_.axes) address_.push_back(own[static_cast<size_t>(axis)]);
    std::vector<Dims> steps;
    for (size_t n = 0; n < space_.axes.size(); ++n) steps.push_back(space_.index_strides(n));
    for (int d = 0; d < space_.space.rank(); ++d) {
      const auto dim = static_cast<size_t>(d);
      const int axis = space_.along[dim];
      SpaceDim next{space_.space.dim(d), axis < 0 ? 0 : own[static_cast<size_t>(axis)], {}};
      for (const Dims& each : steps) next.steps.push_back(each[dim]);
      add(std::move(next));
    }
    int64_t picked = space_.picked().elements();
    for (int i = 0; i < space_.before; ++i) add_kept(&outer_, i, own, &picked);
    for (const SpaceDim& dim : dims_) picked = dim.extent == 0 ? 0 : picked / dim.extent;
    inner_count_ = picked;
    for (int i = space_.before; i < static_cast<int>(space_.kept.size()); ++i) add_kept(&inner_, i, own, &picked);
    for (const KeptDim& dim : outer_) outer_count_ *= dim.extent;
    for (const SpaceDim& dim : dims_) positions_ *= dim.extent;
  }

  const IndexSpace& space() const { return space_; }
  int64_t size() const { return size_; }
  int64_t outer_count() const { return outer_count_; }
  int64_t inner_count() const { return inner_count_; }
  int64_t positions() const { return positions_; }
  const std::vector<SpaceDim>& dims() const { return dims_; }
  const std::vector<KeptDim>& inner() const { return inner_; }

  IndexTensors indices(const NodeSignature& node, const KernelContext& context) const {
    IndexTensors data;
    for (size_t n = 0; n < space_.axes.size(); ++n)
      data[n] = IndexData(node.inputs[first_index_ + n], context.inputs[first_index_ + n]);
    return data;
  }

  /// Throws the error for the first index out of range, of the first index tensor that has one. `found` has room for
  /// one number a thread.
  void check(const NodeSignature& node, const IndexData* indices, ThreadTeam& team, int64_t* found) const {
    for (size_t n = 0; n < space_.axes.size(); ++n) {
      std::fill_n(found, team.size(), int64_t{-1});
      const IndexData& data = indices[n];
      const int64_t extent = space_.whole.dim(space_.axes[n]), least = space_.from_end ? -extent : 0;
      team.split(space_.index_shapes[n].elements(), kGrain, [&](int64_t begin, int64_t end, int rank) {
        data.typed([&](const auto* values) { found[rank] = first_outside(values, begin, end, least, extent); });
      });
      // Threads have ranges in order of rank.
      for (int rank = 0; rank < team.size(); ++rank)
        if (found[rank] >= 0) throw space_.out_of_range(node, n, found[rank], data[found[rank]]);
    }
  }

  int64_t outer_offset(int64_t o) const {
    int64_t offset = 0;
    for (size_t i = outer_.size(); i-- > 0;) {
      offset += o % outer_[i].extent * outer_[i].stride;
      o /= outer_[i].extent;
    }
    return offset;
  }

  /// Calls `visit(position, count, at)` for stretches of positions [begin, end) along the last dimension of the space;
  /// at(j) is the offset in the whole of position + j.
  template <typename Visit>
  void walk(const IndexData* indices, int64_t begin, int64_t end, const Visit& visit) const {
    const size_t count = address_.size();
    while (begin < end) {
      int64_t base = 0, rest = begin, along = 0;
      int64_t starts[kMostIndices];
      std::fill_n(starts, count, int64_t{0});
      int64_t length = end - begin;
      for (size_t d = dims_.size(); d-- > 0;) {
        const int64_t coordinate = rest % dims_[d].extent;
        rest /= dims_[d].extent;
        base += coordinate * dims_[d].along;
        for (size_t n = 0; n < count; ++n) starts[n] += coordinate * dims_[d].steps[n];
        if (d + 1 == dims_.size()) {
          length = std::min(length, dims_[d].extent - coordinate);
          along = dims_[d].along;
        }
      }
      const int64_t* steps = dims_.empty() ? kNoSteps : dims_.back().steps.data();
      if (count == 1) {
        const int64_t start = starts[0], step = steps[0], address = address_[0];
        const int64_t extent = space_.whole.dim(space_.axes[0]);
        indices[0].typed([&](const auto* values) {
          const auto* first = values + start;
          if (space_.from_end)
            visit(begin, length, [=](int64_t j) {
              const int64_t index = first[j * step];
              return base + j * along + (index < 0 ? index + extent : index) * address;
            });
          else
            visit(begin, length, [=](int64_t j) { return base + j * along + first[j * step] * address; });
        });
      } else {
        visit(begin, length, [&](int64_t j) {
          int64_t offset = base + j * along;
          for (size_t n = 0; n < count; ++n)
            offset += coordinate(indices[n][starts[n] + j * steps[n]], n) * address_[n];
          return offset;
        });
      }
      begin += length;
    }
  }

  /// The same for the positions of a share, in order.
  template <typename Visit>
  void walk_share(const IndexData* indices, const Share& share, const Visit& visit) const {
    if (share.dim < 0) return walk(indices, 0, positions_, visit);
    int64_t behind = 1, before = 1;
    for (int d = 0; d < static_cast<int>(dims_.size()); ++d)
      if (d != share.dim) (d < share.dim ? before : behind) *= dims_[static_cast<size_t>(d)].extent;
    const int64_t extent = dims_[static_cast<size_t>(share.dim)].extent;
    for (int64_t b = 0; b < before; ++b)
      walk(indices, (b * extent + share.coordinates.begin) * behind, (b * extent + share.coordinates.end) * behind,
           visit);
  }

  /// Coordinate of index tensor 0 at an offset that a position addresses.
  int64_t first_coordinate(int64_t offset) const { return offset / address_[0] % space_.whole.dim(space_.axes[0]); }

 private:
  static constexpr int64_t kNoSteps[kMostIndices] = {};

  int64_t coordinate(int64_t index, size_t n) const {
    return index < 0 ? index + space_.whole.dim(space_.axes[n]) : index;
  }

  void add(SpaceDim next) {
    if (next.extent == 1) return;
    if (!dims_.empty()) {
      SpaceDim& last = dims_.back();
      bool joins = last.along == next.along * next.extent;
      for (size_t n = 0; n < next.steps.size(); ++n) joins = joins && last.steps[n] == next.steps[n] * next.extent;
      if (joins) {
        last.extent *= next.extent;
        last.along = next.along;
        last.steps = next.steps;
        return;
      }
    }
    dims_.push_back(std::move(next));
  }

  /// `picked` is the number of picked elements from one index of the dimension before to the next.
  void add_kept(std::vector<KeptDim>* to, int i, const Dims& own, int64_t* picked) const {
    const int axis = space_.kept[static_cast<size_t>(i)];
    const int64_t extent = space_.whole.dim(axis), stride = own[static_cast<size_t>(axis)];
    *picked = extent == 0 ? 0 : *picked / extent;
    if (extent == 1) return;
    if (!to->empty() && to->back().stride == stride * extent && to->back().picked == *picked * extent) {
      to->back() = {to->back().extent * extent, stride, *picked};
      return;
    }
    to->push_back({extent, stride, *picked});
  }

  IndexSpace space_;
  size_t first_index_;
  int64_t size_;
  Dims address_;
  std::vector<SpaceDim> dims_;
  std::vector<KeptDim> outer_, inner_;
  int64_t outer_count_ = 1, inner_count_ = 1, positions_ = 1;
};

/// Calls `run` with an unsigned integer of the size of an element.
template <typename Run>
void with_size(int64_t size, const Run& run) {
  if (size == 1)
    run(uint8_t{});
  else if (size == 2)
    run(uint16_t{});
  else if (size == 4)
    run(uint32_t{});
  else
    run(uint64_t{});
}

// --- take ---

/// Kept elements behind the space, from `from` in the whole to dense ones.
template <typename T>
void copy_kept(std::span<const KeptDim> dims, const T* from, T* to) {
  if (dims.empty()) {
    *to = *from;
  } else if (dims.size() > 1) {
    for (int64_t i = 0; i < dims[0].extent; ++i)
      copy_kept(dims.subspan(1), from + i * dims[0].stride, to + i * dims[0].picked);
  } else if (dims[0].stride == 1) {
    std::memcpy(to, from, static_cast<size_t>(dims[0].extent) * sizeof(T));
  } else {
    for (int64_t i = 0; i < dims[0].extent; ++i) to[i] = from[i * dims[0].stride];
  }
}

void run_take(const NodeSignature& node, const PickLoops& loops, const KernelContext& context) {
  const IndexTensors indices = loops.indices(node, context);
  loops.check(node, indices.data(), context.team, static_cast<int64_t*>(context.scratch));
  if (node.outputs[0].elements() == 0) return;
  with_size(loops.size(), [&]<typename T>(T) {
    const auto* from = static_cast<const T*>(context.inputs[0]);
    auto* to = static_cast<T*>(context.outputs[0]);
    const int64_t positions = loops.positions(), inner = loops.inner_count();
    context.team.split(
        loops.outer_count() * positions, std::max<int64_t>(1, kGrain / inner), [&](int64_t begin, int64_t end, int) {
          while (begin < end) {
            const int64_t outer = begin / positions, first = begin % positions,
                          last = std::min(positions, first + end - begin);
            const T* base = from + loops.outer_offset(outer);
            T* out = to + outer * positions * inner;
            loops.walk(indices.data(), first, last, [&](int64_t position, int64_t count, const auto& at) {
              T* row = out + position * inner;
              if (inner == 1)
                for (int64_t j = 0; j < count; ++j) row[j] = base[at(j)];
              else
                for (int64_t j = 0; j < count; ++j) copy_kept<T>(loops.inner(), base + at(j), row + j * inner);
            });
            begin += last - first;
          }
        });
  });
}

// --- put ---

/// How an element and an update join.
struct Assign {
  template <typename T>
  T operator()(T, T b) const {
    return b;
  }
};
struct Sum {
  template <typename T>
  T operator()(T a, T b) const {
    return cpu::wrapped_sum(a, b);
  }
};
struct Product {
  template <typename T>
  T operator()(T a, T b) const {
    return cpu::wrapped_product(a, b);
  }
};
struct Least {
  template <typename T>
  T operator()(T a, T b) const {
    const T least = b < a ? b : a;  // one instruction: only a NaN is a branch
    return cpu::is_nan(b) ? b : least;
  }
};
struct Greatest {
  template <typename T>
  T operator()(T a, T b) const {
    const T greatest = b > a ? b : a;
    return cpu::is_nan(b) ? b : greatest;
  }
};

/// Updates [first, first + count) of a share's kept elements behind the space, to `to` in the whole. `read(first,
/// count)` gives at most kRoom of them.
template <typename T, typename Join, typename Read>
void join_kept(std::span<const KeptDim> dims, Range part, const Join& join, const Read& read, int64_t first, T* to) {
  if (dims.size() > 1) {
    for (int64_t i = 0; i < dims[0].extent; ++i)
      join_kept(dims.subspan(1), Range{0, dims[1].extent}, join, read, first + i * dims[0].picked,
                to + i * dims[0].stride);
    return;
  }
  const int64_t stride = dims[0].stride;
  for (int64_t begin = part.begin; begin < part.end; begin += kRoom) {
    const int64_t count = std::min(kRoom, part.end - begin);
    const T* values = read(first + begin, count);
    T* out = to + begin * stride;
    if constexpr (std::is_same_v<T, float> && std::is_same_v<Join, Sum>) {
      if (stride == 1) {
        map_steps().add(values, count, out);
        continue;
      }
    }
    if (stride == 1)
      for (int64_t i = 0; i < count; ++i) out[i] = join(out[i], values[i]);
    else
      for (int64_t i = 0; i < count; ++i) out[i * stride] = join(out[i * stride], values[i]);
  }
}

/// All updates of a share, in order of position for each element.
template <typename T, typename Join, typename Read>
void join_share(const PickLoops& loops, const IndexData* indices, const Share& share, const Join& join,
                const Read& read, T* out) {
  const int64_t positions = loops.positions(), inner = loops.inner_count();
  const bool filters =
      share.first_index.begin > 0 || share.first_index.end < loops.space().whole.dim(loops.space().axes[0]);
  for (int64_t outer = share.outer.begin; outer < share.outer.end; ++outer) {
    T* base = out + loops.outer_offset(outer);
    const int64_t first = outer * positions;
    loops.walk_share(indices, share, [&](int64_t position, int64_t count, const auto& at) {
      const auto skips = [&](int64_t offset) { return !share.first_index.contains(loops.first_coordinate(offset)); };
      if (inner == 1) {
        for (int64_t begin = 0; begin < count; begin += kRoom) {
          const int64_t some = std::min(kRoom, count - begin);
          const T* values = read(first + position + begin, some);
          if (filters) {
            for (int64_t j = 0; j < some; ++j)
              if (const int64_t offset = at(begin + j); !skips(offset)) base[offset] = join(base[offset], values[j]);
          } else {
            for (int64_t j = 0; j < some; ++j) {
              T& element = base[at(begin + j)];
              element = join(element, values[j]);
            }
          }
        }
        return;
      }
      for (int64_t j = 0; j < count; ++j)
        if (const int64_t offset = at(j); !filters || !skips(offset))
          join_kept<T>(loops.inner(), share.inner, join, read, (first + position + j) * inner, base + offset);
    });
  }
}

/// What no element changes by.
template <typename T>
T identity_of(const std::string& by) {
  using Limits = std::numeric_limits<T>;
  if (by == "add") return T{0};
  if (by == "mul") return T{1};
  const bool least = by == "min";
  if constexpr (std::is_floating_point_v<T>) return least ? Limits::infinity() : -Limits::infinity();
  return least ? Limits::max() : Limits::lowest();
}

/// One node's put, made once.
class PutKernel {
 public:
  explicit PutKernel(const NodeSignature& node)
      : node_(node),
        loops_(node, 2),
        by_(node.attributes.get_string("by")),
        include_self_(node.attributes.get_bool_or("include_self", true)) {
    const DType dtype = node.inputs[0].dtype;
    widens_ = by_ != "set" && is_floating(dtype) && dtype != DType::kF32;
    // Elements meet only where all coordinates agree: threads may share any of them.
    int64_t most = loops_.outer_count();
    for (size_t d = 0; d < loops_.dims().size(); ++d)
      if (loops_.dims()[d].along != 0 && loops_.dims()[d].extent > most)
        most = loops_.dims()[d].extent, dim_ = static_cast<int>(d);
    if (most >= kFewUnits)
      shares_ = dim_ < 0 ? Shares::kOuter : Shares::kCoordinates;
    else
      shares_ = loops_.inner().size() == 1 && loops_.inner_count() >= 16 * kFewUnits ? Shares::kInner : Shares::kIndex;
    extent_ = shares_ == Shares::kInner   ? loops_.inner_count()
              : shares_ == Shares::kIndex ? loops_.space().whole.dim(loops_.space().axes[0])
                                          : most;
  }

  static int64_t scratch(const NodeSignature& node, int threads) {
    const bool widens = node.attributes.get_string("by") != "set" && is_floating(node.inputs[0].dtype) &&
                        node.inputs[0].dtype != DType::kF32;
    return room_bytes(threads) + threads * kRoom * 8 + (widens ? node.outputs[0].elements() * 4 : 0);
  }

  void run(const KernelContext& context) const {
    const IndexTensors indices = loops_.indices(node_, context);
    loops_.check(node_, indices.data(), context.team, static_cast<int64_t*>(context.scratch));
    if (node_.outputs[0].elements() == 0) return;
    const DType dtype = node_.inputs[0].dtype;
    if (by_ == "set") {
      copy_base(context);
      with_size(loops_.size(), [&]<typename T>(T) {
        const auto* updates = static_cast<const T*>(context.inputs[1]);
        join_all(
            context, indices.data(), Assign(), [&](int) { return direct(updates); },
            static_cast<T*>(context.outputs[0]));
      });
    } else if (widens_) {
      run_wide(context, indices.data());
    } else {
      copy_base(context);
      if (dtype == DType::kF32)
        run_typed<float>(context, indices.data());
      else if (dtype == DType::kI32)
        run_typed<int32_t>(context, indices.data());
      else if (dtype == DType::kI64)
        run_typed<int64_t>(context, indices.data());
      else
        run_typed<uint8_t>(context, indices.data());
    }
  }

 private:
  enum class Shares { kOuter, kInner, kCoordinates, kIndex };

  static int64_t room_bytes(int threads) { return (threads * int64_t{8} + 63) / 64 * 64; }

  template <typename T>
  static auto direct(const T* updates) {
    return [updates](int64_t first, int64_t) { return updates + first; };
  }

  /// The same for every thread's room.
  char* rooms(const KernelContext& context) const {
    return static_cast<char*>(context.scratch) + room_bytes(context.team.size());
  }

  void copy_base(const KernelContext& context) const {
    if (context.inputs[0] == context.outputs[0]) return;
    const auto* from = static_cast<const char*>(context.inputs[0]);
    auto* to = static_cast<char*>(context.outputs[0]);
    context.team.split(node_.outputs[0].bytes(), kStretchBytes, [&](int64_t begin, int64_t end, int) {
      std::memcpy(to + begin, from + begin, static_cast<size_t>(end - begin));
    });
  }

  Share share_of(int64_t begin, int64_t end) const {
    Share share;
    share.outer = {0, loops_.outer_count()};
    if (!loops_.inner().empty()) share.inner = {0, loops_.inner()[0].extent};
    share.first_index = {0, loops_.space().whole.dim(loops_.space().axes[0])};
    switch (shares_) {
      case Shares::kOuter: share.outer = {begin, end}; break;
      case Shares::kInner: share.inner = {begin, end}; break;
      case Shares::kIndex: share.first_index = {begin, end}; break;
      case Shares::kCoordinates:
        share.dim = dim_;
        share.coordinates = {begin, end};
        break;
    }
    return share;
  }

  /// `reader(rank)` gives a thread's way to read updates.
  template <typename T, typename Join, typename Reader>
  void join_all(const KernelContext& context, const IndexData* indices, const Join& join, const Reader& reader,
                T* out) const {
    const int64_t work = std::max<int64_t>(1, node_.inputs[1].elements() / std::max<int64_t>(1, extent_));
    const int64_t grain = std::max<int64_t>(shares_ == Shares::kInner ? 64 : 1, kGrain / work);
    context.team.split(extent_, grain, [&](int64_t begin, int64_t end, int rank) {
      join_share<T>(loops_, indices, share_of(begin, end), join, reader(rank), out);
    });
  }

  /// Joins by name; elements with updates are set to the identity first where their own values do not count.
  template <typename T, typename Reader>
  void join_by_name(const KernelContext& context, const IndexData* indices, const Reader& reader, T* out) const {
    if (!include_self_) {
      auto* nothing = reinterpret_cast<T*>(rooms(context));
      std::fill_n(nothing, kRoom, identity_of<T>(by_));
      join_all(context, indices, Assign(), [&](int) { return [nothing](int64_t, int64_t) { return nothing; }; }, out);
    }
    if constexpr (!std::is_same_v<T, uint8_t>) {  // bools
      if (by_ == "add") return join_all(context, indices, Sum(), reader, out);
      if (by_ == "mul") return join_all(context, indices, Product(), reader, out);
    }
    if (by_ == "min") return join_all(context, indices, Least(), reader, out);
    join_all(context, indices, Greatest(), reader, out);
  }

  template <typename T>
  void run_typed(const KernelContext& context, const IndexData* indices) const {
    const auto* updates = static_cast<const T*>(context.inputs[1]);
    join_by_name(context, indices, [&](int) { return direct(updates); }, static_cast<T*>(context.outputs[0]));
  }

  /// Floats narrower than f32: all elements as f32, and each rounded once.
  void run_wide(const KernelContext& context, const IndexData* indices) const {
    const DType dtype = node_.inputs[0].dtype;
    const int64_t size = loops_.size();
    char* room = rooms(context);
    auto* sums = reinterpret_cast<float*>(room + context.team.size() * kRoom * 8);
    const auto* base = static_cast<const char*>(context.inputs[0]);
    const auto* updates = static_cast<const char*>(context.inputs[1]);
    auto* out = static_cast<char*>(context.outputs[0]);
    const int64_t elements = node_.outputs[0].elements();
    const cpu::LoadFunction load = map_steps().load(dtype);
    const cpu::StoreFunction store = map_steps().store(dtype);
    context.team.split(elements, kGrain, [&](int64_t begin, int64_t end, int) {
      load(base + begin * size, 1, end - begin, sums + begin);
    });
    join_by_name(
        context, indices,
        [&](int rank) {
          auto* own = reinterpret_cast<float*>(room) + rank * kRoom * 2;
          return [=](int64_t first, int64_t count) -> const float* {
            load(updates + first * size, 1, count, own);
            return own;
          };
        },
        sums);
    context.team.split(elements, kGrain,
                       [&](int64_t begin, int64_t end, int) { store(sums + begin, end - begin, out + begin * size); });
  }

  NodeSignature node_;
  PickLoops loops_;
  std::string by_;
  bool include_self_, widens_ = false;
  Shares shares_ = Shares::kOuter;
  int dim_ = -1;        ///< of the space, for kCoordinates
  int64_t extent_ = 1;  ///< of what threads share
};

std::string refuse_put(const NodeSignature& node) {
  const DType dtype = node.inputs[0].dtype;
  if (node.attributes.get_string("by") == "set") return "";
  if (dtype == DType::kI32 || dtype == DType::kI64 || dtype == DType::kBool) return "";
  if (is_floating(dtype) && map_steps().load(dtype) && map_steps().store(dtype)) return "";
  return "no arithmetic on this type";
}

}  // namespace

void add_cpu_take(Backend& backend) {
  cpu::add_hwy(
      backend, "take", {},
      [](const NodeSignature& node, int) {
        return [node, loops = PickLoops(node, 1)](const KernelContext& context) { run_take(node, loops, context); };
      },
      [](const NodeSignature&, int threads) { return threads * int64_t{8}; });
  cpu::add_hwy(backend, "put", refuse_put,
               [](const NodeSignature& node, int) {
                 return [kernel = PutKernel(node)](const KernelContext& context) { kernel.run(context); };
               },
               PutKernel::scratch, {{0, 0}});
}

}  // namespace ramet::kernel
