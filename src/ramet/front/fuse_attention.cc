#include <algorithm>
#include <cmath>
#include <limits>

#include "ramet/front/patterns.h"

// Attention that is written out: a product of queries and keys, a scale, biases and masks, a softmax, dropout, and the
// product with the values. Heads of keys and values that are repeated, one for each head of queries.

namespace ramet::front {
namespace {

using Dims = std::vector<int64_t>;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// What is found between the softmax and the product of queries and keys.
struct Written {
  std::string query{}, key{}, value{};  ///< the key as it enters the product: [..., size, positions]
  double scale = 1;
  double dropout = 0;
  Dims leading{};  ///< of the probabilities
  struct Term {
    std::string value{};
    bool hides = false;    ///< a bool tensor: true hides a key
    bool negated = false;  ///< true shows it instead
    Dims leading{};        ///< of the scores where it was applied
  };
  std::vector<Term> terms{};  ///< added to the scores, or hiding keys
};

Dims leading_of(const TensorType& type) { return {type.shape.dims().begin(), type.shape.dims().end() - 2}; }

bool is_view(const TracedCall& call) {
  return call.op == "aten.view" || call.op == "aten._unsafe_view" || call.op == "aten.reshape";
}

bool same_matrices(const TensorType* a, const TensorType* b) {
  return a && b && a->shape.rank() >= 2 && b->shape.rank() >= 2 && a->shape.dim(-1) == b->shape.dim(-1) &&
         a->shape.dim(-2) == b->shape.dim(-2);
}

/// Reads backwards from the operand of the softmax.
class ScoreReader {
 public:
  ScoreReader(const PatternProgram& program, Written& written) : program_(program), written_(written) {}

  bool read(std::string value) {
    for (;;) {
      const TracedCall* call = program_.maker(value);
      if (!call || !program_.read_once(value) || call->outputs[0] != value) return false;
      if (is_copy(*call)) {
        value = tensor_of(*call, "self");
      } else if (call->op == "aten.add") {
        if (!read_sum(*call, value)) return false;
        value = next_;
      } else if (call->op == "aten.masked_fill" || call->op == "aten.where") {
        if (!read_mask(*call, value)) return false;
        value = next_;
      } else if (call->op == "aten.mul" || call->op == "aten.div") {
        if (!read_scale(*call)) return false;
        value = next_;
      } else {
        return read_product(*call, value);
      }
    }
  }

 private:
  /// Casts between floats, copies, and views that keep the matrices.
  bool is_copy(const TracedCall& call) const {
    const TensorType *from = program_.type(tensor_of(call, "self")), *to = program_.type(call.outputs[0]);
    if (!from || !to || !is_floating(from->dtype) || !is_floating(to->dtype)) return false;
    for (const char* op : {"aten._to_copy", "aten.to", "aten.clone", "aten.alias"})
      if (call.op == op) return true;
    for (const char* op : {"aten.view", "aten.reshape", "aten._unsafe_view", "aten.unsqueeze", "aten.squeeze"})
      if (call.op == op) return same_matrices(from, to);
    return false;
  }

  /// Whether the value comes from a product of the size of the scores: the operand of a sum to follow.
  bool has_product(std::string value, int steps = 16) const {
    for (; steps > 0; --steps) {
      const TracedCall* call = program_.maker(value);
      if (!call || !program_.read_once(value)) return false;
      if (call->op == "aten.matmul" || call->op == "aten.bmm" || call->op == "aten.baddbmm") return true;
      if (call->op == "aten.add")
        return has_product(tensor_of(*call, "self"), steps - 1) || has_product(tensor_of(*call, "other"), steps - 1);
      value = tensor_of(*call, "self");
      if (value.empty()) return false;
    }
    return false;
  }

  bool add_term(const std::string& term, const std::string& scores, bool hides, bool negated) {
    const TensorType *type = program_.type(term), *whole = program_.type(scores);
    if (!type || !whole || whole->shape.rank() < 2 || type->shape.rank() > whole->shape.rank()) return false;
    if (hides ? type->dtype != DType::kBool : !is_floating(type->dtype)) return false;
    if (written_.scale != 1) return false;  // the term would be scaled too
    written_.terms.push_back({term, hides, negated, leading_of(*whole)});
    return true;
  }

  bool read_sum(const TracedCall& call, const std::string& scores) {
    if (number_of(call, "alpha", 1) != 1) return false;
    const std::string a = tensor_of(call, "self"), b = tensor_of(call, "other");
    if (a.empty() || b.empty()) return false;
    const bool first = has_product(a) && *program_.type(a) == *program_.type(scores);
    next_ = first ? a : b;
    return program_.type(next_) && *program_.type(next_) == *program_.type(scores) &&
           add_term(first ? b : a, scores, false, false);
  }

  /// Filling with -infinity hides. Another number would leave a row that is hidden as a whole its mean.
  bool read_mask(const TracedCall& call, const std::string& scores) {
    const bool where = call.op == "aten.where";
    const std::string mask = tensor_of(call, where ? "condition" : "mask");
    next_ = tensor_of(call, "self");
    const auto fill = number_of(call, where ? "other" : "value");
    return !mask.empty() && !next_.empty() && fill == -kInfinity && program_.type(next_) &&
           *program_.type(next_) == *program_.type(scores) && add_term(mask, scores, true, where);
  }

  bool read_scale(const TracedCall& call) {
    next_ = tensor_of(call, "self");
    auto number = number_of(call, "other");
    if (!number && call.op == "aten.mul") number = number_of(call, "self"), next_ = tensor_of(call, "other");
    if (!number || next_.empty() || call.find("rounding_mode") || *number == 0) return false;
    written_.scale *= call.op == "aten.mul" ? *number : 1 / *number;
    return std::isfinite(written_.scale);
  }

  bool read_product(const TracedCall& call, const std::string& scores) {
    if (call.op == "aten.matmul" || call.op == "aten.bmm") {
      written_.query = tensor_of(call, "self");
      written_.key = tensor_of(call, call.op == "aten.bmm" ? "mat2" : "other");
    } else if (call.op == "aten.baddbmm") {
      const auto beta = number_of(call, "beta", 1), alpha = number_of(call, "alpha", 1);
      if (!beta || !alpha || *alpha == 0 || (*beta != 1 && *beta != 0)) return false;
      if (*beta == 1 && !add_term(tensor_of(call, "self"), scores, false, false)) return false;
      written_.scale *= *alpha;
      written_.query = tensor_of(call, "batch1"), written_.key = tensor_of(call, "batch2");
    } else {
      return false;
    }
    const TensorType *query = program_.type(written_.query), *key = program_.type(written_.key);
    return query && key && query->shape.rank() >= 3 && key->shape.rank() >= 3 && query->dtype == key->dtype &&
           is_floating(query->dtype);
  }

  const PatternProgram& program_;
  Written& written_;
  std::string next_{};
};

/// The probabilities p behind a guard against rows that are hidden whole, where(isnan(p), 0, p): the guard and its test
/// read p. "" where the call is no such guard. Attention gives such rows 0 anyway.
std::string behind_guard(const PatternProgram& program, const TracedCall& call) {
  if (call.op != "aten.where" || number_of(call, "self") != 0) return "";
  const std::string p = tensor_of(call, "other");
  const TracedCall* test = program.inner(call.find("condition"), {"aten.isnan"});
  return test && tensor_of(*test, "self") == p && program.reads(p) == 2 ? p : "";
}

/// Dropout of the probabilities, copies and views, down to the softmax.
bool read_probabilities(const PatternProgram& program, std::string value, Written& written) {
  int readers = 1;
  for (;;) {
    const TracedCall* call = program.maker(value);
    if (!call || program.reads(value) != readers || call->outputs[0] != value) return false;
    if (const std::string guarded = behind_guard(program, *call); !guarded.empty()) {
      value = guarded, readers = 2;
      continue;
    }
    readers = 1;
    const std::string from = tensor_of(*call, call->op.ends_with("dropout") ? "input" : "self");
    const TensorType *before = program.type(from), *after = program.type(value);
    if (!before || !after || !is_floating(before->dtype) || !same_matrices(before, after)) return false;
    if (call->op == "aten.softmax" || call->op == "aten._softmax") {
      const auto dim = number_of(*call, "dim");
      if (dim != -1 && dim != before->shape.rank() - 1) return false;
      written.leading = leading_of(*after);
      return ScoreReader(program, written).read(from);
    }
    if (call->op == "aten.native_dropout" || call->op == "aten.dropout") {
      const TracedArgument* train = call->find("train");
      if (written.dropout != 0 || (call->outputs.size() > 1 && !program.unread(call->outputs[1]))) return false;
      if (!train || !train->given() || train->flag) written.dropout = number_of(*call, "p", 0).value_or(-1);
      if (written.dropout < 0 || written.dropout >= 1) return false;
    } else if (call->op != "aten.view" && call->op != "aten.reshape" && call->op != "aten._unsafe_view" &&
               call->op != "aten.clone" && call->op != "aten._to_copy" && call->op != "aten.to" &&
               call->op != "aten.alias") {
      return false;
    }
    value = from;
  }
}

/// Writes the calls that bring operands into the shape of the probabilities.
class AttentionWriter {
 public:
  AttentionWriter(PatternProgram& program, size_t index) : program_(program), index_(index) {}

  std::string view(const std::string& value, const Dims& dims) {
    const TensorType& type = *program_.type(value);
    if (type.shape == Shape(dims)) return value;
    return made("aten.view", {{"self", tensor_argument(value)}, {"size", list_argument(dims)}},
                {type.dtype, Shape(dims)});
  }
  std::string expand(const std::string& value, const Dims& dims) {
    const TensorType& type = *program_.type(value);
    if (type.shape == Shape(dims)) return value;
    return made("aten.expand", {{"self", tensor_argument(value)}, {"size", list_argument(dims)}},
                {type.dtype, Shape(dims)});
  }
  /// The operand with these leading dimensions.
  std::string with_leading(const std::string& value, Dims leading) {
    const TensorType& type = *program_.type(value);
    leading.insert(leading.end(), {type.shape.dim(-2), type.shape.dim(-1)});
    return view(value, leading);
  }
  /// The key from the form that enters the product; other leading dimensions may stand between the two.
  std::string key_of(const std::string& value) {
    const TracedCall* call = program_.maker(value);
    while (call && is_view(*call) &&
           same_matrices(program_.type(tensor_of(*call, "self")), program_.type(call->outputs[0])))
      call = program_.maker(tensor_of(*call, "self"));
    if (call && call->op == "aten.transpose") {
      const std::string from = tensor_of(*call, "self");
      const int rank = program_.type(from)->shape.rank();
      const auto axis = [&](const char* name) {
        // A number that no axis has, as one beyond the integers, leaves the product as it is.
        const double given = number_of(*call, name).value_or(0);
        return given >= -rank && given < rank ? static_cast<int64_t>(given < 0 ? given + rank : given) : int64_t{-1};
      };
      if (const int64_t a = axis("dim0"), b = axis("dim1"); std::min(a, b) == rank - 2 && std::max(a, b) == rank - 1)
        return from;
    }
    const TensorType& type = *program_.type(value);
    Dims dims = type.shape.dims();
    std::swap(dims[dims.size() - 1], dims[dims.size() - 2]);
    return made("aten.transpose",
                {{"self", tensor_argument(value)}, {"dim0", integer_argument(-2)}, {"dim1", integer_argument(-1)}},
                {type.dtype, Shape(dims)});
  }
  std::string made(const std::string& op, std::vector<std::pair<std::string, TracedArgument>> arguments,
                   TensorType type) {
    return program_.insert(index_, call_like(program_.calls()[index_], op, std::move(arguments)), type);
  }

  /// A term in the shape that broadcasts to the scores of the new call.
  std::string term(const Written::Term& term, const Dims& leading) {
    Dims dims = program_.type(term.value)->shape.dims();
    if (term.leading == leading || dims.size() <= 2) return term.value;
    dims.insert(dims.begin(), term.leading.size() + 2 - dims.size(), 1);
    std::string value = view(term.value, dims);
    const bool constant = std::all_of(dims.begin(), dims.end() - 2, [](int64_t extent) { return extent == 1; });
    Dims target = leading;
    if (constant) {
      target.assign(leading.size(), 1);
    } else {
      // Where both end with the same heads, these need not be written out.
      const bool keeps = !leading.empty() && term.leading.back() == leading.back();
      Dims whole = term.leading;
      if (keeps) whole.back() = target.back() = dims[dims.size() - 3];
      whole.insert(whole.end(), dims.end() - 2, dims.end());
      value = expand(value, whole);
    }
    target.insert(target.end(), dims.end() - 2, dims.end());
    return view(value, target);
  }

 private:
  PatternProgram& program_;
  size_t index_;
};

/// The mask of the new call: all terms that hide as one bool tensor, or with biases as sums.
std::string mask_of(PatternProgram& program, AttentionWriter& writer, const Written& written) {
  std::string bias, shown;
  const auto broadcast = [&](const std::string& a, const std::string& b) {
    Dims one = program.type(a)->shape.dims(), two = program.type(b)->shape.dims();
    if (one.size() < two.size()) std::swap(one, two);
    for (size_t i = 0; i < two.size(); ++i) {
      int64_t& extent = one[one.size() - two.size() + i];
      extent = std::max(extent, two[i]);
    }
    return Shape(one);
  };
  for (const Written::Term& term : written.terms) {
    std::string value = writer.term(term, written.leading);
    const TensorType type = *program.type(value);
    if (term.hides && !term.negated) value = writer.made("aten.logical_not", {{"self", tensor_argument(value)}}, type);
    std::string& joined = term.hides ? shown : bias;
    if (joined.empty()) {
      joined = value;
    } else {
      const Shape shape = broadcast(joined, value);
      joined = writer.made(term.hides ? "aten.logical_and" : "aten.add",
                           {{"self", tensor_argument(joined)}, {"other", tensor_argument(value)}}, {type.dtype, shape});
    }
  }
  if (bias.empty() || shown.empty()) return bias.empty() ? shown : bias;
  return writer.made(
      "aten.where",
      {{"condition", tensor_argument(shown)}, {"self", tensor_argument(bias)}, {"other", number_argument(-kInfinity)}},
      {program.type(bias)->dtype, broadcast(bias, shown)});
}

/// A number that multiplies an operand before the product belongs to the scale.
void pull_scale(const PatternProgram& program, std::string& operand, double& scale) {
  const TracedCall* call = program.maker(operand);
  if (!call || !program.read_once(operand) || (call->op != "aten.mul" && call->op != "aten.div") ||
      call->find("rounding_mode"))
    return;
  const auto number = number_of(*call, "other");
  const std::string from = tensor_of(*call, "self");
  if (!number || *number == 0 || from.empty() || *program.type(from) != *program.type(operand)) return;
  scale *= call->op == "aten.mul" ? *number : 1 / *number;
  operand = from;
}

int64_t product_of(const Dims& dims) {
  int64_t product = 1;
  for (const int64_t extent : dims) product *= extent;
  return product;
}

/// Whether an operand's leading dimensions can be viewed as those of the probabilities.
bool fits(const PatternProgram& program, const std::string& value, const Dims& leading) {
  const TensorType* type = program.type(value);
  return type && type->shape.rank() >= 2 && product_of(leading_of(*type)) == product_of(leading);
}

/// Heads that are repeated: [..., heads, positions, size] of which each head stands `times` times in a row.
struct RepeatedHeads {
  std::string heads{};
  int64_t times = 1;
};

/// Reads a value that is expand(heads with an axis of 1 behind that of the heads) in another shape, or
/// repeat_interleave(heads).
RepeatedHeads repeated_heads(const PatternProgram& program, const std::string& value) {
  const TensorType* type = program.type(value);
  const TracedCall* call = program.maker(program.behind_copies(value));
  if (!type || !call || type->shape.rank() < 3 || call->outputs.size() != 1) return {};
  const int rank = type->shape.rank();
  const auto of_axis = [](double axis, int dims) { return axis < 0 ? axis + dims : axis; };
  const auto checked = [&](const std::string& heads) -> RepeatedHeads {
    const TensorType* before = program.type(heads);
    if (!before || before->shape.rank() != rank || before->dtype != type->dtype) return {};
    const int64_t count = before->shape.dim(-3);
    if (count < 1 || type->shape.dim(-3) % count != 0) return {};
    for (int axis = 0; axis < rank; ++axis)
      if (axis != rank - 3 && before->shape[axis] != type->shape[axis]) return {};
    return {heads, type->shape.dim(-3) / count};
  };
  if (call->op == "aten.repeat_interleave") {
    const auto axis = number_of(*call, "dim"), times = number_of(*call, "repeats");
    if (!axis || !times || of_axis(*axis, rank) != rank - 3) return {};
    const RepeatedHeads made = checked(tensor_of(*call, "self"));
    return static_cast<double>(made.times) == *times ? made : RepeatedHeads{};
  }
  const TracedCall* expand = call;
  while (expand && is_view(*expand)) expand = program.maker(program.behind_copies(tensor_of(*expand, "self")));
  if (!expand || expand == call || expand->op != "aten.expand") return {};
  const TracedCall* raised = program.maker(tensor_of(*expand, "self"));
  const TensorType* wide = program.type(expand->outputs[0]);
  if (!raised || !wide || wide->shape.rank() != rank + 1) return {};
  if (raised->op != "aten.unsqueeze" && raised->op != "aten.view" && raised->op != "aten.reshape") return {};
  const RepeatedHeads made = checked(tensor_of(*raised, "self"));
  if (made.heads.empty()) return {};
  Dims with_one = program.type(made.heads)->shape.dims();
  with_one.insert(with_one.begin() + (rank - 2), 1);
  if (program.type(raised->outputs[0])->shape != Shape(with_one)) return {};
  // The view joins the heads with the axis of repetitions behind them, and nothing else.
  if (wide->shape[rank - 2] != made.times || wide->shape[rank - 3] != program.type(made.heads)->shape[rank - 3])
    return {};
  for (int at = 0; at < rank + 1; ++at)
    if (at < rank - 3 && wide->shape[at] != type->shape[at]) return {};
  return made;
}

}  // namespace

bool fuse_attention(PatternProgram& program, size_t index) {
  const TracedCall& call = program.calls()[index];
  if (call.op != "aten.matmul" && call.op != "aten.bmm") return false;
  Written written;
  written.value = tensor_of(call, call.op == "aten.bmm" ? "mat2" : "other");
  const std::string probabilities = tensor_of(call, "self");
  const TensorType *value = program.type(written.value), *result = program.type(call.outputs[0]);
  if (!value || !result || value->shape.rank() < 3 || probabilities.empty()) return false;
  if (!read_probabilities(program, probabilities, written)) return false;
  pull_scale(program, written.query, written.scale);
  pull_scale(program, written.key, written.scale);
  for (const std::string& each : {written.query, written.key, written.value})
    if (!fits(program, each, written.leading) || program.type(each)->dtype != value->dtype) return false;
  if (written.scale == 0 || !std::isfinite(written.scale) || result->dtype != value->dtype) return false;
  AttentionWriter writer(program, index);
  const std::string mask = mask_of(program, writer, written);
  TracedCall fused =
      call_like(call, "aten.scaled_dot_product_attention",
                {{"query", tensor_argument(writer.with_leading(written.query, written.leading))},
                 {"key", tensor_argument(writer.with_leading(writer.key_of(written.key), written.leading))},
                 {"value", tensor_argument(writer.with_leading(written.value, written.leading))}});
  if (!mask.empty()) fused.arguments.emplace_back("attn_mask", tensor_argument(mask));
  if (written.dropout > 0) fused.arguments.emplace_back("dropout_p", number_argument(written.dropout));
  fused.arguments.emplace_back("scale", number_argument(written.scale));
  Dims dims = written.leading;
  dims.insert(dims.end(), {result->shape.dim(-2), result->shape.dim(-1)});
  if (result->shape == Shape(dims)) {
    program.replace(index, std::move(fused));
  } else {
    const std::string made = program.insert(index, std::move(fused), {value->dtype, Shape(dims)});
    program.replace(index, call_like(program.calls()[index], "aten.view",
                                     {{"self", tensor_argument(made)}, {"size", list_argument(result->shape.dims())}}));
  }
  return true;
}

bool fuse_grouped_heads(PatternProgram& program, size_t index) {
  const TracedCall& call = program.calls()[index];
  if (call.op != "aten.scaled_dot_product_attention") return false;
  const TracedArgument* grouped = call.find("enable_gqa");
  if (grouped && grouped->given() && grouped->flag) return false;
  const TensorType* query = program.type(tensor_of(call, "query"));
  const RepeatedHeads key = repeated_heads(program, tensor_of(call, "key")),
                      value = repeated_heads(program, tensor_of(call, "value"));
  if (!query || query->shape.rank() < 3 || key.times < 2 || key.times != value.times) return false;
  if (query->shape.dim(-3) != program.type(key.heads)->shape.dim(-3) * key.times ||
      program.type(value.heads)->shape.dim(-3) != program.type(key.heads)->shape.dim(-3))
    return false;
  TracedCall fused = call;
  for (auto& [name, argument] : fused.arguments) {
    if (name == "key") argument = tensor_argument(key.heads);
    if (name == "value") argument = tensor_argument(value.heads);
  }
  std::erase_if(fused.arguments, [](const auto& argument) { return argument.first == "enable_gqa"; });
  fused.arguments.emplace_back("enable_gqa", flag_argument(true));
  program.replace(index, std::move(fused));
  return true;
}

}  // namespace ramet::front
