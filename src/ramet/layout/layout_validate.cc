#include <algorithm>
#include <functional>
#include <numeric>

#include "ramet/base/error.h"
#include "ramet/base/file.h"
#include "ramet/layout/layout.h"

namespace ramet::layout {
namespace {

bool is_power_of_two(int64_t value) { return value > 0 && (value & (value - 1)) == 0; }

std::string text(int64_t value) { return std::to_string(value); }

/// "1, 3 or 6"
std::string joined(const std::vector<int64_t>& values) {
  std::string result;
  for (size_t i = 0; i < values.size(); ++i)
    result += (i == 0 ? "" : i + 1 == values.size() ? " or " : ", ") + text(values[i]);
  return result;
}

/// The divisors of `whole` that `works` accepts, in order; of more than ten, those nearest to `wanted`.
std::vector<int64_t> divisors(int64_t whole, int64_t wanted, const std::function<bool(int64_t)>& works) {
  std::vector<int64_t> found;
  for (int64_t i = 1; i <= whole / i; ++i) {
    if (whole % i != 0) continue;
    if (works(i)) found.push_back(i);
    if (i != whole / i && works(whole / i)) found.push_back(whole / i);
  }
  std::sort(found.begin(), found.end());
  if (found.size() > 10) {
    std::stable_sort(found.begin(), found.end(),
                     [&](int64_t a, int64_t b) { return std::abs(a - wanted) < std::abs(b - wanted); });
    found.resize(10);
    std::sort(found.begin(), found.end());
  }
  return found;
}

/// Whether `parts` members can each take an equal share of `whole` terms of a balanced tree, as a whole subtree of it.
bool shares_tree(int64_t whole, int64_t parts, bool exact) {
  return parts == 1 || (whole % parts == 0 && (!exact || is_power_of_two(whole / parts)));
}

class Validator {
 public:
  Validator(const Layout& layout, const LayoutFacts& facts, const std::string& source)
      : layout_(layout), facts_(facts), source_(source) {}

  std::vector<std::string> run() {
    check_replicas();
    check_rts();
    check_clusters();
    check_tensor(layout_.t1, t1_name());
    check_tensor(layout_.t2, "t2");
    check_widths();
    check_sequence();
    check_schedule();
    check_layers();
    check_recompute();
    check_processes();
    remark_pipeline();
    remark_memory();
    remark_machine();
    return std::move(remarks_);
  }

 private:
  [[noreturn]] void refuse(const std::string& key, const std::string& what, const std::string& found,
                           const std::string& remedy) const {
    throw Error({.what = what, .where = source_ + " " + key, .found = found, .remedy = remedy});
  }
  /// As the user wrote it: t=4 means t1=4.
  std::string t1_name() const { return layout_.t2 == 1 ? "t" : "t1"; }
  void remark(const std::string& text) { remarks_.push_back(text); }

  void check_replicas() const {
    const int64_t r = layout_.r, lanes = facts_.lanes;
    if (shares_tree(lanes, r, facts_.exact)) return;
    const auto works = divisors(lanes, r, [&](int64_t n) { return shares_tree(lanes, n, facts_.exact); });
    if (!facts_.exact)
      refuse("r", "every replica must take equally many micro-batches",
             "r=" + text(r) + " with train.accumulation=" + text(lanes),
             "With accumulation=" + text(lanes) + ", r may be " + joined(works));
    refuse("r", "every replica must take equally many whole lanes, 1, 2, 4 or another power of two of them",
           "r=" + text(r) + " with train.lanes=" + text(lanes),
           "With lanes=" + text(lanes) + ", r may be " + joined(works) +
               "; or train another recipe, with train.lanes=" + text(r) + " (lanes decide bits)");
  }

  /// One kind of tensor among groups of replicas. Sums over groups must be subtrees of the tree over replicas.
  void check_group(const char* kind, int64_t group, bool sums) const {
    if (group == 0) return;
    const int64_t r = layout_.r;
    const auto fits = [&](int64_t n) { return r % n == 0 && (!sums || !facts_.exact || is_power_of_two(n) || n == r); };
    if (fits(group)) return;
    refuse("rts",
           sums && r % group == 0 ? "gradients are summed along a tree, of which a group must be a whole branch"
                                  : "replicas must fall into equal groups",
           std::string(kind) + ":" + text(group) + " with r=" + text(r),
           "With r=" + text(r) + ", the group of " + kind + " may be " + joined(divisors(r, group, fits)));
  }

  void check_rts() const {
    check_group("weights", layout_.rts.weights, false);
    check_group("grads", layout_.rts.grads, true);
    check_group("optimizer", layout_.rts.optimizer, false);
  }

  void check_tensor(int64_t t, const std::string& name) const {
    const int64_t chunks = facts_.chunks;
    if (!facts_.exact || shares_tree(chunks, t, true)) return;
    const auto works = divisors(chunks, t, [&](int64_t n) { return shares_tree(chunks, n, true); });
    refuse("t", "every tensor shard must take equally many whole chunks, 1, 2, 4 or another power of two of them",
           name + "=" + text(t) + " with train.chunks=" + text(chunks),
           "With chunks=" + text(chunks) + ", " + name + " may be " + joined(works) +
               "; or train another recipe, with train.chunks=" + text(t) + " (chunks decide bits)");
  }

  /// `parts` shards cut an extent of the model; when it is also summed over, the recipe's chunks must divide it.
  void check_extent(const std::string& what, int64_t extent, int64_t parts, const std::string& name,
                    bool summed) const {
    if (extent == 0 || parts == 1) return;
    const auto whole = [&](int64_t n) {
      return extent % n == 0 && (!facts_.exact || shares_tree(facts_.chunks, n, true));
    };
    if (extent % parts != 0)
      refuse("t", "every tensor shard must hold equally many of the model's " + what,
             name + "=" + text(parts) + " of " + text(extent),
             "With " + text(extent) + (facts_.exact ? " and chunks=" + text(facts_.chunks) : "") + ", " + name +
                 " may be " + joined(divisors(extent, parts, whole)));
    if (summed && facts_.exact && extent % facts_.chunks != 0)
      refuse("t",
             "the sum over the model's " + what +
                 " has no chunks, because train.chunks does not divide it, so it cannot be split",
             text(extent) + " with train.chunks=" + text(facts_.chunks),
             "train.chunks may be " +
                 joined(divisors(extent, facts_.chunks, [&](int64_t n) { return shares_tree(n, parts, true); })) +
                 " (which decides bits), or leave t out");
  }

  void check_widths() {
    if (facts_.heads % layout_.t1 != 0)
      remark(text(facts_.heads) + " attention heads cannot be split " + text(layout_.t1) +
             " ways: every tensor shard computes all of them, while their weights are still split");
    check_extent("hidden width", facts_.hidden, layout_.t1, t1_name(), true);
    check_extent("feed-forward width", facts_.intermediate, layout_.t1, t1_name(), true);
    check_extent("hidden width", facts_.hidden, layout_.t2, "t2", true);
    const int64_t vocabulary = facts_.vocabulary, t1 = layout_.t1;
    if (t1 == 1 || vocabulary == 0) return;
    const int64_t unit = facts_.exact ? std::lcm(t1, facts_.chunks) : t1;
    if (vocabulary % unit != 0)
      remark("the vocabulary of " + text(vocabulary) + " cannot be split " + text(t1) +
             " ways: every tensor shard holds and computes all of it. model.pad_vocabulary=" + text(unit) +
             " makes it " + text((vocabulary + unit - 1) / unit * unit) + " rows, which can be (and decides bits)");
  }

  void check_clusters() const {
    const int64_t g = layout_.g, clusters = facts_.clusters;
    if (g == 1) return;
    if (layout_.t1 > 1 || layout_.t2 > 1 || layout_.sequence)
      refuse("g", "the clusters of a graph are dealt where tensor shards would be",
             "g=" + text(g) + " with " + t1_name() + "=" + text(std::max(layout_.t1, layout_.t2)), "Leave t out");
    if (clusters == 0)
      refuse("g", "the model reads no graph in clusters", "g=" + text(g),
             "Leave g out, or cut the graph with data.graphs.batch = \"cut\" and clusters in node.part");
    if (clusters % g != 0)
      refuse("g", "every device must get equally many clusters", "g=" + text(g) + " of " + text(clusters) + " clusters",
             "With " + text(clusters) + " clusters, g may be " +
                 joined(divisors(clusters, g, [](int64_t) { return true; })));
  }

  void check_sequence() const {
    if (!layout_.sequence) return;
    const int64_t t1 = layout_.t1, tokens = facts_.tokens;
    if (t1 == 1)
      refuse("sequence", "sequence parallelism cuts tokens among tensor shards", "sequence=true with t1=1",
             "Set t to 2 or more, or leave sequence out");
    if (tokens == 0) return;
    const int64_t unit = facts_.exact ? std::lcm(t1, facts_.chunks) : t1;
    if (tokens % unit != 0)
      refuse("sequence", "the tokens of a sample must divide among tensor shards, and among train.chunks",
             text(tokens) + " tokens, t1=" + text(t1) + ", chunks=" + text(facts_.chunks),
             "Use a data.sequence_length that is a multiple of " + text(unit) + ", or leave sequence out");
  }

  void check_schedule() const {
    const bool interleaved = layout_.schedule == PipelineSchedule::kInterleaved;
    const std::string name(name_of(layout_.schedule));
    if ((interleaved || layout_.schedule == PipelineSchedule::kZeroBubble) && layout_.p == 1)
      refuse("schedule", name + " is a schedule of several stages", "p=1",
             interleaved ? "Set p to 2 or more, or use phases to cut one device's model"
                         : "Set p to 2 or more, or leave schedule out");
    if ((interleaved || layout_.schedule == PipelineSchedule::kZeroBubble) && layout_.phases > 1)
      refuse("schedule", "phases have an order of their own, in which " + name + " has no place",
             name + " with phases=" + text(layout_.phases), "With phases, schedule may be gpipe or 1f1b");
    if (layout_.head == Layout::Head::kFirst && layout_.p == 1)
      refuse("head", "with one stage, the loss head is on the first one anyway", "head=first with p=1",
             "Leave head out");
  }

  void check_layers() const {
    const int64_t parts = layout_.layer_parts(), layers = facts_.layers;
    const std::string product = layout_.parts_per_stage() == 1 ? "p=" + text(layout_.p)
                                : layout_.phases > 1
                                    ? "p x phases = " + text(layout_.p) + " x " + text(layout_.phases)
                                    : "p x interleave = " + text(layout_.p) + " x " + text(layout_.interleave);
    if (layout_.layers.empty()) {
      if (layers > 0 && parts > layers)
        refuse(layout_.phases > 1 ? "phases" : "p", "every part of the model must hold a layer at least",
               product + " of " + text(layers) + " layers", most_parts(layers));
      return;
    }
    if (static_cast<int64_t>(layout_.layers.size()) != parts)
      refuse("layers", "not one number for every part of the model",
             text(static_cast<int64_t>(layout_.layers.size())) + " numbers, " + product,
             "Give " + text(parts) + " numbers, apart by +");
    const int64_t sum = std::accumulate(layout_.layers.begin(), layout_.layers.end(), int64_t{0});
    if (layers > 0 && sum != layers)
      refuse("layers", "the parts must hold all layers of the model together", text(sum) + " layers",
             "Give numbers whose sum is " + text(layers));
    // The first part has the embeddings and the last may have the head: they may do without a layer.
    for (size_t i = 1; i + 1 < layout_.layers.size(); ++i)
      if (layout_.layers[i] == 0)
        refuse("layers", "only the first and the last part may be without a layer",
               "0 in place " + text(static_cast<int64_t>(i) + 1), "Give every part between a layer");
  }

  std::string most_parts(int64_t layers) const {
    if (layout_.parts_per_stage() == 1) return "With " + text(layers) + " layers, p may be at most " + text(layers);
    const std::string name = layout_.phases > 1 ? "phases" : "the number of interleaved";
    if (layout_.p > layers) return "With " + text(layers) + " layers, p may be at most " + text(layers);
    return "With " + text(layers) + " layers and p=" + text(layout_.p) + ", " + name + " may be at most " +
           text(layers / layout_.p);
  }

  void check_recompute() const {
    if (!layout_.recompute || facts_.layers == 0) return;
    for (const int64_t layer : layout_.recompute->layers)
      if (layer >= facts_.layers)
        refuse("recompute", "the model has no such layer", "layer " + text(layer),
               "With " + text(facts_.layers) + " layers, their numbers are 0 to " + text(facts_.layers - 1));
  }

  void check_processes() const {
    const int64_t devices = layout_.devices(), each = layout_.per_process;
    if (each == 0 || devices % each == 0) return;
    refuse("per_process", "every process must hold equally many devices",
           text(each) + " of " + text(devices) + " devices",
           "With " + text(devices) + " devices, per_process may be " +
               joined(divisors(devices, each, [](int64_t) { return true; })));
  }

  void remark_pipeline() {
    if (layout_.p == 1 || facts_.micro_batches == 0) return;
    const int64_t micro_batches = facts_.micro_batches / layout_.r;
    if (micro_batches < layout_.p)
      remark(text(micro_batches) + (micro_batches == 1 ? " micro-batch" : " micro-batches") +
             " a step for each replica cannot fill " + text(layout_.p) +
             " stages: most of them wait. A smaller p or r, or a larger train.accumulation, keeps them busy");
  }

  void remark_memory() {
    if (layout_.phases > 1 && !layout_.offload.weights && layout_.rts.weights <= 1)
      remark("phases save the memory of weights only when these live elsewhere: add weights to offload or to rts");
    if (layout_.r > 1 && layout_.rts.weights > 1 && layout_.rts.grads <= 1)
      remark(
          "weights are split among replicas while gradients, as large, are not: rts=weights,grads,optimizer saves "
          "more");
  }

  void remark_machine() {
    const int64_t devices = layout_.per_process > 0 ? layout_.per_process : layout_.devices();
    if (facts_.processors > 0 && layout_.threads > 0 && devices * layout_.threads > facts_.processors)
      remark(text(devices) + " devices of " + text(layout_.threads) + " threads share " + text(facts_.processors) +
             " processors");
    if (facts_.memory > 0 && layout_.device_memory > facts_.memory / devices)
      remark(text(devices) + " devices of " + format_size(layout_.device_memory) + " are more than the " +
             format_size(facts_.memory) + " of this machine");
  }

  const Layout& layout_;
  const LayoutFacts& facts_;
  const std::string& source_;
  std::vector<std::string> remarks_;
};

}  // namespace

std::vector<std::string> validate(const Layout& layout, const LayoutFacts& facts, const std::string& source) {
  return Validator(layout, facts, source).run();
}

}  // namespace ramet::layout
