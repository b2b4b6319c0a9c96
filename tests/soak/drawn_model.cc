#include "soak/drawn_model.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <sstream>

#include "ramet/base/error.h"
#include "ramet/base/host_tensor.h"
#include "ramet/base/rng.h"
#include "ramet/model/blocks.h"
#include "ramet/model/sparsify.h"
#include "ramet/ops/build_indexing.h"
#include "ramet/ops/build_shapes.h"
#include "support/made_source.h"

namespace ramet::tests::soak {
namespace {

constexpr int64_t kSeed = 17;
constexpr double kInit = 0.2, kEpsilon = 1e-5;
constexpr int64_t kTargets = 3, kExperts = 4, kPicked = 2, kPredictions = 2;

std::vector<std::string> split_text(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, separator);) parts.push_back(part);
  return parts;
}

/// Builds one of the two graphs of a drawn model.
class Builder {
 public:
  /// `model`: gets weights, states and programs; null for the graph without dropout.
  Builder(const DrawnModel& drawn, Graph& graph, Model* model)
      : drawn_(drawn),
        into_(model),
        model_(graph, model ? &model->weights : nullptr, kInit, model != nullptr, kSeed),
        build_(model_.build()) {
    batch_ = drawn.number("batch"), length_ = drawn.number("sequence"), heads_ = drawn.number("heads");
    hidden_ = heads_ * drawn.number("head_size");
    inner_ = drawn.number("inner"), vocabulary_ = drawn.number("vocabulary"),
    rows_ = vocabulary_ + drawn.number("padding");
    dropout_ = static_cast<double>(drawn.number("dropout")) / 100;
  }

  void run() {
    Tensor x = start_ = embed();
    for (size_t i = 0; i < drawn_.layers.size(); ++i) {
      PartScope part(build_, "layer", i);
      for (size_t b = 0; b < drawn_.layers[i].size(); ++b) {
        const std::string& name = drawn_.layers[i][b];
        Scope inner(build_, name + std::to_string(b));
        x = block(name, x, "layer." + std::to_string(i) + "." + std::to_string(b) + "." + name);
      }
      if (i == 0) first_ = x;
    }
    add_head(x);
  }

  using Block = Tensor (Builder::*)(Tensor, const std::string&);
  static const std::map<std::string, Block>& blocks();

 private:
  Tensor ids() {
    return build_.graph().find_input("input_ids") != kNoValue
               ? build_.tensor(build_.graph().find_input("input_ids"))
               : build_.input("input_ids", DType::kI32, {batch_, length_});
  }
  /// Indices in [0, bound) made of any that are not negative.
  Tensor remainder_of(Tensor indices, int64_t bound) {
    const Tensor divisor = full_like(indices.dtype(), static_cast<double>(bound));
    return subtract(indices, multiply(divide(indices, divisor), divisor));
  }
  Tensor full_like(DType dtype, double value) { return full(build_, dtype, {}, value); }

  // --- what comes before the layers ---

  Tensor embed() {
    Scope scope(build_, "embeddings");
    const std::string& kind = drawn_.word("input");
    if (kind == "numbers") {
      const Tensor x = build_.input("numbers", DType::kF32, {batch_, length_, inner_});
      return model_.dense(x, "embeddings.dense", hidden_, kEmbed, kNoAxis);
    }
    words_ = model_.matrix("embeddings.words", {rows_, hidden_}, {kVocab, kEmbed});
    Tensor x = gather(words_, ids());
    if (kind == "tokens") return x;
    const Tensor positions = model_.matrix("embeddings.positions", {length_ + 2, hidden_}, {kNoAxis, kEmbed});
    x = add(x, slice(positions, {0, 0}, {length_, hidden_}));
    return model_.drop(model_.norm(x, "embeddings.norm", kEpsilon), dropout_, "embeddings.drop");
  }

  // --- blocks: [B,S,H] -> [B,S,H] ---

  Tensor block(const std::string& name, Tensor x, const std::string& path) {
    const auto found = blocks().find(name);
    if (found == blocks().end()) throw Error({.what = "no such block", .found = name});
    return (this->*found->second)(x, path);
  }

  Tensor attend(Tensor x, const std::string& path, bool causal, bool masked) {
    const Tensor normed = model_.norm(x, path + ".norm", kEpsilon);
    const Tensor qkv = model_.dense(normed, path + ".qkv", 3 * hidden_, kJointHeads, kEmbed);
    Tensor mask;
    if (masked) {
      const ValueId known = build_.graph().find_input("attention_mask");
      mask = known != kNoValue ? build_.tensor(known) : build_.input("attention_mask", DType::kI32, {batch_, length_});
    }
    const Tensor mixed = model_.self_attention(qkv, mask, heads_, dropout_, causal, path + ".drop");
    const Tensor out = model_.dense(mixed, path + ".out", hidden_, kEmbed, kHeads);
    return add(x, model_.drop(out, dropout_, path + ".residual"));
  }
  Tensor attention_plain(Tensor x, const std::string& path) { return attend(x, path, false, false); }
  Tensor attention_causal(Tensor x, const std::string& path) { return attend(x, path, true, false); }
  Tensor attention_masked(Tensor x, const std::string& path) { return attend(x, path, false, true); }

  /// Query, key and value of weights of their own, written as [in, out].
  Tensor attention_apart(Tensor x, const std::string& path) {
    std::vector<Tensor> parts;
    for (const char* name : {".query", ".key", ".value"})
      parts.push_back(reshape(model_.projection(x, path + name, hidden_, kHeads, kEmbed),
                              {batch_, length_, heads_, hidden_ / heads_}));
    AttentionOptions options;
    options.causal = true;
    const Tensor mixed = attention(parts[0], parts[1], parts[2], {}, {}, options);
    const Tensor out =
        model_.projection(reshape(mixed, {batch_, length_, hidden_}), path + ".out", hidden_, kEmbed, kHeads);
    return model_.norm(add(x, out), path + ".norm", kEpsilon);
  }

  /// Attention of transposes, products and a softmax.
  Tensor attention_sums(Tensor x, const std::string& path) {
    std::vector<Tensor> parts;
    for (const char* name : {".query", ".key", ".value"})
      parts.push_back(
          reshape(model_.dense(x, path + name, hidden_, kHeads, kEmbed), {batch_, length_, heads_, hidden_ / heads_}));
    const Tensor scores =
        scale(einsum("bqhd,bkhd->bhqk", {parts[0], parts[1]}), 1 / std::sqrt(static_cast<double>(hidden_ / heads_)));
    const Tensor mixed = einsum("bhqk,bkhd->bqhd", {model_.drop(softmax(scores), dropout_, path + ".drop"), parts[2]});
    return add(x, model_.dense(reshape(mixed, {batch_, length_, hidden_}), path + ".out", hidden_, kEmbed, kHeads));
  }

  Tensor mlp(Tensor x, const std::string& path) {
    const Tensor wide =
        gelu(model_.dense(model_.norm(x, path + ".norm", kEpsilon), path + ".up", inner_, kMlp, kEmbed));
    return add(x, model_.drop(model_.dense(wide, path + ".down", hidden_, kEmbed, kMlp), dropout_, path + ".drop"));
  }

  /// The norm after the sum, weights as [in, out], relu.
  Tensor mlp_after(Tensor x, const std::string& path) {
    const Tensor wide = relu(model_.projection(x, path + ".up", inner_, kMlp, kEmbed));
    return model_.norm(add(x, model_.projection(wide, path + ".down", hidden_, kEmbed, kMlp)), path + ".norm",
                       kEpsilon);
  }

  /// Two products without biases, one of which is the gate of the other.
  Tensor gated(Tensor x, const std::string& path) {
    const Tensor gain = model_.vector(path + ".norm", hidden_, kEmbed, 1);
    const Tensor normed = rms_norm(x, gain, kEpsilon);
    const Tensor gate = matmul(normed, model_.matrix(path + ".gate", {inner_, hidden_}, {kMlp, kEmbed}), false, true);
    const Tensor up = matmul(normed, model_.matrix(path + ".up", {hidden_, inner_}, {kEmbed, kMlp}));
    const Tensor wide = multiply(multiply(gate, sigmoid(gate)), up);
    return add(x, matmul(wide, model_.matrix(path + ".down", {inner_, hidden_}, {kMlp, kEmbed})));
  }

  /// A product that mixes positions, of a weight that means nothing to a layout.
  Tensor mixer(Tensor x, const std::string& path) {
    const Tensor turned = transpose(x, {0, 2, 1});
    const Tensor mixed = matmul(turned, model_.matrix(path + ".weight", {length_, length_}, {kNoAxis, kNoAxis}));
    return add(x, transpose(gelu_tanh(mixed), {0, 2, 1}));
  }

  /// Gains of several kinds, comparisons and choices.
  Tensor odd_elements(Tensor x, const std::string& path) {
    const Tensor a = multiply(x, model_.vector(path + ".gain", hidden_, kEmbed, 0.7));
    const Tensor b = add(tanh(x), model_.vector(path + ".bias", hidden_, kNoAxis, 0.1));
    const Tensor chosen = select(less(a, b), maximum(a, scale(b, 0.5)), minimum(sigmoid(a), b));
    return add(chosen, divide(x, add_scalar(multiply(x, x), 2)));
  }

  /// A norm by hand, over the hidden size.
  Tensor centered(Tensor x, const std::string& path) {
    const Tensor rest = subtract(x, reduce_mean(x, {-1}, true));
    const Tensor deviation = sqrt(add_scalar(reduce_mean(multiply(rest, rest), {-1}, true), 1e-3));
    return multiply(divide(rest, deviation), model_.vector(path + ".gain", hidden_, kEmbed, 1));
  }

  /// Greatest and mean values over positions, told to all of them.
  Tensor pooled(Tensor x, const std::string& path) {
    const Tensor greatest = reduce_max(x, {1}, true), mean = reduce_mean(x, {1}, true);
    return add(x, multiply(add(greatest, mean), model_.vector(path + ".gain", hidden_, kEmbed, 0.3)));
  }

  Tensor soft_gate(Tensor x, const std::string& path) {
    const Tensor weight = model_.matrix(path + ".weight", {hidden_, hidden_}, {kEmbed, kNoAxis});
    return add(x, multiply(softmax(matmul(x, weight, false, true)), x));
  }

  /// Sums along positions, forwards and backwards.
  Tensor running(Tensor x, const std::string& path) {
    const Tensor gain = model_.vector(path + ".gain", hidden_, kNoAxis, 0.2);
    const Tensor ahead = scale(cumsum(x, 1), 1 / static_cast<double>(length_));
    return add(x, multiply(gain, subtract(ahead, build_.op("reverse", {x}, {{"axes", std::vector<int64_t>{1}}}))));
  }

  /// Halves of the hidden size change places, one with its sign turned.
  Tensor rotated(Tensor x, const std::string& path) {
    const int64_t half = hidden_ / 2;
    const auto parts = split(x, {half, hidden_ - half}, -1);
    const Tensor turned = concat({negate(parts[1]), parts[0]}, -1);
    return add(multiply(x, model_.vector(path + ".cosine", hidden_, kEmbed, 0.8)),
               multiply(turned, model_.vector(path + ".sine", hidden_, kNoAxis, 0.6)));
  }

  /// Each position sees the one before.
  Tensor shifted(Tensor x, const std::string& path) {
    const Tensor before = slice(pad(x, {0, 1, 0}, {0, 0, 0}), {0, 0, 0}, {batch_, length_, hidden_});
    return add(scale(x, 0.5), model_.dense(before, path + ".dense", hidden_, kEmbed, kEmbed));
  }

  /// A second table of the words, read by a product with a one-hot matrix.
  Tensor lookup(Tensor x, const std::string& path) {
    const Tensor table = model_.matrix(path + ".table", {vocabulary_, hidden_}, {kVocab, kEmbed});
    return add(x, matmul(cast(one_hot(ids(), vocabulary_), x.dtype()), table));
  }

  /// The greatest scores of each row weigh it.
  Tensor picked(Tensor x, const std::string& path) {
    const Tensor scores = model_.dense(x, path + ".scores", kExperts, kNoAxis, kEmbed);
    return multiply(x, sigmoid(reduce_sum(top_k(scores, kPicked).first, {-1}, true)));
  }

  /// Each row in order, weighed by rank, and put back by index.
  Tensor ranked(Tensor x, const std::string& path) {
    const auto [values, indices] = sort(x, -1, true);
    const Tensor weighed = multiply(values, model_.vector(path + ".gain", hidden_, kEmbed, 0.4));
    return scatter_elements(scale(x, 0.5), indices, weighed, -1, {.by = "add"});
  }

  /// Positions by index, where several meet in one, and a recurrence along them.
  Tensor addressed(Tensor x, const std::string& path) {
    const Tensor order = argsort(x, 1);
    const Tensor met = slice_axis(order, 1, 0, 1 + length_ / 2);
    const Tensor taken = gather_elements(x, order, 1);
    const Tensor put = scatter_elements(x, met, slice_axis(taken, 1, 0, 1 + length_ / 2), 1, {.by = "max"});
    const Tensor samples = iota(build_, DType::kI32, {batch_, 1}, 0);
    const Tensor run = linear_scan(sigmoid(put), index(put, {samples, remainder_of(ids(), length_)}), 1);
    return add(scale(x, 0.5), multiply(run, model_.vector(path + ".gain", hidden_, kEmbed, 0.3)));
  }

  /// Every expert sees every row; a softmax weighs them.
  Tensor experts(Tensor x, const std::string& path) {
    const Tensor gate = softmax(model_.dense(x, path + ".gate", kExperts, kNoAxis, kEmbed));
    const Tensor all = relu(einsum(
        "bsh,efh->bsef", {x, model_.matrix(path + ".up", {kExperts, inner_, hidden_}, {kNoAxis, kMlp, kEmbed})}));
    const Tensor mixed = einsum("bsef,bse->bsf", {all, gate});
    return add(x, matmul(mixed, model_.matrix(path + ".down", {hidden_, inner_}, {kEmbed, kMlp}), false, true));
  }

  /// The greatest element of a row alone, by its index.
  Tensor winners(Tensor x, const std::string& path) {
    const Tensor one = cast(one_hot(argmax(x, -1), hidden_), x.dtype());
    return add(x, multiply(multiply(x, one), model_.vector(path + ".gain", hidden_, kEmbed, 0.5)));
  }

  /// Heads apart, scaled each by its own weight, and together again.
  Tensor per_head(Tensor x, const std::string& path) {
    const Tensor apart = transpose(reshape(x, {batch_, length_, heads_, hidden_ / heads_}), {0, 2, 1, 3});
    const Tensor gain = model_.vector(path + ".gain", heads_, kHeads, 0.9);
    const Tensor scaled = multiply(apart, reshape(gain, {heads_, 1, 1}));
    return add(x, reshape(transpose(scaled, {0, 2, 1, 3}), {batch_, length_, hidden_}));
  }

  /// A weight that all layers with this block share.
  Tensor shared(Tensor x, const std::string&) {
    return add(x, tanh(model_.dense(x, "shared", hidden_, kEmbed, kEmbed)));
  }

  /// Rows of all samples in one matrix.
  Tensor rows(Tensor x, const std::string& path) {
    const Tensor flat = reshape(x, {batch_ * length_, hidden_});
    const Tensor out =
        model_.drop(model_.dense(flat, path + ".dense", hidden_, kNoAxis, kEmbed), dropout_, path + ".drop");
    return add(x, reshape(log_softmax(out), {batch_, length_, hidden_}));
  }

  /// A row weighs itself by a product with a single result.
  Tensor narrow(Tensor x, const std::string& path) {
    const Tensor one = model_.dense(x, path + ".dense", 1, kNoAxis, kEmbed);
    return multiply(x, add_scalar(tanh(broadcast_to(one, {batch_, length_, hidden_})), 1));
  }

  /// What the layers began with, and what the first of them made, seen again.
  Tensor skip(Tensor x, const std::string& path) {
    const Tensor seen = first_.valid() ? add(start_, scale(first_, 0.5)) : start_;
    return add(x, multiply(seen, model_.vector(path + ".gain", hidden_, kEmbed, 0.4)));
  }

  /// Scores with a bias of hidden positions that is made before the layers, once for all.
  Tensor biased(Tensor x, const std::string& path) {
    const Tensor query = model_.dense(x, path + ".query", hidden_, kHeads, kEmbed);
    const Tensor scores = scale(matmul(query, x, false, true), 1 / std::sqrt(static_cast<double>(hidden_)));
    return add(x, matmul(softmax(add(scores, cast(bias(), scores.dtype()))), x));
  }
  Tensor bias() {  // in the scope of the first layer that reads it
    if (bias_.valid()) return bias_;
    const ValueId known = build_.graph().find_input("attention_mask");
    const Tensor mask =
        known != kNoValue ? build_.tensor(known) : build_.input("attention_mask", DType::kI32, {batch_, length_});
    const Tensor shown = reshape(equal(mask, full_like(DType::kI32, 1)), {batch_, 1, length_});
    return bias_ = broadcast_to(select(shown, full_like(DType::kF32, 0), full_like(DType::kF32, -100)),
                                {batch_, length_, length_});
  }

  /// Equal words of a micro-batch see the sum of each other.
  Tensor bag(Tensor x, const std::string& path) {
    const Tensor sums =
        scatter_add(ids(), multiply(x, model_.vector(path + ".gain", hidden_, kEmbed, 0.3)), vocabulary_);
    return add(x, tanh(gather(sums, ids())));
  }

  /// Powers, products of small groups, and a sum of all positions of a sample.
  Tensor products(Tensor x, const std::string& path) {
    const Tensor groups = reshape(add_scalar(sigmoid(x), 0.5), {batch_, length_, heads_, hidden_ / heads_});
    const Tensor product = build_.op("reduce_prod", {groups}, {{"axes", std::vector<int64_t>{3}}, {"keep_dims", true}});
    const Tensor raised = power(product, full_like(product.dtype(), 1.5));
    const Tensor spread = reshape(broadcast_to(raised, groups.shape()), x.shape());
    const Tensor all = reshape(reduce_sum(x, {1, 2}), {batch_, 1, 1});
    const Tensor gain = model_.vector(path + ".gain", hidden_, kMlp, 0.5);
    return add(multiply(x, add(spread, gain)), scale(all, 0.01));
  }

  /// A residual with the cast of a user.
  Tensor cast_twice(Tensor x, const std::string& path) {
    const Tensor low = cast(x, DType::kBF16);
    const Tensor weight = cast(model_.matrix(path + ".weight", {hidden_, hidden_}, {kEmbed, kMlp}), DType::kBF16);
    return add(x, cast(matmul(low, weight), x.dtype()));
  }

  // --- blocks with a state beside weights ---

  Tensor declare(const std::string& name, const TensorType& type, StateKind kind, StateInit init) {
    if (into_) into_->states.push_back({name, type, kind, std::move(init), ""});
    return build_.state(name, type.dtype, type.shape);
  }

  /// Less a running mean, to which every micro-batch gives its own (a deferred state).
  Tensor statistic(Tensor x, const std::string& path) {
    const Tensor mean = declare(path + ".mean", {DType::kF32, {hidden_}}, StateKind::kDeferred, {});
    if (into_) build_.output(path + ".mean", reduce_mean(cast(x, DType::kF32), {0, 1}), OutputRole::kState);
    return subtract(x, cast(mean, x.dtype()));
  }

  /// What the micro-batches before left behind (a chained state).
  Tensor memory(Tensor x, const std::string& path) {
    const Tensor old = declare(path + ".memory", {DType::kF32, {batch_, hidden_}}, StateKind::kChained, {});
    if (into_)
      build_.output(path + ".memory", tanh(add(scale(old, 0.5), reduce_mean(cast(x, DType::kF32), {1}))),
                    OutputRole::kState);
    return add(x, cast(reshape(old, {batch_, 1, hidden_}), x.dtype()));
  }

  /// Gains in the order of a pattern, which a program turns by one place every three steps.
  Tensor turned(Tensor x, const std::string& path) {
    const std::string name = path + ".places";
    const Tensor places = declare(name, {DType::kI32, {hidden_}}, StateKind::kPattern, StateInit::iota());
    if (into_) {
      NamedGraph program{"turn " + path, Graph("turn"), When::each_step(3)};
      GraphBuilder turn(program.graph);
      const Tensor old = turn.state(name, DType::kI32, {hidden_});
      turn.output(name, concat({slice(old, {1}, {hidden_}), slice(old, {0}, {1})}, 0), OutputRole::kState);
      into_->programs.push_back(std::move(program));
    }
    return multiply(x, gather(model_.vector(path + ".gain", hidden_, kEmbed, 0.9), places));
  }

  // --- what comes after them ---

  void add_head(Tensor x) {
    const std::string& kind = drawn_.word("head");
    if (kind == "squares") return add_squares(x);
    if (kind == "masked" || kind == "pair") return add_masked(x, kind == "pair");
    Tensor logits;
    {
      Scope scope(build_, "head");
      const Tensor rows = model_.norm(reshape(x, {batch_ * length_, hidden_}), "head.norm", kEpsilon);
      logits = logits_of(rows, kind == "tied");
    }
    const Tensor labels = build_.input("labels", DType::kI32, {batch_, length_});
    Scope scope(build_, "loss");
    add_entropy("", logits, reshape(labels, {batch_ * length_}));
  }

  Tensor logits_of(Tensor rows, bool tied) {
    if (tied && words_.valid()) return matmul(rows, words_, false, true);
    return model_.dense(rows, "head.words", rows_, kVocab, kEmbed);
  }

  /// Of rows of the vocabulary, those beyond its words are no classes.
  Tensor add_entropy(const std::string& prefix, Tensor logits, Tensor labels) {
    const bool padded = rows_ > vocabulary_ && logits.dim(-1) == rows_;
    const CrossEntropy next = cross_entropy(logits, labels, padded ? vocabulary_ : 0);
    build_.output(prefix + "loss", next.loss);
    build_.output(prefix + "correct", next.correct);
    build_.output(prefix + "count", next.count);
    return next.loss;
  }

  /// Some positions of each sample, as BERT's; with a second loss of the first position.
  void add_masked(Tensor x, bool pair) {
    const Tensor places = build_.input("places", DType::kI32, {batch_, kPredictions});
    const Tensor labels = build_.input("place_labels", DType::kI32, {batch_, kPredictions});
    Tensor words;
    {
      Scope scope(build_, "words");
      const Tensor first =
          multiply(iota(build_, DType::kI32, {batch_, 1}, 0), full_like(DType::kI32, static_cast<double>(length_)));
      const Tensor rows =
          gather(reshape(x, {batch_ * length_, hidden_}), reshape(add(places, first), {batch_ * kPredictions}));
      const Tensor normed =
          model_.norm(gelu(model_.dense(rows, "words.dense", hidden_, kEmbed, kNoAxis)), "words.norm", kEpsilon);
      words = add_entropy(pair ? "words_" : "", logits_of(normed, true), reshape(labels, {batch_ * kPredictions}));
    }
    if (!pair) return;
    Scope scope(build_, "pair");
    const Tensor start = reshape(slice(x, {0, 0, 0}, {batch_, 1, hidden_}), {batch_, hidden_});
    const Tensor pooled = tanh(model_.dense(start, "pair.dense", hidden_, kEmbed, kNoAxis));
    const Tensor classes = model_.dense(pooled, "pair.classes", 2, kNoAxis, kEmbed);
    build_.output("loss",
                  add(words, add_entropy("pair_", classes, build_.input("pair_labels", DType::kI32, {batch_}))));
  }

  /// Mean squares of what is left to targets.
  void add_squares(Tensor x) {
    const Tensor targets = build_.input("targets", DType::kF32, {batch_, length_, kTargets});
    Scope scope(build_, "squares");
    const Tensor rest = subtract(model_.dense(x, "squares.dense", kTargets, kNoAxis, kEmbed), targets);
    const Tensor squares = multiply(rest, rest);
    build_.output("loss", reduce_mean(squares));
    // A metric of the model's own: the share of targets that are hit.
    const Tensor hits = cast(less(squares, full(build_, DType::kF32, {}, 1)), DType::kF32);
    build_.output("hits", reduce_sum(hits));
    build_.output("targets_count", full(build_, DType::kF32, {}, static_cast<double>(batch_ * length_ * kTargets)));
  }

  const DrawnModel& drawn_;
  Model* const into_;
  ModelBuilder model_;
  GraphBuilder& build_;
  Tensor words_, start_, first_, bias_;
  int64_t batch_, length_, heads_, hidden_, inner_, vocabulary_, rows_;
  double dropout_;
};

const std::map<std::string, Builder::Block>& Builder::blocks() {
  static const std::map<std::string, Block> all = {{"attention", &Builder::attention_plain},
                                                   {"causal", &Builder::attention_causal},
                                                   {"masked", &Builder::attention_masked},
                                                   {"apart", &Builder::attention_apart},
                                                   {"sums", &Builder::attention_sums},
                                                   {"mlp", &Builder::mlp},
                                                   {"mlp_after", &Builder::mlp_after},
                                                   {"gated", &Builder::gated},
                                                   {"mixer", &Builder::mixer},
                                                   {"odd", &Builder::odd_elements},
                                                   {"centered", &Builder::centered},
                                                   {"pooled", &Builder::pooled},
                                                   {"soft_gate", &Builder::soft_gate},
                                                   {"running", &Builder::running},
                                                   {"rotated", &Builder::rotated},
                                                   {"shifted", &Builder::shifted},
                                                   {"lookup", &Builder::lookup},
                                                   {"picked", &Builder::picked},
                                                   {"ranked", &Builder::ranked},
                                                   {"addressed", &Builder::addressed},
                                                   {"experts", &Builder::experts},
                                                   {"winners", &Builder::winners},
                                                   {"per_head", &Builder::per_head},
                                                   {"shared", &Builder::shared},
                                                   {"rows", &Builder::rows},
                                                   {"narrow", &Builder::narrow},
                                                   {"skip", &Builder::skip},
                                                   {"biased", &Builder::biased},
                                                   {"bag", &Builder::bag},
                                                   {"products", &Builder::products},
                                                   {"cast_twice", &Builder::cast_twice},
                                                   {"statistic", &Builder::statistic},
                                                   {"memory", &Builder::memory},
                                                   {"turned", &Builder::turned}};
  return all;
}

/// Tensors of any of the models; each program takes what it knows.
class DrawnBatches : public MadeSource {
 public:
  DrawnBatches(const DrawnModel& drawn, uint64_t seed)
      : seed_(seed),
        length_(drawn.number("sequence")),
        inner_(drawn.number("inner")),
        vocabulary_(drawn.number("vocabulary")) {}

  Batch batch(int64_t first, int64_t count) const override {
    Batch made{first, count, {}};
    integers(made, "input_ids", {count, length_}, [&](uint32_t bits) { return bits % vocabulary_; });
    integers(made, "labels", {count, length_},
             [&](uint32_t bits) { return bits % 5 == 0 ? -1 : (bits >> 3) % vocabulary_; });
    integers(made, "attention_mask", {count, length_}, [&](uint32_t bits) { return bits % 4 != 0; });
    integers(made, "places", {count, kPredictions}, [&](uint32_t bits) { return bits % length_; });
    integers(made, "place_labels", {count, kPredictions},
             [&](uint32_t bits) { return bits % 4 == 0 ? -1 : (bits >> 3) % vocabulary_; });
    integers(made, "pair_labels", {count}, [&](uint32_t bits) { return bits % 2; });
    numbers(made, "numbers", {count, length_, inner_});
    numbers(made, "targets", {count, length_, kTargets});
    return made;
  }

 private:
  template <typename Set>
  void set_all(Batch& batch, const std::string& name, const TensorType& type, const Set& set) const {
    HostTensor tensor(type);
    const RandomStream stream(seed_, RandomPurpose::kTest, 0, hash64(name));
    const int64_t each = type.elements() / batch.count;
    for (int64_t i = 0; i < tensor.elements(); ++i)
      tensor.set(i, set(stream, static_cast<uint64_t>(batch.first_sample * each + i)));
    batch.tensors.push_back({name, type, std::move(tensor.data)});
  }
  template <typename Make>
  void integers(Batch& batch, const std::string& name, Shape shape, const Make& make) const {
    set_all(batch, name, {DType::kI32, std::move(shape)}, [&](const RandomStream& stream, uint64_t element) {
      return static_cast<double>(static_cast<int64_t>(make(stream.bits(element))));
    });
  }
  void numbers(Batch& batch, const std::string& name, Shape shape) const {
    set_all(batch, name, {DType::kF32, std::move(shape)},
            [](const RandomStream& stream, uint64_t element) { return stream.normal(element); });
  }

  uint64_t seed_;
  int64_t length_, inner_, vocabulary_;
};

/// Other meanings for the dimensions of weights, as a user might get them wrong: no bit may depend on them.
void draw_axes(uint64_t seed, std::vector<StateTensor>& weights) {
  const LogicalAxis all[] = {kNoAxis, kEmbed, kHeads, kMlp, kVocab, kJointHeads};
  for (StateTensor& weight : weights) {
    const RandomStream stream(seed, RandomPurpose::kTest, 1, hash64(weight.name));
    for (size_t dim = 0; dim < weight.axes.size(); ++dim) {
      const bool thirds = weight.type.shape[static_cast<int>(dim)] % 3 == 0;
      if (stream.below(2 * dim, 3) > 0) weight.axes[dim] = all[stream.below(2 * dim + 1, thirds ? 6 : 5)];
    }
  }
}

std::vector<Metric> metrics_of(const std::string& head) {
  if (head == "squares")
    return {{.name = "loss", .numerator = "loss", .how = Metric::How::kMean},
            share_metric("hit_share", "hits", "targets_count")};
  if (head == "pair")
    return {{.name = "loss", .numerator = "loss", .how = Metric::How::kMean, .parts = {"words_loss", "pair_loss"}},
            mean_metric("words_loss", "words_count"),
            mean_metric("pair_loss", "pair_count"),
            share_metric("words_accuracy", "words_correct", "words_count"),
            share_metric("pair_accuracy", "pair_correct", "pair_count")};
  return {mean_metric("loss", "count"),
          share_metric("accuracy", "correct", "count"),
          {.name = "surprise", .numerator = "loss", .how = Metric::How::kExp},
          {.name = "words", .numerator = "count", .how = Metric::How::kSum}};
}

/// The model with every weight sparse that can be.
Model sparse_of(const Model& dense, const DrawnModel& drawn) {
  SparsifyOptions options{.density = static_cast<double>(drawn.number("density")) / 100,
                          .block_rows = drawn.number("block"),
                          .block_columns = drawn.number("block"),
                          .cells = drawn.number("cells"),
                          .seed = kSeed};
  const std::vector<StateTensor> weights = dense.weights;
  std::vector<std::string> fitting;
  for (const StateTensor& weight : weights) {
    options.weights = {weight.name};
    try {
      (void)sparsify(dense, options);
      fitting.push_back(weight.name);
    } catch (const Error&) {
    }
  }
  if (fitting.empty()) return dense;
  options.weights = fitting;
  options.evolve = {
      .every = drawn.number("every"), .steps = 10, .schedule = "constant", .regrow = drawn.word("regrow")};
  return sparsify(dense, options);
}

}  // namespace

const std::map<std::string, std::string>& model_defaults() {
  static const std::map<std::string, std::string> defaults = {
      {"batch", "2"},   {"sequence", "8"}, {"heads", "4"}, {"head_size", "4"},  {"inner", "16"},   {"vocabulary", "32"},
      {"padding", "0"}, {"dropout", "0"},  {"axes", "0"},  {"input", "tokens"}, {"head", "words"}, {"density", "0"},
      {"block", "1"},   {"cells", "1"},    {"every", "0"}, {"regrow", "random"}};
  return defaults;
}

std::vector<std::string> block_names() {
  std::vector<std::string> names;
  for (const auto& [name, block] : Builder::blocks()) names.push_back(name);
  return names;
}
std::vector<std::string> input_names() { return {"tokens", "positions", "numbers"}; }
std::vector<std::string> head_names() { return {"tied", "words", "masked", "pair", "squares"}; }

DrawnModel DrawnModel::parse(const std::string& text) {
  DrawnModel drawn;
  std::istringstream stream(text);
  for (std::string setting; stream >> setting;) {
    const size_t equals = setting.find('=');
    const std::string name = setting.substr(0, equals),
                      value = equals == std::string::npos ? "" : setting.substr(equals + 1);
    if (name == "layers") {
      for (const std::string& layer : split_text(value, '/')) drawn.layers.push_back(split_text(layer, ','));
      continue;
    }
    if (!model_defaults().count(name)) throw Error({.what = "no such key of a drawn model", .found = name});
    if (value != model_defaults().at(name)) drawn.words[name] = value;
  }
  return drawn;
}

std::string DrawnModel::text() const {
  std::string text;
  for (const auto& [name, value] : words) text += name + "=" + value + " ";
  text += "layers=";
  for (size_t i = 0; i < layers.size(); ++i) {
    text += i == 0 ? "" : "/";
    for (size_t b = 0; b < layers[i].size(); ++b) text += (b == 0 ? "" : ",") + layers[i][b];
  }
  return text;
}

const std::string& DrawnModel::word(const std::string& name) const {
  const auto found = words.find(name);
  return found != words.end() ? found->second : model_defaults().at(name);
}
bool DrawnModel::has_block(const std::string& name) const {
  return std::any_of(layers.begin(), layers.end(), [&](const std::vector<std::string>& layer) {
    return std::find(layer.begin(), layer.end(), name) != layer.end();
  });
}
int64_t DrawnModel::number(const std::string& name) const { return std::stoll(word(name)); }

Model build(const DrawnModel& drawn) {
  Model model;
  model.name = "drawn";
  Builder(drawn, model.forward, &model).run();
  Builder(drawn, model.evaluate, nullptr).run();
  if (const int64_t axes = drawn.number("axes"); axes > 0) draw_axes(static_cast<uint64_t>(axes), model.weights);
  declare_inputs(model, drawn.number("sequence"));
  limit_input(model, "input_ids", 0, static_cast<double>(drawn.number("vocabulary") - 1));
  model.metrics = metrics_of(drawn.word("head"));
  model.guards = {"loss"};
  model.flops_per_token = 1;
  model.tokens_per_micro_batch = drawn.number("batch") * drawn.number("sequence");
  if (drawn.number("density") > 0) return sparse_of(model, drawn);
  return model;
}

std::shared_ptr<const Source> make_batches(const DrawnModel& drawn, uint64_t seed) {
  return std::make_shared<DrawnBatches>(drawn, seed);
}

}  // namespace ramet::tests::soak
