#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ramet/base/dtype.h"
#include "ramet/transport/transport.h"

namespace ramet::transport {

/// The devices of one collective, in order of their positions.
struct Group {
  std::vector<int> members;

  int size() const { return static_cast<int>(members.size()); }
  /// Position of a device, or -1.
  int position_of(int device) const;
  /// "0..7", "0, 2, 4, 6"
  std::string text() const;

  /// Devices 0 .. devices-1.
  static Group all(int devices);
  /// The group of `device` when each `parts` neighbours form one.
  static Group consecutive(int device, int parts);
  /// The group of `device` when devices at distance `stride` form one: base + k * stride, k = (device / stride) %
  /// parts.
  static Group strided(int device, int parts, int stride);
  /// The group of `device` that has one device of each consecutive group of `parts`. `parts` must divide `devices`.
  static Group orthogonal(int device, int parts, int devices);
};

/// How a reduction combines two values. Sums of f16 and bf16 are rounded at every addition; integers wrap. For max and
/// min, as in the kernels of rows, NaN wins over numbers; between +0 and -0, the operand of the member at the higher
/// position wins.
enum class Reduction : uint8_t { kSum, kMax, kMin };

/// Whether the order of a sum is fixed (docs/architecture.md, "The same bits"): `kExact` is the balanced tree over
/// positions in the group (ops/reduce_order.h), whatever the algorithm, transport or hosts; `kFast` leaves it free.
enum class ExactBits : uint8_t { kExact, kFast };

/// How a collective is carried out. All give the same bits in exact mode, where kRing is refused.
enum class Algorithm : uint8_t {
  kAuto,          ///< shared memory on one host; hierarchical where hosts allow it; else halving, or ring in fast mode
  kShared,        ///< every member reads and writes its peers' memory: one pass over the data
  kHalving,       ///< messages: sums by recursive halving for powers of two, else each pair directly
  kRing,          ///< messages: a ring
  kHierarchical,  ///< within each host by shared memory, then between hosts; needs equal hosts of adjacent positions
};

struct CollectiveOptions {
  ExactBits bits = ExactBits::kExact;
  Algorithm algorithm = Algorithm::kAuto;
};

/// Part `part` of `count` elements cut in `parts`: the first (count % parts) parts have one element more.
struct PartRange {
  int64_t begin = 0, end = 0;
  int64_t count() const { return end - begin; }
};
PartRange part_range(int64_t count, int parts, int part);

/// The collectives of one device within one group. All members make their calls in the same order with the same
/// arguments (but for pointers); calls block until this member's buffers are its own again. A member that calls with
/// other arguments is found out, and all throw Error (by messages, when sizes differ or the time limit passes). One
/// thread drives it. Any memory may be given; memory of `Transport::allocate` is fastest between processes. Pointers
/// need the alignment of their elements.
///
/// `in` and `out` may be the same where noted, otherwise they must not overlap. Sums: f32, bf16, f16, i32, i64. Max and
/// min: the same. All others: any type. Counts are in elements and need not divide by the size of the group; 0 is
/// allowed.
class Collectives {
 public:
  /// `transport` must outlive this. Throws Error when its device is not in the group, a member is named twice, or the
  /// algorithm is not possible for it. Takes all memory that it will ever need (`scratch_bytes`) here.
  Collectives(Transport& transport, Group group, CollectiveOptions options = {});
  ~Collectives();
  Collectives(const Collectives&) = delete;
  Collectives& operator=(const Collectives&) = delete;

  const Group& group() const;
  int position() const;
  int size() const;
  /// The algorithm that kAuto chose.
  Algorithm algorithm() const;
  /// Host memory held by messages under way, beside the callers' buffers.
  int64_t scratch_bytes() const;

  /// out[count] = reduction over members of in[count]. `out` may be `in`.
  void all_reduce(const void* in, void* out, int64_t count, DType dtype, Reduction kind = Reduction::kSum);
  /// out[my part] = reduction over members of in[count], of which member k gets part k. `out` may be the own part
  /// within `in`.
  void reduce_scatter(const void* in, void* out, int64_t count, DType dtype, Reduction kind = Reduction::kSum);
  /// out[count] = the members' parts, in order of positions; member k gives in[part k]. `in` may be the own part within
  /// `out`.
  void all_gather(const void* in, void* out, int64_t count, DType dtype);
  /// Part j of in[count] goes to member j; out[size * my part] = what came from members 0, 1, ...
  void all_to_all(const void* in, void* out, int64_t count, DType dtype);
  /// data[count] of `root` for all.
  void broadcast(void* data, int64_t count, DType dtype, int root);
  /// As all_reduce, for `root` alone; `out` is ignored elsewhere.
  void reduce(const void* in, void* out, int64_t count, DType dtype, int root, Reduction kind = Reduction::kSum);
  /// As all_gather, for `root` alone; `out` is ignored elsewhere.
  void gather(const void* in, void* out, int64_t count, DType dtype, int root);
  /// Part k of in[count] of `root` goes to out[my part] of member k; `in` is ignored elsewhere. `out` may be root's own
  /// part.
  void scatter(const void* in, void* out, int64_t count, DType dtype, int root);
  /// To and from positions of the group; match as messages of the transport do, in order.
  void send(const void* data, int64_t count, DType dtype, int to);
  void receive(void* data, int64_t count, DType dtype, int from);
  /// Returns when all members have come.
  void barrier();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace ramet::transport
