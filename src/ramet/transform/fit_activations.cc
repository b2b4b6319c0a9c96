#include "ramet/transform/fit_activations.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <tuple>

#include "ramet/transform/layers.h"

namespace ramet::transform {

double Rates::seconds(const Cost& cost) const {
  return std::max(cost.flops / flops, static_cast<double>(cost.bytes_read + cost.bytes_written) / bandwidth);
}

namespace {

constexpr size_t kLevels = 3;
constexpr size_t level_index(RecomputeLevel level) { return static_cast<size_t>(level); }

/// What a layer can do, in the order in which layers of a stage do it.
constexpr std::array<LayerActivations, 6> kKinds = {{{RecomputeLevel::kNone, false, true},
                                                     {RecomputeLevel::kCheap, false, true},
                                                     {RecomputeLevel::kLayer, false, true},
                                                     {RecomputeLevel::kLayer, false, false},
                                                     {RecomputeLevel::kCheap, false, false},
                                                     {RecomputeLevel::kNone, false, false}}};
constexpr uint8_t kFirstResident = 3, kRecompute = 3, kKeep = 5;

/// What one layer, or what follows the layers, costs in a micro-batch.
struct Unit {
  double compute = 0;                      ///< seconds of both passes, where nothing is recomputed
  std::array<double, kLevels> again{};     ///< seconds of the nodes recomputed at each level
  std::array<int64_t, kLevels> waiting{};  ///< bytes that wait for the backward pass at each level
};

std::vector<bool> backward_nodes(const Graph& micro) {
  std::vector<bool> backward;
  for (const Node& node : micro.nodes())
    backward.push_back(node.pass == NodePass::kBackward || node.pass == NodePass::kRecompute);
  return backward;
}

/// Adds the bytes that forward nodes make and backward nodes read to the layers in whose backward pass they are read
/// first.
void add_waiting(const Graph& micro, size_t level, std::vector<Unit>& units) {
  const std::vector<bool> backward = backward_nodes(micro);
  const std::vector<int> layers = backward_layers(micro, LayerOrder(micro), backward);
  const auto uses = micro.uses();
  for (size_t n = 0; n < backward.size(); ++n) {
    const Node& node = micro.nodes()[n];
    if (backward[n] || node.inputs.empty()) continue;
    for (ValueId output : node.outputs) {
      NodeId first = kNoNode;
      for (NodeId user : uses[static_cast<size_t>(output)])
        if (backward[static_cast<size_t>(user)] && (first == kNoNode || user < first)) first = user;
      if (first != kNoNode)
        units[static_cast<size_t>(layers[static_cast<size_t>(first)])].waiting[level] += micro.type(output).bytes();
    }
  }
}

ActivationChoices uniform_choices(size_t units, uint8_t kind) {
  ActivationChoices choices(units, kKinds[kind]);
  choices.back().recompute = RecomputeLevel::kNone;
  return choices;
}

std::vector<Unit> measure_units(const StepGraph& step, const Rates& rates, size_t count) {
  std::vector<Unit> units(count);
  for (size_t level = 0; level < kLevels; ++level) {
    ActivationChoices choices(count, {static_cast<RecomputeLevel>(level), false, false});
    const Graph micro = recompute(step, choices).micro;
    add_waiting(micro, level, units);
    const LayerOrder order(micro);
    const std::vector<int> layers = backward_layers(micro, order, backward_nodes(micro));
    int forward = 0;
    for (size_t n = 0; n < layers.size(); ++n) {
      const Node& node = micro.nodes()[n];
      const double seconds = rates.seconds(node.op->cost(micro.signature(static_cast<NodeId>(n))));
      if (layers[n] < 0) {
        const int own = order.index_of(node.part);
        forward = own >= 0 ? own : forward + 1 == static_cast<int>(count) - 1 ? forward + 1 : forward;
      }
      Unit& unit = units[static_cast<size_t>(layers[n] < 0 ? forward : layers[n])];
      if (node.pass == NodePass::kRecompute)
        unit.again[level] += seconds;
      else if (level == 0)
        unit.compute += seconds;
    }
  }
  return units;
}

/// What one stage's layers do, by kind, and what that is expected to need and to cost.
struct Mixture {
  std::vector<uint8_t> kinds;
  double seconds = 0, bytes = 0;
};

/// One stage, its layers, and the front of mixtures that are worth a try, the fastest first.
class StageFit {
 public:
  StageFit(std::vector<size_t> members, const std::vector<Unit>& units, const FitProblem& problem)
      : members_(std::move(members)),
        units_(units),
        problem_(problem),
        first_kind_(problem.may_stream ? 0 : kFirstResident),
        limit_(problem.byte_limit) {
    choice_.kinds.assign(members_.size(), kKeep);
    for (size_t member : members_) compute_ += units_[member].compute;
    if (std::isfinite(problem_.time_share)) most_seconds_ = problem_.time_share * compute_;
  }

  /// Peak of choices in which all layers do the same.
  void note_uniform(uint8_t kind, int64_t peak) {
    uniform_[kind] = static_cast<double>(peak);
    // With a limit to the time, what is smaller must be worth it, which the front says.
    if (kind == kKeep || std::isinf(most_seconds_)) note(mixture_of(std::vector<uint8_t>(members_.size(), kind)), peak);
  }

  /// The first mixture to be tried, or none when the stage fits as it is.
  void begin() {
    resolved_ = best_fits_ && choice_.seconds <= 0;
    if (resolved_) return;
    find_front();
    resolved_ = front_.size() < 2;  // a limit to the time may leave only what keeps everything
    if (resolved_) return;
    low_ = 0;
    high_ = front_.size();
    at_ = static_cast<size_t>(
        std::find_if(front_.begin(), front_.end(),
                     [&](const Mixture& each) { return each.bytes <= static_cast<double>(limit_); }) -
        front_.begin());
    at_ = std::clamp<size_t>(at_, 1, front_.size() - 1);
  }

  bool resolved() const { return resolved_; }
  /// The stage's choice in the next trial: the current one, or a new one to try.
  const std::vector<uint8_t>& kinds() const { return resolved_ ? choice_.kinds : front_[at_].kinds; }
  const std::vector<size_t>& members() const { return members_; }
  /// The best choice so far becomes the stage's choice.
  void end() { resolved_ = true; }

  /// The stage's peak in the trial.
  void tell(int64_t peak) {
    if (resolved_) return;
    note(front_[at_], peak);
    (peak <= limit_ ? high_ : low_) = at_;
    next();
  }

  /// The choice needs this much beside the other stages' choices.
  void tell_choice(int64_t peak) {
    choice_peak_ = peak;
    best_fits_ = peak <= limit_;
    if (best_fits_ || front_.empty()) return;
    const auto slower =
        std::find_if(front_.begin(), front_.end(), [&](const Mixture& each) { return each.seconds > choice_.seconds; });
    const size_t step = std::max<size_t>(1, front_.size() / 32);
    if (slower != front_.end())
      choice_ = front_[std::min(front_.size() - 1, static_cast<size_t>(slower - front_.begin()) + step - 1)];
  }

 private:
  Mixture mixture_of(std::vector<uint8_t> kinds) const {
    const double streaming = problem_.to_files ? problem_.rates.files : problem_.rates.bandwidth / 2;
    double again = 0, streamed = 0, compute = 0, bytes = uniform_[kKeep];
    for (size_t i = 0; i < kinds.size(); ++i) {
      const Unit& unit = units_[members_[i]];
      const LayerActivations& kind = kKinds[kinds[i]];
      again += unit.again[level_index(kind.recompute)];
      compute += unit.compute;
      if (kind.stream) streamed += 2 * static_cast<double>(unit.waiting[level_index(kind.recompute)]) / streaming;
      bytes -= (uniform_[kKeep] - uniform_[kinds[i]]) * share_of(i, kinds[i]);
    }
    // A transfer beside the work costs the time that it takes longer than the work, and a little because it slows the
    // work down.
    constexpr double kInTheWay = 0.01;
    const double waits =
        problem_.to_files ? std::max(0.0, streamed - compute - again) + kInTheWay * streamed : streamed;
    return {std::move(kinds), again + waits, bytes};
  }

  /// Of what all members save when they do the same, the part that one of them saves.
  double share_of(size_t i, uint8_t kind) const {
    const auto saved = [&](size_t member) {
      const Unit& unit = units_[member];
      const int64_t left = kKinds[kind].stream ? 0 : unit.waiting[level_index(kKinds[kind].recompute)];
      return static_cast<double>(std::max<int64_t>(0, unit.waiting[0] - left));
    };
    double all = 0;
    for (size_t member : members_) all += saved(member);
    return all > 0 ? saved(members_[i]) / all : 1 / static_cast<double>(members_.size());
  }

  /// All mixtures of at most three kinds; of these the fastest of each size.
  void find_front() {
    const size_t n = members_.size();
    std::vector<Mixture> all;
    for (uint8_t a = first_kind_; a <= kKeep; ++a)
      for (uint8_t b = static_cast<uint8_t>(a + 1); b <= kKeep; ++b)
        for (uint8_t c = static_cast<uint8_t>(b + 1); c <= kKeep; ++c)
          for (size_t i = 0; i <= n; ++i)
            for (size_t j = i; j <= n; ++j) {
              std::vector<uint8_t> kinds(n, c);
              std::fill_n(kinds.begin(), i, a);
              std::fill(kinds.begin() + static_cast<std::ptrdiff_t>(i), kinds.begin() + static_cast<std::ptrdiff_t>(j),
                        b);
              Mixture mixture = mixture_of(std::move(kinds));
              if (mixture.seconds <= most_seconds_) all.push_back(std::move(mixture));
            }
    std::stable_sort(all.begin(), all.end(), [](const Mixture& a, const Mixture& b) {
      return std::tie(a.seconds, a.bytes) < std::tie(b.seconds, b.bytes);
    });
    for (Mixture& each : all)
      if (front_.empty() || (each.bytes < front_.back().bytes && is_worth(front_.back(), each)))
        front_.push_back(std::move(each));
  }

  /// Whether a smaller mixture saves enough of the memory for what it adds to the time, where there is a limit to that.
  bool is_worth(const Mixture& from, const Mixture& to) const {
    constexpr double kMostForMemory = 2;                     // shares of the time for a share of the memory
    constexpr double kNear = 1.0625, kLeastForMemory = 0.5;  // the same closer to the limit than kNear times
    if (!std::isfinite(most_seconds_)) return true;
    const double price = from.bytes > kNear * static_cast<double>(limit_) ? kMostForMemory : kLeastForMemory;
    return (to.seconds - from.seconds) / compute_ <= price * (from.bytes - to.bytes) / uniform_[kKeep];
  }

  void note(const Mixture& tried, int64_t peak) {
    if (tried.seconds > most_seconds_) return;
    const bool fits = peak <= limit_;
    const bool better = choice_peak_ == INT64_MAX || (fits && !best_fits_) ||
                        (fits == best_fits_ && (fits ? tried.seconds < choice_.seconds : peak < choice_peak_));
    if (!better) return;
    choice_ = tried;
    choice_peak_ = peak;
    best_fits_ = fits;
  }

  void next() {
    constexpr double kClose = 0.005;  // of the stage's time: not worth another trial
    const bool known = high_ < front_.size();
    resolved_ = high_ - low_ <= 1 || (known && front_[high_].seconds - front_[low_].seconds < kClose * compute_);
    if (resolved_) return;
    if (!known)
      at_ = std::min(front_.size() - 1, low_ + stride_);
    else if (low_ == 0 && high_ > stride_)
      at_ = high_ - stride_;
    else
      at_ = (low_ + high_) / 2;
    stride_ *= 2;
  }

  const std::vector<size_t> members_;
  const std::vector<Unit>& units_;
  const FitProblem& problem_;
  const uint8_t first_kind_;
  const int64_t limit_;
  double compute_ = 0;  ///< seconds of both passes, where nothing is recomputed
  double most_seconds_ = std::numeric_limits<double>::infinity();  ///< that a mixture may cost
  std::array<double, kKinds.size()> uniform_{};
  std::vector<Mixture> front_;
  Mixture choice_;  ///< the fastest that fits, else the smallest
  int64_t choice_peak_ = INT64_MAX;
  bool best_fits_ = false, resolved_ = true;
  size_t low_ = 0, high_ = 0;  ///< does not fit, fits (or the front's size: not known)
  size_t at_ = 0, stride_ = 1;
};

class Fit {
 public:
  Fit(const StepGraph& step, const FitProblem& problem)
      : step_(step),
        problem_(problem),
        count_(problem.stage_of.size()),
        first_kind_(problem.may_stream ? 0 : kFirstResident) {}

  ActivationChoices run() {
    const std::vector<int64_t> kept = peaks(uniform_choices(count_, kKeep));
    if (most(kept) <= problem_.byte_limit) return uniform_choices(count_, kKeep);
    units_ = measure_units(step_, problem_.rates, count_);
    for (size_t s = 0; s < kept.size(); ++s) {
      std::vector<size_t> members;
      for (size_t unit = 0; unit < count_; ++unit)
        if (problem_.stage_of[unit] == static_cast<int>(s)) members.push_back(unit);
      stages_.emplace_back(std::move(members), units_, problem_);
      stages_.back().note_uniform(kKeep, kept[s]);
    }
    for (uint8_t kind = first_kind_; kind < kKeep; ++kind) {
      const std::vector<int64_t> found = peaks(uniform_choices(count_, kind));
      for (size_t s = 0; s < stages_.size(); ++s) stages_[s].note_uniform(kind, found[s]);
      if (kind == kRecompute) recomputed_peak_ = most(found);
    }
    search();
    settle();
    return std::isfinite(problem_.time_share) ? combined() : last_resort();
  }

 private:
  static int64_t most(const std::vector<int64_t>& peaks) { return *std::max_element(peaks.begin(), peaks.end()); }
  std::vector<int64_t> peaks(const ActivationChoices& choices) const {
    return problem_.peaks(recompute(step_, choices), choices);
  }

  ActivationChoices combined() const {
    ActivationChoices choices(count_);
    for (const StageFit& stage : stages_)
      for (size_t i = 0; i < stage.members().size(); ++i) choices[stage.members()[i]] = kKinds[stage.kinds()[i]];
    choices.back().recompute = RecomputeLevel::kNone;
    return choices;
  }

  /// Each stage along its front, all in the same trials.
  void search() {
    constexpr int kTrials = 10;
    for (StageFit& stage : stages_) stage.begin();
    const auto open = [](const StageFit& stage) { return !stage.resolved(); };
    for (int trial = 0; trial < kTrials && std::any_of(stages_.begin(), stages_.end(), open); ++trial) {
      const std::vector<int64_t> found = peaks(combined());
      for (size_t s = 0; s < stages_.size(); ++s) stages_[s].tell(found[s]);
    }
    for (StageFit& stage : stages_) stage.end();
  }

  /// The memory of a stage depends a little on the choices of its neighbours.
  void settle() {
    constexpr int kTrials = 4;
    ActivationChoices tried;
    for (int trial = 0; trial < kTrials; ++trial) {
      ActivationChoices choices = combined();
      if (choices == tried) return;
      const std::vector<int64_t> found = peaks(choices);
      tried = std::move(choices);
      for (size_t s = 0; s < stages_.size(); ++s) stages_[s].tell_choice(found[s]);
      last_peak_ = most(found);
      if (last_peak_ <= problem_.byte_limit) return;
    }
  }

  /// For one device: layers' inputs are dropped too, of every layer but some at equal distances, or of those whose
  /// inputs are the largest.
  ActivationChoices last_resort() const {
    ActivationChoices best = combined();
    if (last_peak_ <= problem_.byte_limit || problem_.in_parts) return best;
    int64_t least = last_peak_;
    const auto consider = [&](const ActivationChoices& choices) {
      const int64_t peak = most(peaks(choices));
      if (peak < least) least = peak, best = choices;
      return peak;
    };
    RecomputeOptions all;
    all.mode = RecomputeOptions::Mode::kAll;
    consider(choose_activations(all, count_ - 1));
    drop_largest(uniform_choices(count_, kRecompute), consider);
    return best;
  }

  /// Drops the largest inputs, each if that makes the peak smaller.
  template <typename Consider>
  void drop_largest(ActivationChoices choices, Consider consider) const {
    constexpr size_t kTrials = 8;
    const auto bytes = [&](size_t layer) { return units_[layer].waiting[level_index(RecomputeLevel::kLayer)]; };
    std::vector<size_t> layers;  // the first has no layer before it that its inputs could be computed from
    for (size_t layer = 1; layer + 1 < count_; ++layer) layers.push_back(layer);
    std::stable_sort(layers.begin(), layers.end(), [&](size_t a, size_t b) { return bytes(a) > bytes(b); });
    if (layers.size() > kTrials) layers.resize(kTrials);
    int64_t peak = recomputed_peak_;
    for (const size_t layer : layers) {
      choices[layer].drop_input = true;
      const int64_t with = consider(choices);
      choices[layer].drop_input = with < peak;
      peak = std::min(peak, with);
    }
  }

  const StepGraph& step_;
  const FitProblem& problem_;
  const size_t count_;
  const uint8_t first_kind_;
  std::vector<Unit> units_;
  std::vector<StageFit> stages_;
  int64_t last_peak_ = INT64_MAX;
  int64_t recomputed_peak_ = INT64_MAX;  ///< where every layer is recomputed, and nothing streams
};

}  // namespace

ActivationChoices fit_activations(const StepGraph& step, const FitProblem& problem) {
  if (problem.stage_of.size() <= 1) return ActivationChoices(problem.stage_of.size());
  return Fit(step, problem).run();
}

std::string text_of(const ActivationChoices& choices) {
  const auto word = [](const LayerActivations& layer) -> std::string {
    const char* const words[] = {"keep", "recompute cheap", "recompute"};
    const std::string again = words[static_cast<size_t>(layer.recompute)];
    if (!layer.stream) return layer.drop_input ? again + " from the layer before" : again;
    return layer.recompute == RecomputeLevel::kNone ? "stream" : again + " and stream";
  };
  std::string text, last;
  for (size_t from = 0, to = 0; from + 1 < choices.size(); from = to) {
    while (to + 1 < choices.size() && word(choices[to]) == word(choices[from])) ++to;
    text += (from > 0 ? ", " : "") + (last = word(choices[from])) + (to - from > 1 ? " layers " : " layer ") +
            std::to_string(from) + (to - from > 1 ? "-" + std::to_string(to - 1) : "");
  }
  if (choices.empty()) return text;
  const std::string head = word(choices.back());
  return text + (text.empty() ? head + " all" : head == last ? " and the head" : ", " + head + " the head");
}

}  // namespace ramet::transform
