#include <algorithm>
#include <cmath>

#include "ramet/front/aten_network.h"
#include "ramet/front/table.h"
#include "ramet/ops/build_attention.h"

// scaled_dot_product_attention and its variants, and rotary positions. PyTorch has heads before positions, Ramet
// positions before heads; the transposes between the two cancel with those of the model.

namespace ramet::front {
namespace {

/// Extents of all dimensions but the last two, which broadcast.
std::vector<int64_t> leading(const Shape& shape) {
  return {shape.dims().begin(), shape.dims().end() - std::min<std::ptrdiff_t>(2, shape.rank())};
}

/// The extents that both broadcast to.
std::vector<int64_t> joined(const Translation& at, std::vector<int64_t> a, std::vector<int64_t> b) {
  if (a.size() < b.size()) std::swap(a, b);
  const size_t before = a.size() - b.size();
  for (size_t i = 0; i < b.size(); ++i) {
    int64_t& extent = a[before + i];
    if (extent == 1) {
      extent = b[i];
    } else if (b[i] != 1 && b[i] != extent) {
      at.refuse("operands whose leading dimensions do not broadcast");
    }
  }
  return a;
}

/// How the leading dimensions become samples and heads.
struct Heads {
  std::vector<int64_t> before{};  ///< extents that become samples
  int64_t samples = 1, heads = 1, key_heads = 1;
  int64_t queries = 0, keys = 0;
};

Heads heads_of(const Translation& at, const Shape& query, const Shape& key, const Shape& value) {
  if (query.rank() < 2 || key.rank() < 2 || value.rank() < 2) at.refuse("attention of vectors");
  Heads heads;
  heads.queries = query.dim(-2), heads.keys = key.dim(-2);
  std::vector<int64_t> of_query = leading(query), of_keys = joined(at, leading(key), leading(value));
  const bool grouped = !of_query.empty() && !of_keys.empty() && of_query.back() != of_keys.back();
  if (grouped && (at.flag("enable_gqa", false) || of_keys.back() == 1)) {
    heads.heads = of_query.back(), heads.key_heads = of_keys.back();
    of_query.pop_back(), of_keys.pop_back();
    heads.before = joined(at, of_query, of_keys);
  } else {
    heads.before = joined(at, of_query, of_keys);
    if (heads.before.size() > 1) {
      heads.heads = heads.key_heads = heads.before.back();
      heads.before.pop_back();
    }
  }
  for (const int64_t extent : heads.before) heads.samples *= extent;
  return heads;
}

/// [..., positions, size] as [samples, positions, heads, size].
Tensor by_position(Tensor a, const Heads& heads, int64_t count) {
  const int64_t positions = a.dim(-2), size = a.dim(-1);
  std::vector<int64_t> whole = heads.before;
  if (count > 1 || a.shape().rank() > static_cast<int>(whole.size()) + 2) whole.push_back(count);
  whole.insert(whole.end(), {positions, size});
  if (a.shape() != Shape(whole)) a = broadcast_to(a, Shape(whole));
  if (count == 1) return reshape(a, {heads.samples, positions, 1, size});
  return transpose(reshape(a, {heads.samples, count, positions, size}), {0, 2, 1, 3});
}

/// A mask that broadcasts to the scores, with four dimensions: samples, heads, queries, keys.
Tensor of_scores(Tensor mask, const Heads& heads) {
  std::vector<int64_t> dims = mask.shape().dims();
  const size_t rank = heads.before.size() + (heads.heads > 1 || dims.size() > heads.before.size() + 2 ? 3 : 2);
  dims.insert(dims.begin(), rank > dims.size() ? rank - dims.size() : 0, 1);
  if (rank == heads.before.size() + 2) dims.insert(dims.end() - 2, 1);  // one head
  const auto last = dims.end() - 3;
  if (std::all_of(dims.begin(), last, [](int64_t extent) { return extent == 1; }))
    return reshape(mask, {1, last[0], last[1], last[2]});
  std::vector<int64_t> whole = heads.before;  // samples of several dimensions are one
  whole.insert(whole.end(), last, dims.end());
  const std::vector<int64_t> four{heads.samples, last[0], last[1], last[2]};
  mask = reshape(mask, Shape(dims));
  return reshape(mask.shape() == Shape(whole) ? mask : broadcast_to(mask, Shape(whole)), Shape(four));
}

// --- masks ---

/// Which keys each query sees in a mask that the program knows.
struct KnownMask {
  bool all = false;     ///< every key, whatever the mask's shape
  bool causal = false;  ///< those up to the query's position
  bool exact = false;   ///< of a floating-point mask: it hides or does nothing, and every query sees a key
};

/// A floating-point mask hides by a number that leaves nothing of a probability.
constexpr double kHidden = -1e30;

KnownMask read_mask(const HostTensor& mask, const Heads& heads) {
  const Shape& shape = mask.type.shape;
  const bool flags = !is_floating(mask.type.dtype);
  const bool whole = shape.rank() >= 2 && shape.dim(-2) == heads.queries && shape.dim(-1) == heads.keys;
  KnownMask known{.all = true, .causal = whole, .exact = whole};
  bool any = false;
  for (int64_t i = 0; i < mask.elements(); ++i) {
    const double value = mask.get(i);
    const bool seen = flags ? value != 0 : value == 0;
    known.all = known.all && seen;
    if (!whole) continue;
    const int64_t key = i % heads.keys, query = i / heads.keys % heads.queries;
    known.exact = known.exact && (flags || seen || value <= kHidden);
    known.causal = known.causal && seen == (key <= query);
    any = any || seen;
    if (key + 1 < heads.keys) continue;
    known.exact = known.exact && any;
    any = false;
  }
  known.causal = known.causal && known.exact;
  return known;
}

/// `a` with ones before its dimensions.
Tensor of_rank(Tensor a, int rank) {
  if (a.shape().rank() >= rank) return a;
  std::vector<int64_t> dims = a.shape().dims();
  dims.insert(dims.begin(), static_cast<size_t>(rank) - dims.size(), 1);
  return reshape(a, Shape(dims));
}

/// A mask taken apart: what makes the attention causal, and the rest, all of which must show a key.
class MaskReader {
 public:
  MaskReader(const Translation& at, const Heads& heads) : at_(at), heads_(heads) {}

  bool causal = false;
  std::vector<Tensor> shown{};  ///< bool
  Tensor bias{};

  void read(Tensor mask) {
    if (const TensorData* values = at_.known(mask)) {
      const KnownMask known = read_mask(values->tensor(), heads_);
      if (known.all) return;
      if (known.causal) {
        causal = true;
        return;
      }
      if (known.exact && is_floating(mask.dtype())) return shown.push_back(hidden_apart(values->tensor()));
    }
    const NodeId producer = mask.builder->graph().value(mask.id).producer;
    if (producer != kNoNode && read_parts(mask, mask.builder->graph().node(producer))) return;
    if (is_floating(mask.dtype())) {
      bias = mask;
    } else {
      shown.push_back(mask);
    }
  }

 private:
  /// A mask that was broadcast is read before, and one that joins two masks as the two.
  bool read_parts(Tensor mask, const Node& node) {
    const bool joins = node.op->name == "logical_and";
    if (!joins && node.op->name != "broadcast_to") return false;
    const std::vector<ValueId> inputs = node.inputs;  // reading adds nodes
    for (const ValueId input : inputs) {
      const Tensor part = mask.builder->tensor(input);
      read(at_.known(part) ? part : of_rank(part, mask.shape().rank()));
    }
    return true;
  }

  Tensor hidden_apart(const HostTensor& mask) {
    HostTensor flags({DType::kBool, mask.type.shape});
    for (int64_t i = 0; i < mask.elements(); ++i) flags.set(i, mask.get(i) == 0 ? 1 : 0);
    return constant(at_.build(), TensorData(std::move(flags)));
  }

  const Translation& at_;
  const Heads& heads_;
};

void add_mask(const Translation& at, const char* name, const Heads& heads, ScoreOptions& scores,
              AttentionOptions& options) {
  MaskReader reader(at, heads);
  reader.read(at.tensor(name));
  options.causal = options.causal || reader.causal;
  if (reader.bias.valid()) scores.bias = of_scores(reader.bias, heads);
  Tensor shown{};
  for (const Tensor& each : reader.shown) {
    const Tensor mask = of_scores(each, heads);
    shown = shown.valid() ? map_binary("logical_and", shown, mask) : mask;
  }
  if (!shown.valid()) return;
  if (shown.dim(1) == 1 && shown.dim(2) == 1) {
    const Tensor keys = reshape(shown, {shown.dim(0), shown.dim(3)});
    const Shape whole{heads.samples, heads.keys};
    scores.key_mask = keys.shape() == whole ? keys : broadcast_to(keys, whole);
  } else {
    scores.mask = shown;
  }
}

std::vector<Tensor> attend(const Translation& at, const char* mask) {
  const Tensor query = at.tensor("query"), key = at.tensor("key"), value = at.tensor("value");
  for (size_t i = 1; i < at.call().outputs.size(); ++i)
    if (at.reads(i)) at.refuse("the probabilities or statistics of attention as results", "Write the products out");
  const Heads heads = heads_of(at, query.shape(), key.shape(), value.shape());
  AttentionOptions options;
  ScoreOptions scores;
  options.causal = at.flag("is_causal", false);
  options.scale = at.number("scale", 1 / std::sqrt(static_cast<double>(query.dim(-1))));
  if (options.scale == 0) at.refuse("a scale of 0");
  if (mask && at.has(mask)) add_mask(at, mask, heads, scores, options);
  options.dropout = at.draws() ? at.number("dropout_p", 0) : 0;
  Tensor counter{};
  if (options.dropout > 0) counter = at.counter(), options.random_name = at.random_name(), options.seed = at.seed();
  const Tensor made = attention_with(by_position(query, heads, heads.heads), by_position(key, heads, heads.key_heads),
                                     by_position(value, heads, heads.key_heads), scores, options, counter);
  std::vector<Tensor> outputs{in_shape_of_result(at, heads.heads == 1 ? made : transpose(made, {0, 2, 1, 3}))};
  outputs.resize(at.call().outputs.size());
  return outputs;
}

std::vector<Tensor> masked(const Translation& at) {
  if (at.has("dropout_mask")) at.refuse("attention with a given dropout mask");
  return attend(at, "attn_mask");
}
std::vector<Tensor> biased(const Translation& at) { return attend(at, "attn_bias"); }

// --- rotary positions, which a pattern finds (front/fuse_rotary.cc) ---

/// A table [1|samples, 1, positions, pairs], with the two middle axes in either order, as the op takes it.
Tensor of_positions(Tensor table, int64_t positions) {
  const int64_t samples = table.shape().rank() == 4 ? table.dim(0) : 1, pairs = table.dim(-1);
  if (samples == 1) return reshape(table, {positions, pairs});
  return reshape(table, {samples, positions, pairs});
}

std::vector<Tensor> turn(const Translation& at) {
  const Tensor a = at.tensor("self"), cosine = at.tensor("cosine"), sine = at.tensor("sine");
  if (a.shape().rank() != 4 || cosine.shape().rank() < 2 || cosine.type() != sine.type())
    at.refuse("rotary positions of tensors of other shapes");
  const bool heads_first = at.integer("positions") == 2;
  const int64_t positions = a.dim(heads_first ? 2 : 1);
  const RotaryTables tables{of_positions(cosine, positions), of_positions(sine, positions)};
  const RotaryPairs pairs = at.flag("neighbours", false) ? RotaryPairs::kNeighbours : RotaryPairs::kHalves;
  const Tensor made = rotary(heads_first ? transpose(a, {0, 2, 1, 3}) : a, tables, pairs);
  return {heads_first ? transpose(made, {0, 2, 1, 3}) : made};
}

constexpr OperatorEntry kOperators[] = {
    {"ramet.rotary", turn},
    {"aten.scaled_dot_product_attention", masked},
    {"aten._scaled_dot_product_attention_math", masked},
    {"aten._scaled_dot_product_flash_attention", masked},
    {"aten._scaled_dot_product_flash_attention_for_cpu", masked},
    {"aten._scaled_dot_product_efficient_attention", biased},
    {"aten._scaled_dot_product_cudnn_attention", biased},
};

}  // namespace

std::span<const OperatorEntry> attention_operators() { return kOperators; }

}  // namespace ramet::front
