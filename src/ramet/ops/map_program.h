#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ramet/base/shape.h"

namespace ramet::ir {
struct NodeSignature;
}  // namespace ramet::ir

namespace ramet::ops {

/// Which element types a map op takes and gives. Integers wrap; bool is 0 or 1.
enum class MapOpTypes : uint8_t {
  kNumber,   ///< floats or integers of one kind -> the same
  kFloat,    ///< floats -> float
  kCompare,  ///< floats, or integers of one kind, or bools -> bool
  kTest,     ///< floats -> bool
  kLogical,  ///< bools -> bool
  kSelect,   ///< bool, then two of one kind -> that kind
  kAny,      ///< any -> the same
  kInteger,  ///< integers of one type -> the same
  kCast,     ///< any -> Step::dtype
  kDropout   ///< float, counter i64[2] -> float
};

/// One operation of a map program. Floating values are f32 whatever the inputs' and outputs' types, except that f64
/// stays f64; integers and bools keep their types. This is the one table of element-wise ops: op nodes are made from it
/// (ops/elementwise.cc), and every backend evaluates the same list.
struct MapOpInfo {
  std::string_view name;  ///< "add", "gelu", "dropout", ...
  int arity;
  int parameters;  ///< number of immediate floats: 0, 1 (slope, factor, rate) or 2 (clamp's bounds)
  MapOpTypes types;
  bool commutative;
  int flops;             ///< operations an element, for the cost model
  std::string_view doc;  ///< what it computes from its operands a, b, c and its immediates p, q
  /// The meaning on floats, in double; the oracle of every backend. Null for ops that floats do not have, for
  /// "cast" (see `Step::dtype`) and for "dropout", which draws bits.
  double (*scalar)(double a, double b, double c, double p, double q);
  /// The meaning on integers and bools; the result is wrapped to the type. Null where there is none.
  int64_t (*integer)(int64_t a, int64_t b, int64_t c);
  /// The meaning on u64 where it is another than that of `integer` on the same bits.
  uint64_t (*natural)(uint64_t a, uint64_t b) = nullptr;
};
const std::vector<MapOpInfo>& map_op_table();
/// Index in the table; throws Error on an unknown name, with the nearest known one.
int map_op_index(std::string_view name);
const MapOpInfo& map_op(std::string_view name);

/// A small expression program over one iteration space. Fusion makes one of a chain of element-wise ops
/// (transform/fuse.h). Values are numbered: inputs first, then steps. All floating arithmetic is f32 (on f64: f64):
/// inputs are widened on load, and rounded once at each output, or where a `round_bf16`/`round_f16` step says so.
/// Inputs broadcast to the iteration space by NumPy's rule; only the counter of a dropout step (i64[2]) is no tensor
/// over that space. An output may be summed over the rows or the last dimension of the iteration space, in the order
/// that ops/reduce_order.h defines.
///
/// Text form (attribute `program` of node `map`), number of inputs, steps, outputs:
/// "2:%2=add(%0,%1);%3=gelu(%2);%4=scale[0.5](%3)->%3,sum_rows(%4)". Immediates stand in brackets: numbers of an op
/// that takes them; "cast[i32](%0)"; "dropout[rate,seed,tensor](%0,%1)" with the seed and the 64-bit tensor id in
/// decimal.
struct MapProgram {
  struct Step {
    int op = 0;                 ///< index in map_op_table()
    std::vector<int> operands;  ///< value numbers
    double parameter = 0;       ///< p
    double second = 0;          ///< q
    DType dtype = DType::kF32;  ///< of cast: f32, f64, an integer type or bool
    uint64_t seed = 0;          ///< of dropout
    uint64_t tensor = 0;        ///< of dropout: id of the logical tensor (see ops/random_bits.h)
    const MapOpInfo& info() const { return map_op_table()[static_cast<size_t>(op)]; }
    friend bool operator==(const Step&, const Step&) = default;
  };
  enum class Reduce : uint8_t {
    kNone,
    kSumRows,  ///< over all dimensions but the last: [.., C] -> [C]
    kSumLast   ///< over the last dimension: [.., C] -> [..]
  };
  struct Output {
    int value = 0;
    Reduce reduce = Reduce::kNone;
    friend bool operator==(const Output&, const Output&) = default;
  };
  int inputs = 0;
  std::vector<Step> steps;
  std::vector<Output> outputs;

  int values() const { return inputs + static_cast<int>(steps.size()); }
  /// Throws Error naming the place; hostile text is refused, never crashes.
  static MapProgram parse(std::string_view text);
  std::string text() const;
  /// For each input whether it is the counter of a dropout step, and so no tensor over the iteration space.
  std::vector<bool> counters() const;
  /// Whether any step draws random bits, and so depends on where its elements are in the logical tensor.
  bool draws() const;
  friend bool operator==(const MapProgram&, const MapProgram&) = default;
};

/// `info`'s meaning on integers of type `dtype`, each given and returned as its 64 bits; not wrapped.
int64_t integer_meaning(const MapOpInfo& info, DType dtype, int64_t a, int64_t b, int64_t c);

/// Types of all values of a program, given its inputs' (floats but f64 as f32). Throws Error naming `where` and the
/// step.
std::vector<DType> map_value_types(const MapProgram& program, std::span<const DType> inputs, const std::string& where);

/// The program of a node `map`, or of an element-wise node: the step or the program that its op names (OpDef::map_op).
MapProgram map_program_of(const NodeSignature& node);
/// The iteration space of such a node.
Shape map_space_of(const NodeSignature& node);
/// Pairs (input, output) of it that may share bytes: inputs that lie as the iteration space does, with outputs of their
/// own element size that are not summed.
std::vector<std::pair<int, int>> map_aliases(const NodeSignature& node);

}  // namespace ramet::ops
