#include <algorithm>
#include <limits>

#include "ramet/front/patterns.h"

// Rotary positions that are written out: x cos + turned(x) sin, where turned(x) exchanges the two elements of each pair
// and negates the first one. The tables of cosines and sines hold each angle twice, once for each element of a pair.

namespace ramet::front {
namespace {

using Kind = TracedArgument::Kind;

/// An axis of a call from 0; -1 where it is no axis of this rank.
int axis_at(const TracedCall& call, std::string_view name, int rank, double absent) {
  const double axis = number_of(call, name, absent).value_or(rank);
  if (!(axis >= -rank && axis < rank)) return -1;
  return static_cast<int>(axis < 0 ? axis + rank : axis);
}

/// Elements start, start + step, ... of x along its last axis.
struct Elements {
  std::string x{};
  int64_t start = 0, step = 1, count = 0;
};

/// What a call aten.slice takes of the last axis; none where it cuts another axis.
std::optional<Elements> elements_of(const PatternProgram& program, const TracedCall& call) {
  const std::string x = tensor_of(call, "self");
  const TensorType *from = program.type(x), *to = program.type(call.outputs[0]);
  if (call.op != "aten.slice" || !from || !to || from->shape.rank() < 1 || to->shape.rank() != from->shape.rank())
    return std::nullopt;
  if (axis_at(call, "dim", from->shape.rank(), 0) != from->shape.rank() - 1) return std::nullopt;
  const TracedArgument *start = call.find("start"), *step = call.find("step");
  Elements made{x, start && start->given() ? start->integer : 0, step && step->given() ? step->integer : 1,
                to->shape.dim(-1)};
  if (made.start < 0) made.start += from->shape.dim(-1);
  return made.start >= 0 && made.step >= 1 ? std::optional(made) : std::nullopt;
}

/// The two tensors that a call joins along a new or an old last axis.
std::optional<std::pair<const TracedArgument*, const TracedArgument*>> joined(const PatternProgram& program,
                                                                              const TracedCall& call) {
  const TracedArgument* tensors = call.find("tensors");
  const TensorType* type = program.type(call.outputs[0]);
  if (!tensors || tensors->list.size() != 2 || !type || type->shape.rank() < 1) return std::nullopt;
  if (axis_at(call, "dim", type->shape.rank(), 0) != type->shape.rank() - 1) return std::nullopt;
  const TracedArgument &first = tensors->list[0], &second = tensors->list[1];
  if (first.kind != Kind::kTensor || second.kind != Kind::kTensor) return std::nullopt;
  return std::pair(&first, &second);
}

/// Whether `value` is turned(x), and which elements are the pairs: none where the value is something else.
std::optional<bool> turned(const PatternProgram& program, const TracedArgument& value, const std::string& x) {
  const TensorType* type = program.type(x);
  if (!type || type->shape.rank() < 1 || type->shape.dim(-1) % 2 != 0) return std::nullopt;
  const int64_t half = type->shape.dim(-1) / 2;
  const TracedCall* join = program.inner(&value, {"aten.cat", "aten.view", "aten.reshape", "aten.flatten"});
  if (!join) return std::nullopt;
  const bool neighbours = join->op != "aten.cat";
  if (neighbours) {
    if (*program.type(join->outputs[0]) != *type) return std::nullopt;
    join = program.inner(join->find("self"), {"aten.stack"});
    if (!join) return std::nullopt;
  }
  const auto parts = joined(program, *join);
  if (!parts) return std::nullopt;
  const TracedCall* negated = program.inner(parts->first, {"aten.neg"});
  const TracedCall *first = negated ? program.inner(negated->find("self"), {"aten.slice"}) : nullptr,
                   *second = program.inner(parts->second, {"aten.slice"});
  if (!first || !second) return std::nullopt;
  const auto one = elements_of(program, *first), two = elements_of(program, *second);
  if (!one || !two || one->x != x || two->x != x || one->count != half || two->count != half) return std::nullopt;
  const int64_t step = neighbours ? 2 : 1;
  const bool fits = one->start == (neighbours ? 1 : half) && two->start == 0;
  return fits && one->step == step && two->step == step ? std::optional(neighbours) : std::nullopt;
}

/// Whether a call computes each element of its result from the element at the same place of the last axis.
bool keeps_last_axis(const PatternProgram& program, const TracedCall& call) {
  const TensorType *from = program.type(tensor_of(call, "self")), *to = program.type(call.outputs[0]);
  if (!from || !to || from->shape.rank() < 1 || to->shape.rank() < 1 || from->shape.dim(-1) != to->shape.dim(-1))
    return false;
  for (const char* op : {"aten.cos", "aten.sin", "aten._to_copy", "aten.to", "aten.clone", "aten.alias", "aten.detach",
                         "aten.unsqueeze", "aten.expand"})
    if (call.op == op) return to->shape.rank() >= from->shape.rank();
  if (call.op == "aten.view" || call.op == "aten.reshape") return true;  // whole rows
  if (call.op == "aten.mul" || call.op == "aten.div") return number_of(call, "other") && !call.find("rounding_mode");
  if (call.op == "aten.slice") return axis_at(call, "dim", from->shape.rank(), 0) != from->shape.rank() - 1;
  return false;
}

/// Whether rows of known numbers hold each one twice.
bool numbers_stand_twice(const HostTensor& table, bool neighbours) {
  const int64_t size = table.type.shape.dim(-1), half = size / 2;
  for (int64_t row = 0; row < table.elements(); row += size)
    for (int64_t i = 0; i < half; ++i) {
      const int64_t first = row + (neighbours ? 2 * i : i);
      if (table.get(first) != table.get(first + (neighbours ? 1 : half))) return false;
    }
  return true;
}

/// Whether a table holds each angle twice: at i and i + half, or for neighbours at 2 i and 2 i + 1.
bool holds_angles_twice(const PatternProgram& program, std::string value, bool neighbours) {
  constexpr int kMostCalls = 16;
  if (const TensorData* known = program.known(value)) return numbers_stand_twice(known->tensor(), neighbours);
  for (int i = 0; i < kMostCalls; ++i) {
    const TracedCall* call = program.maker(value);
    if (!call || call->outputs[0] != value) return false;
    const TensorType* type = program.type(value);
    if (!neighbours && call->op == "aten.cat") {
      const auto parts = joined(program, *call);
      return parts && program.behind_copies(parts->first->text) == program.behind_copies(parts->second->text);
    }
    if (neighbours && call->op == "aten.repeat_interleave")
      return type && number_of(*call, "repeats") == 2 &&
             axis_at(*call, "dim", type->shape.rank(), 0) == type->shape.rank() - 1;
    // The mark that no gradient flows names its operand differently.
    if (call->op != "ramet.stop_gradient") {
      if (!keeps_last_axis(program, *call)) return false;
      value = tensor_of(*call, "self");
    } else {
      value = tensor_of(*call, "x");
    }
  }
  return false;
}

/// The axis of positions of x [samples, heads, positions, size] or [samples, positions, heads, size] that a table
/// follows; 0 where the table is of another form.
int axis_of_positions(const Shape& x, const Shape& table) {
  if (x.rank() != 4 || table.rank() > 4 || table.rank() < 2 || table.dim(-1) != x.dim(-1)) return 0;
  const auto extent = [&](int axis) { return axis + table.rank() < 4 ? 1 : table.dim(axis - 4); };
  if (extent(0) != 1 && extent(0) != x.dim(0)) return 0;
  if (extent(1) == 1 && extent(2) == x.dim(2)) return 2;
  return extent(2) == 1 && extent(1) == x.dim(1) ? 1 : 0;
}

/// x and the table that it is multiplied by; the table changes with no weight.
struct Product {
  const TracedArgument *x = nullptr, *table = nullptr;
};

/// The ways to read a value as such a product: two where neither operand changes with a weight.
std::vector<Product> products_with_table(const PatternProgram& program, const TracedArgument* value) {
  const TracedCall* call = program.inner(value, {"aten.mul"});
  if (!call) return {};
  const TracedArgument *self = call->find("self"), *other = call->find("other");
  if (!self || !other || self->kind != Kind::kTensor || other->kind != Kind::kTensor) return {};
  if (program.type(self->text) == nullptr || program.type(other->text) == nullptr) return {};
  std::vector<Product> made;
  if (!program.has_gradient(other->text)) made.push_back({self, other});
  if (!program.has_gradient(self->text)) made.push_back({other, self});
  return made;
}

/// One element of each pair of a table.
std::string angles_once(PatternProgram& program, size_t index, const std::string& table, bool neighbours) {
  TensorType type = *program.type(table);
  const int64_t pairs = type.shape.dim(-1) / 2;
  std::vector<int64_t> dims = type.shape.dims();
  dims.back() = pairs;
  type.shape = Shape(dims);
  TracedCall slice = call_like(program.calls()[index], "aten.slice",
                               {{"self", tensor_argument(table)},
                                {"dim", integer_argument(-1)},
                                {"start", integer_argument(0)},
                                {"end", integer_argument(neighbours ? 2 * pairs : pairs)},
                                {"step", integer_argument(neighbours ? 2 : 1)}});
  return program.insert(index, std::move(slice), type);
}

/// x cos + turned(x) sin of these products.
bool fuse_products(PatternProgram& program, size_t index, const Product& straight, const Product& crossed) {
  const TracedCall& call = program.calls()[index];
  const std::string &x = straight.x->text, cosine = straight.table->text, sine = crossed.table->text;
  const auto neighbours = turned(program, *crossed.x, x);
  if (!neighbours) return false;
  const TensorType &type = *program.type(x), &table = *program.type(cosine);
  const int positions = axis_of_positions(type.shape, table.shape);
  if (positions == 0 || table != *program.type(sine) || *program.type(call.outputs[0]) != type) return false;
  if (type.dtype != DType::kF32 || table.dtype != DType::kF32) return false;
  if (!holds_angles_twice(program, cosine, *neighbours) || !holds_angles_twice(program, sine, *neighbours))
    return false;
  TracedCall fused = call_like(call, "ramet.rotary",
                               {{"self", tensor_argument(x)},
                                {"cosine", tensor_argument(angles_once(program, index, cosine, *neighbours))},
                                {"sine", tensor_argument(angles_once(program, index, sine, *neighbours))},
                                {"positions", integer_argument(positions)},
                                {"neighbours", flag_argument(*neighbours)}});
  program.replace(index, std::move(fused));
  return true;
}

bool fuse_sum(PatternProgram& program, size_t index) {
  const TracedCall& call = program.calls()[index];
  if (number_of(call, "alpha", 1) != 1) return false;
  for (const auto& [one, two] : {std::pair("self", "other"), std::pair("other", "self")})
    for (const Product& straight : products_with_table(program, call.find(one)))
      for (const Product& crossed : products_with_table(program, call.find(two)))
        if (fuse_products(program, index, straight, crossed)) return true;
  return false;
}

/// The first elements of x, turned, joined with the others: x turned in part.
bool fuse_rest(PatternProgram& program, size_t index) {
  const TracedCall& call = program.calls()[index];
  const auto parts = joined(program, call);
  if (!parts) return false;
  const TracedCall *rotary = program.inner(parts->first, {"ramet.rotary"}), *rest = program.maker(parts->second->text);
  const TracedCall* start = rotary ? program.maker(tensor_of(*rotary, "self")) : nullptr;
  if (!start || !rest) return false;
  const auto one = elements_of(program, *start), two = elements_of(program, *rest);
  if (!one || !two || one->x != two->x || one->start != 0 || one->step != 1 || two->start != one->count ||
      two->step != 1 || *program.type(one->x) != *program.type(call.outputs[0]))
    return false;
  TracedCall fused = *rotary;
  fused.arguments[0].second = tensor_argument(one->x);
  program.replace(index, std::move(fused));
  return true;
}

}  // namespace

bool fuse_rotary(PatternProgram& program, size_t index) {
  const std::string& op = program.calls()[index].op;
  return op == "aten.add" ? fuse_sum(program, index) : op == "aten.cat" && fuse_rest(program, index);
}

}  // namespace ramet::front
