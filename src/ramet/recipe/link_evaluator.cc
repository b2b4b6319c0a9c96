#include "ramet/recipe/link_evaluator.h"

#include <algorithm>
#include <cmath>

#include "ramet/base/error.h"
#include "ramet/base/rng.h"
#include "ramet/train/feeder.h"

namespace ramet::recipe {
namespace {

using graphs::GraphSet;

constexpr int64_t kMostLearned = 10000;  ///< links, and as many pairs without one, that the regression learns from
constexpr int kMostSteps = 30;           ///< of Newton's method, which needs fewer than 10
constexpr double kClose = 1e-8;          ///< at such a step it ends

/// Logistic regression by Newton's method: rows of `features` numbers, the last of which is 1 and has no penalty.
class Regression {
 public:
  explicit Regression(int64_t features) : size_(static_cast<size_t>(features)), weights_(size_) {}

  void add(std::vector<double> row, bool right) {
    rows_.push_back(std::move(row));
    right_.push_back(right);
  }
  void solve() {
    for (int step = 0; step < kMostSteps; ++step) {
      std::vector<double> gradient(size_), curvature(size_ * size_);
      for (size_t i = 0; i < rows_.size(); ++i) add_curvature(i, gradient, curvature);
      for (size_t k = 0; k + 1 < size_; ++k) gradient[k] += weights_[k], curvature[k * size_ + k] += 1;
      curvature[size_ * size_ - 1] += 1e-9;
      double most = 0;
      const std::vector<double> change = solved(curvature, gradient);
      for (size_t k = 0; k < size_; ++k) weights_[k] -= change[k], most = std::max(most, std::abs(change[k]));
      if (most < kClose) return;
    }
  }
  double score(const std::vector<double>& row) const {
    double sum = 0;
    for (size_t k = 0; k < size_; ++k) sum += row[k] * weights_[k];
    return sum;
  }

 private:
  void add_curvature(size_t i, std::vector<double>& gradient, std::vector<double>& curvature) const {
    const std::vector<double>& row = rows_[i];
    const double chance = 1 / (1 + std::exp(-score(row))), apart = chance - (right_[i] ? 1 : 0),
                 weight = chance * (1 - chance);
    for (size_t k = 0; k < size_; ++k) {
      gradient[k] += apart * row[k];
      const double scaled = weight * row[k];
      for (size_t j = 0; j <= k; ++j) curvature[k * size_ + j] += scaled * row[j];
    }
  }
  /// x of A x = b by Cholesky's method; of A, which is positive definite, the lower half is read.
  std::vector<double> solved(std::vector<double> a, std::vector<double> b) const {
    for (size_t k = 0; k < size_; ++k) {
      for (size_t j = 0; j <= k; ++j) {
        double sum = a[k * size_ + j];
        for (size_t i = 0; i < j; ++i) sum -= a[k * size_ + i] * a[j * size_ + i];
        a[k * size_ + j] = j == k ? std::sqrt(sum) : sum / a[j * size_ + j];
      }
      for (size_t i = 0; i < k; ++i) b[k] -= a[k * size_ + i] * b[i];
      b[k] /= a[k * size_ + k];
    }
    for (size_t k = size_; k-- > 0;) {
      for (size_t i = k + 1; i < size_; ++i) b[k] -= a[i * size_ + k] * b[i];
      b[k] /= a[k * size_ + k];
    }
    return b;
  }

  const size_t size_;
  std::vector<double> weights_;
  std::vector<std::vector<double>> rows_;
  std::vector<bool> right_;
};

/// For each node, ascending, itself and the nodes that an edge of the set joins it with, in either direction.
std::vector<std::vector<int32_t>> near_nodes(const GraphSet& set) {
  std::vector<std::vector<int32_t>> near(static_cast<size_t>(set.node_ptr(0)[1]));
  for (size_t node = 0; node < near.size(); ++node) near[node].push_back(static_cast<int32_t>(node));
  const auto sources = set.sources(0), targets = set.targets(0);
  for (size_t e = 0; e < sources.size(); ++e) {
    near[static_cast<size_t>(sources[e])].push_back(targets[e]);
    near[static_cast<size_t>(targets[e])].push_back(sources[e]);
  }
  for (std::vector<int32_t>& list : near) {
    std::sort(list.begin(), list.end());
    list.erase(std::unique(list.begin(), list.end()), list.end());
  }
  return near;
}

/// The links of a part, each once, in order.
std::vector<Link> links_of(const GraphSet& set, const std::string& part) {
  const size_t at = set.field("edge.split");
  const Field& field = set.fields()[at];
  const auto name = std::find(field.values.begin(), field.values.end(), part);
  std::vector<Link> links;
  if (name == field.values.end()) return links;
  const auto sources = set.sources(0), targets = set.targets(0);
  for (size_t e = 0; e < sources.size(); ++e)
    if (field_number(field, set.bytes(at), static_cast<int64_t>(e)) ==
            static_cast<double>(name - field.values.begin()) &&
        sources[e] != targets[e])
      links.emplace_back(std::min(sources[e], targets[e]), std::max(sources[e], targets[e]));
  std::sort(links.begin(), links.end());
  links.erase(std::unique(links.begin(), links.end()), links.end());
  return links;
}

/// All nodes in order, for the program "rows": "nodes" i32 [B, group]; places behind the last node have the last.
class NodeSource final : public Source {
 public:
  NodeSource(int64_t nodes, int64_t group) : nodes_(nodes), group_(group) {}
  Signature signature(int64_t count) const override { return {{"nodes", {DType::kI32, {count, group_}}}}; }
  void fill(int64_t first, int64_t count, const Places& places) const override {
    auto* const to = reinterpret_cast<int32_t*>(places.tensors[0]);
    for (int64_t i = 0; i < count * group_; ++i) to[i] = static_cast<int32_t>(std::min(first * group_ + i, nodes_ - 1));
  }
  int64_t epoch_of(int64_t) const override { return 0; }
  int64_t epoch_samples(int64_t) const override { return (nodes_ + group_ - 1) / group_; }
  Hash identity() const override { return data::source_identity("nodes", "", {static_cast<double>(nodes_)}); }

 private:
  const int64_t nodes_, group_;
};

class LinkEvaluator final : public Evaluator {
 public:
  struct Part {
    std::string prefix;
    std::vector<Link> right, wrong;
  };
  LinkEvaluator(std::shared_ptr<const GraphSet> set, int64_t width, int64_t micro_batch, int64_t group, uint64_t seed)
      : width_(width),
        micro_batch_(micro_batch),
        group_(group),
        nodes_(set->node_ptr(0)[1]),
        source_(std::make_shared<const NodeSource>(nodes_, group)) {
    uint64_t stream = 0;
    const auto wrong_for = [&](const std::vector<Link>& links) {
      return drawn_no_links(*set, std::ssize(links), seed, stream++);
    };
    for (const auto& [prefix, name] : {std::pair("", "validation"), {"test_", "test"}}) {
      Part part{.prefix = prefix, .right = links_of(*set, name), .wrong = {}};
      if (part.right.empty()) continue;
      part.wrong = wrong_for(part.right);
      parts_.push_back(std::move(part));
    }
    if (parts_.empty()) return;
    known_ = links_of(*set, "train");
    const int64_t size = std::ssize(known_), kept = std::min(size, kMostLearned);
    for (int64_t i = 0; i < kept; ++i) known_[static_cast<size_t>(i)] = known_[static_cast<size_t>(i * size / kept)];
    known_.resize(static_cast<size_t>(kept));
    known_wrong_ = wrong_for(known_);
  }

  bool any() const { return !parts_.empty(); }
  std::string program() const override { return "rows"; }
  bool finds_best() const override { return true; }

  Numbers evaluate(Cluster& cluster) override {
    const int64_t batches = (source_->epoch_samples(0) + micro_batch_ - 1) / micro_batch_;
    Feeder feeder(source_, cluster, {.micro_batch = micro_batch_, .program = program(), .count = batches});
    feeder.begin(0);
    const std::vector<ResultTensors> results = cluster.run(program(), batches, feeder.feed());
    if (!cluster.leads()) return {};
    std::vector<float> rows;
    for (const ResultTensors& each : results)
      for (const ResultTensor& tensor : each)
        for (int64_t i = 0; i < micro_batch_ * group_ * width_ && std::ssize(rows) < nodes_ * width_; ++i)
          rows.push_back(static_cast<float>(tensor.get(i)));
    Numbers numbers;
    for (const Part& part : parts_) {
      numbers.emplace_back(part.prefix + "roc_auc",
                           roc_auc(learned_link_scores(rows, width_, known_, known_wrong_, part.right, part.wrong)));
      numbers.emplace_back(part.prefix + "product_roc_auc",
                           roc_auc(product_link_scores(rows, width_, part.right, part.wrong)));
    }
    return numbers;
  }

 private:
  const int64_t width_, micro_batch_, group_, nodes_;
  const std::shared_ptr<const NodeSource> source_;
  std::vector<Part> parts_;
  std::vector<Link> known_, known_wrong_;
};

}  // namespace

LinkScores learned_link_scores(std::span<const float> rows, int64_t width, const std::vector<Link>& known,
                               const std::vector<Link>& known_wrong, const std::vector<Link>& asked,
                               const std::vector<Link>& asked_wrong) {
  const auto features = [&](const Link& link) {
    std::vector<double> made;
    for (int64_t k = 0; k < width; ++k)
      made.push_back(static_cast<double>(rows[static_cast<size_t>(link.first * width + k)]) *
                     rows[static_cast<size_t>(link.second * width + k)]);
    made.push_back(1);
    return made;
  };
  Regression regression(width + 1);
  for (const Link& link : known) regression.add(features(link), true);
  for (const Link& link : known_wrong) regression.add(features(link), false);
  regression.solve();
  LinkScores scores;
  for (const Link& link : asked) scores.right.push_back(regression.score(features(link)));
  for (const Link& link : asked_wrong) scores.wrong.push_back(regression.score(features(link)));
  return scores;
}

LinkScores product_link_scores(std::span<const float> rows, int64_t width, const std::vector<Link>& asked,
                               const std::vector<Link>& asked_wrong) {
  const auto score = [&](const Link& link) {
    double sum = 0;
    for (int64_t k = 0; k < width; ++k)
      sum += static_cast<double>(rows[static_cast<size_t>(link.first * width + k)]) *
             rows[static_cast<size_t>(link.second * width + k)];
    return sum;
  };
  LinkScores scores;
  for (const Link& link : asked) scores.right.push_back(score(link));
  for (const Link& link : asked_wrong) scores.wrong.push_back(score(link));
  return scores;
}

std::vector<Link> drawn_no_links(const GraphSet& set, int64_t count, uint64_t seed, uint64_t stream) {
  const std::vector<std::vector<int32_t>> near = near_nodes(set);
  const auto nodes = std::ssize(near);
  std::vector<int64_t> before{0};  // pairs (a, b) without an edge, whose a is lower than this node
  for (const auto& list : near) before.push_back(before.back() + nodes - std::ssize(list));
  if (before.back() == 0)
    throw Error({.what = "edges join all pairs of nodes, so there is no wrong link", .where = set.source()});
  const RandomStream random(seed, RandomPurpose::kSampling, 0, hash64("no links") + stream);
  std::vector<Link> links;
  for (int64_t i = 0; i < count; ++i) {
    const auto words = random.block(static_cast<uint64_t>(i));
    const uint64_t word = static_cast<uint64_t>(words[0]) << 32 | words[1];
    // The pair of this rank, so that nothing is drawn again. The bias of the remainder is below 2^-24.
    const auto rank = static_cast<int64_t>(word % static_cast<uint64_t>(before.back()));
    const auto first = std::upper_bound(before.begin(), before.end(), rank) - before.begin() - 1;
    int64_t second = rank - before[static_cast<size_t>(first)];
    for (const int32_t joined : near[static_cast<size_t>(first)]) second += joined <= second;
    links.emplace_back(static_cast<int32_t>(first), static_cast<int32_t>(second));
  }
  return links;
}

std::unique_ptr<Evaluator> make_link_evaluator(std::shared_ptr<const GraphSet> set, int64_t width, int64_t micro_batch,
                                               int64_t group, uint64_t seed) {
  if (!set->has("edge.split")) return nullptr;
  auto made = std::make_unique<LinkEvaluator>(std::move(set), width, micro_batch, group, seed);
  return made->any() ? std::move(made) : nullptr;
}

}  // namespace ramet::recipe
