#include "soak/drawn_case.h"

#include <algorithm>
#include <random>
#include <sstream>

#include "ramet/base/error.h"

namespace ramet::tests::soak {
namespace {

std::map<std::string, std::string> parse_settings(const std::string& text) {
  std::map<std::string, std::string> settings;
  std::istringstream stream(text);
  for (std::string setting; stream >> setting;) {
    const size_t equals = setting.find('=');
    if (equals == std::string::npos) throw Error({.what = "not a setting", .found = setting, .expected = "KEY=VALUE"});
    settings[setting.substr(0, equals)] = setting.substr(equals + 1);
  }
  return settings;
}

std::string text_of(const std::map<std::string, std::string>& settings) {
  std::string text;
  for (const auto& [key, value] : settings) text += (text.empty() ? "" : " ") + key + "=" + value;
  return text;
}

/// Draws one case.
class Drawer {
 public:
  Drawer(uint64_t seed, uint64_t number) : random_(seed * 1000003 + number) {
    for (int i = 0; i < 8; ++i) random_();
  }

  DrawnCase run() {
    draw_recipe();
    draw_model();
    draw_sparse();
    while (case_.layout.empty()) draw_layout();
    if (chance(20)) {
      std::swap(case_.layout, case_.second);
      while (case_.layout.empty()) draw_layout();
    }
    return std::move(case_);
  }

 private:
  uint64_t below(uint64_t bound) { return random_() % bound; }
  bool chance(uint64_t percent) { return below(100) < percent; }
  template <typename T>
  T one_of(const std::vector<T>& choices) {
    return choices[below(choices.size())];
  }
  int64_t number_of(const std::vector<int64_t>& choices) { return one_of(choices); }
  static bool is_power_of_two(int64_t n) { return n > 0 && (n & (n - 1)) == 0; }

  void set_model(const std::string& key, const std::string& value) {
    if (model_defaults().at(key) != value) case_.model.words[key] = value;
  }
  void set_model(const std::string& key, int64_t value) { set_model(key, std::to_string(value)); }

  void draw_recipe() {
    auto& recipe = case_.recipe;
    chunks_ = number_of({1, 2, 3, 4, 4, 4, 5, 6, 8, 8});
    lanes_ = number_of({1, 1, 2, 3, 4, 4, 4, 5, 6, 8});
    const int64_t each = number_of({1, 1, 2, 3});
    if (chunks_ > 1) recipe["train.chunks"] = std::to_string(chunks_);
    if (lanes_ > 1) recipe["train.lanes"] = std::to_string(lanes_);
    if (lanes_ * each > 1) recipe["train.accumulation"] = std::to_string(lanes_ * each);
    micro_batches_ = lanes_ * each;
    const std::string precision = one_of<std::string>({"f32", "bf16", "bf16", "f16"});
    if (precision != "f32") recipe["train.precision"] = precision;
    if (precision != "f32" && chance(40)) draw_held(precision);
    recipe["train.optimizer.kind"] = one_of<std::string>({"sgd", "adam", "adamw", "adamw", "lamb", "lars", "adafactor",
                                                          "lion", "rmsprop", "centered_rmsprop", "adagrad"});
    if (recipe["train.optimizer.kind"] == "sgd" && chance(60))
      recipe[chance(50) ? "train.optimizer.nesterov" : "train.optimizer.momentum"] = "0";
    if (recipe.count("train.optimizer.nesterov")) recipe["train.optimizer.nesterov"] = "true";
    if (chance(15)) recipe["train.optimizer.weight_decay"] = "0";
    if (chance(60))
      recipe["train.clip_norm"] = chance(50) ? "0.1" : "1";
    else if (micro_batches_ == 1 && chance(50))
      recipe["train.optimizer.in_backward"] = "true";
    if (chance(20))
      recipe["train.loss_scale"] = chance(50) && !recipe.count("train.optimizer.in_backward") ? "auto" : "64";
  }

  /// Weights, sums of gradients and moments in 16 bits.
  void draw_held(const std::string& precision) {
    std::vector<std::string> weights = {"f16", "bf16"};
    if (precision == "bf16") weights.push_back("split");
    case_.recipe["train.weights"] = one_of(weights);
    if (chance(40)) case_.recipe["train.accumulators"] = one_of<std::string>({"f16", "bf16"});
    if (chance(40)) case_.recipe["train.optimizer.state"] = one_of<std::string>({"f16", "bf16"});
  }

  /// A multiple of the recipe's chunks, mostly; else anything, which a layout must leave whole.
  int64_t extent(const std::vector<int64_t>& multiples, int64_t low, int64_t high) {
    if (chance(85)) return chunks_ * number_of(multiples);
    return low + static_cast<int64_t>(below(static_cast<uint64_t>(high - low)));
  }

  void draw_model() {
    set_model("batch", number_of({1, 2, 2, 3, 4}));
    set_model("sequence", std::max<int64_t>(2, extent({1, 2, 3}, 3, 13)));
    set_model("heads", chance(80) ? chunks_ : number_of({1, 2, 3, 4, 5, 6}));
    set_model("head_size", number_of({2, 4, 4, 5, 8}));
    set_model("inner", extent({2, 4, 5}, 5, 40));
    set_model("vocabulary", extent({4, 7, 16}, 9, 70));
    if (chance(25)) {
      const int64_t vocabulary = std::stoll(case_.model.word("vocabulary"));
      set_model("padding", chance(70) ? chunks_ - vocabulary % chunks_ : 1 + static_cast<int64_t>(below(9)));
    }
    if (chance(50)) set_model("dropout", 10);
    if (chance(20)) set_model("axes", 1 + static_cast<int64_t>(below(1000)));
    set_model("input", one_of(input_names()));
    set_model("head", one_of(head_names()));
    const std::vector<std::string> names = block_names();
    const std::vector<std::string> usual = {"attention", "causal", "masked", "apart", "mlp", "mlp_after", "gated"};
    const size_t layers = 1 + below(chance(70) ? 4 : 7);
    const bool alike = chance(30);
    for (size_t i = 0; i < layers; ++i) {
      std::vector<std::string> layer;
      for (size_t b = 0, count = 1 + below(3); b < count; ++b)
        layer.push_back(chance(40) ? one_of(usual) : one_of(names));
      case_.model.layers.push_back(alike && i > 0 ? case_.model.layers[0] : layer);
    }
    // A memory goes from each micro-batch to the next: one lane, and no step is skipped.
    if (case_.model.has_block("memory")) {
      case_.recipe.erase("train.lanes");
      if (case_.recipe["train.loss_scale"] == "auto" || case_.recipe["train.loss_scale"].empty())
        case_.recipe.erase("train.loss_scale");
      lanes_ = 1;
    }
    // One weight for all is for models that lie on one stage: most cases with it would be refused.
    const bool keep_shared = chance(20);
    for (auto& layer : case_.model.layers)
      for (auto& block : layer)
        if (block == "shared" && !keep_shared) block = "mlp";
  }

  /// Sparse weights, of which most change their patterns while they train.
  void draw_sparse() {
    if (!chance(25)) return;
    set_model("density", number_of({20, 40, 60}));
    set_model("block", number_of({1, 1, 2, 4}));
    set_model("cells", chance(70) ? chunks_ : number_of({1, 2}));
    if (case_.recipe.at("train.optimizer.kind") == "adafactor" || !chance(70)) return;
    set_model("every", number_of({1, 2}));
    const auto precision = case_.recipe.find("train.precision");
    const bool f16 = precision != case_.recipe.end() && precision->second == "f16";
    if (chance(40) && !f16 && !case_.model.has_block("memory")) set_model("regrow", "gradient");
  }

  /// Numbers that `whole` may be cut into, each part a power of two.
  std::vector<int64_t> parts_of(int64_t whole) const {
    std::vector<int64_t> parts;
    for (int64_t n = 1; n <= whole; ++n)
      if (whole % n == 0 && (n == 1 || is_power_of_two(whole / n))) parts.push_back(n);
    return parts;
  }

  void draw_layout() {
    auto& layout = case_.layout;
    const auto layers = static_cast<int64_t>(case_.model.layers.size());
    const int64_t most = chance(80) ? 8 : 16;
    int64_t devices = 1;
    const auto take = [&](std::vector<int64_t> choices, uint64_t percent) {
      std::erase_if(choices, [&](int64_t n) { return devices * n > most; });
      const int64_t taken = choices.empty() || !chance(percent) ? 1 : number_of(choices);
      devices *= taken;
      return taken;
    };
    std::vector<int64_t> stages;
    for (int64_t n = 1; n <= layers; ++n) stages.push_back(n);
    // In an order of its own each time, since the first takes most of the devices.
    int64_t p = 1, t1 = 1, t2 = 1, r = 1;
    std::vector<int> order = {0, 1, 2, 3};
    for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[below(i)]);
    for (const int axis : order) {
      if (axis == 0) p = take(stages, 55);
      if (axis == 1) t1 = take(parts_of(chunks_), 55);
      if (axis == 2) t2 = take(parts_of(chunks_), 25);
      if (axis == 3) r = take(parts_of(lanes_), 55);
    }
    if (p > 1) layout["p"] = std::to_string(p);
    if (t1 * t2 > 1) layout["t"] = t2 > 1 ? std::to_string(t1) + "x" + std::to_string(t2) : std::to_string(t1);
    if (r > 1) layout["r"] = std::to_string(r);
    if (t1 > 1 && chance(35) && std::stoll(case_.model.word("sequence")) % chunks_ == 0) layout["sequence"] = "true";
    draw_order(p, layers);
    if (r > 1 && chance(60)) draw_rts(r);
    if (chance(40)) draw_offload();
    if (chance(40)) draw_recompute(layers);
    if (chance(10)) layout["threads"] = "2";
    if (chance(5)) layout["device_memory"] = chance(80) ? "64MiB" : "100KiB";
  }

  /// Phases or a schedule, and where layers and head lie.
  void draw_order(int64_t p, int64_t layers) {
    auto& layout = case_.layout;
    const int64_t each = layers / p;
    int64_t parts = 1;
    if (each > 1 && chance(45)) {
      parts = 2 + static_cast<int64_t>(below(static_cast<uint64_t>(each - 1)));
      if (p > 1 && chance(50))
        layout["schedule"] = "interleaved:" + std::to_string(parts);
      else
        layout["phases"] = std::to_string(parts);
    }
    if (!layout.count("schedule") && p > 1 && chance(50))
      layout["schedule"] =
          layout.count("phases") || chance(50) ? one_of<std::string>({"gpipe", "1f1b"}) : "zero-bubble";
    if (p > 1 && chance(40)) layout["head"] = one_of<std::string>({"first", "last"});
    if (p * parts > 1 && chance(25)) {
      std::vector<int64_t> counts(static_cast<size_t>(p * parts), 1);
      // The outer ones may do without a layer.
      if (chance(30)) counts.front() = 0;
      if (chance(30)) counts.back() = 0;
      int64_t left = layers;
      for (const int64_t count : counts) left -= count;
      for (; left > 0; --left) ++counts[below(counts.size())];
      std::string text;
      for (const int64_t count : counts) text += (text.empty() ? "" : "+") + std::to_string(count);
      layout["layers"] = text;
    }
  }

  void draw_rts(int64_t r) {
    std::string text;
    std::vector<int64_t> groups;
    for (int64_t n = 2; n <= r; ++n)
      if (r % n == 0) groups.push_back(n);
    for (const char* kind : {"weights", "grads", "optimizer"}) {
      if (!chance(60)) continue;
      text += (text.empty() ? "" : ",") + std::string(kind);
      const int64_t group = number_of(groups);
      const bool fits = std::string(kind) != "grads" || is_power_of_two(group) || group == r;
      if (chance(40) && (fits || chance(10))) text += ":" + std::to_string(group);
    }
    if (!text.empty()) case_.layout["rts"] = text;
  }

  void draw_offload() {
    std::string text;
    for (const char* kind : {"weights", "grads", "optimizer", "activations"})
      if (chance(50)) text += (text.empty() ? "" : ",") + std::string(kind);
    if (text.empty()) return;
    case_.layout["offload"] = text;
    if (chance(25)) case_.layout["streaming"] = "FILES";
  }

  void draw_recompute(int64_t layers) {
    std::string mode = one_of<std::string>({"none", "cheap", "layer", "all", "fit:", "layer:"});
    if (mode == "fit:") mode += one_of<std::string>({"200KiB", "1MiB", "1GiB"});
    if (mode == "layer:") mode += std::to_string(below(static_cast<uint64_t>(layers)));
    case_.layout["recompute"] = mode;
  }

  std::mt19937_64 random_;
  DrawnCase case_;
  int64_t chunks_ = 1, lanes_ = 1, micro_batches_ = 1;
};

/// Cases that are a step smaller, the greatest steps first.
std::vector<DrawnCase> smaller(const DrawnCase& given) {
  std::vector<DrawnCase> cases;
  const auto with = [&](const auto& change) {
    DrawnCase other = given;
    change(other);
    cases.push_back(std::move(other));
  };
  if (!given.second.empty()) {
    with([&](DrawnCase& c) { c.second.clear(); });
    with([&](DrawnCase& c) { c.layout = std::move(c.second), c.second.clear(); });
  }
  for (const auto& [key, value] : given.second) with([&](DrawnCase& c) { c.second.erase(key); });
  for (const auto& [key, value] : given.layout) with([&](DrawnCase& c) { c.layout.erase(key); });
  for (const char* key : {"offload", "rts"}) {
    const auto found = given.layout.find(key);
    if (found == given.layout.end()) continue;
    for (size_t comma = found->second.find(','); comma != std::string::npos;
         comma = found->second.find(',', comma + 1)) {
      with([&](DrawnCase& c) { c.layout[key] = found->second.substr(0, comma); });
      with([&](DrawnCase& c) { c.layout[key] = found->second.substr(comma + 1); });
    }
  }
  if (given.layout.count("t"))
    for (const char* less : {"2", "1x2"})
      if (given.layout.at("t") != less) with([&](DrawnCase& c) { c.layout["t"] = less; });
  for (const char* key : {"p", "r", "phases"})
    if (given.layout.count(key) && given.layout.at(key) != "2") with([&](DrawnCase& c) { c.layout[key] = "2"; });
  for (size_t i = 0; i < given.model.layers.size(); ++i) {
    if (given.model.layers.size() > 1)
      with([&](DrawnCase& c) { c.model.layers.erase(c.model.layers.begin() + static_cast<int64_t>(i)); });
    for (size_t b = 0; b < given.model.layers[i].size(); ++b) {
      if (given.model.layers[i].size() > 1)
        with([&](DrawnCase& c) { c.model.layers[i].erase(c.model.layers[i].begin() + static_cast<int64_t>(b)); });
      if (given.model.layers[i][b] != "odd") with([&](DrawnCase& c) { c.model.layers[i][b] = "odd"; });
    }
  }
  for (const auto& [key, value] : given.recipe) with([&](DrawnCase& c) { c.recipe.erase(key); });
  for (const auto& [key, value] : given.model.words) with([&](DrawnCase& c) { c.model.words.erase(key); });
  return cases;
}

}  // namespace

DrawnCase DrawnCase::draw(uint64_t seed, uint64_t number) { return Drawer(seed, number).run(); }

DrawnCase DrawnCase::parse(const std::string& text) {
  std::vector<std::string> parts(1);
  for (const char c : text) {
    if (c == '|')
      parts.emplace_back();
    else
      parts.back() += c;
  }
  if (parts.size() != 3 && parts.size() != 4)
    throw Error({.what = "not a case", .found = text, .expected = "MODEL | RECIPE | LAYOUT, and perhaps | LAYOUT"});
  parts.resize(4);
  return {DrawnModel::parse(parts[0]), parse_settings(parts[1]), parse_settings(parts[2]), parse_settings(parts[3])};
}

std::string DrawnCase::text() const {
  return model.text() + " | " + text_of(recipe) + " | " + text_of(layout) +
         (second.empty() ? "" : " | " + text_of(second));
}

DrawnCase shrink(DrawnCase wrong, const std::function<bool(const DrawnCase&)>& is_wrong) {
  constexpr int kMostTrials = 400;
  for (int trials = 0;;) {
    bool smaller_found = false;
    for (DrawnCase& candidate : smaller(wrong)) {
      if (++trials > kMostTrials) return wrong;
      if (!is_wrong(candidate)) continue;
      wrong = std::move(candidate);
      smaller_found = true;
      break;
    }
    if (!smaller_found) return wrong;
  }
}

}  // namespace ramet::tests::soak
