#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <set>

#include "ramet/base/error.h"
#include "ramet/base/file.h"
#include "ramet/base/words.h"
#include "ramet/layout/layout.h"

namespace ramet::layout {
namespace {

constexpr int64_t kMostParts = 1 << 20;  // devices of a layout; phases, layers: more is a slip of the keyboard
constexpr size_t kMostText = 64 << 10;
constexpr int kWholeAxis = -1;  // "rts=weights": among all replicas, known once r is

constexpr std::array<std::string_view, 4> kScheduleNames = {"gpipe", "1f1b", "interleaved", "zero-bubble"};

/// The value of one key, and how its errors begin.
struct LayoutValue {
  std::string_view text;
  const LayoutSetting& setting;

  [[noreturn]] void refuse(const std::string& what, const std::string& expected, const std::string& remedy = "") const {
    throw Error({.what = what,
                 .where = setting.where,
                 .found = "'" + setting.value.substr(0, 100) + "'",
                 .expected = expected,
                 .remedy = remedy});
  }
  LayoutValue part(std::string_view sub) const { return {sub, setting}; }

  int64_t number(int64_t low, int64_t high, const std::string& expected) const {
    int64_t value = 0;
    const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (text.empty() || status == std::errc::invalid_argument || end != text.data() + text.size())
      refuse("not a whole number", expected);
    if (status != std::errc() || value < low || value > high) refuse("out of range", expected);
    return value;
  }
  int count(const std::string& what = "a whole number") const {
    return static_cast<int>(number(1, kMostParts, what + " from 1 to " + std::to_string(kMostParts)));
  }
};

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (size_t begin = 0;;) {
    const size_t end = std::min(text.find(separator, begin), text.size());
    parts.push_back(text.substr(begin, end - begin));
    if (end == text.size()) return parts;
    begin = end + 1;
  }
}

/// `value` in the largest unit that leaves it whole: "1GiB", "1536MiB", "1000".
std::string exact_size(int64_t value) {
  constexpr std::array<const char*, 5> kUnits = {"", "KiB", "MiB", "GiB", "TiB"};
  size_t unit = 0;
  for (; value != 0 && value % 1024 == 0 && unit + 1 < kUnits.size(); ++unit) value /= 1024;
  return std::to_string(value) + kUnits[unit];
}

int64_t size_of(const LayoutValue& value) {
  try {
    return parse_size(value.text);
  } catch (const Error& error) {
    value.refuse(error.parts().what, error.parts().expected);
  }
}

std::string text_of(const RecomputeOptions& options) {
  using Mode = RecomputeOptions::Mode;
  switch (options.mode) {
    case Mode::kNone: return "none";
    case Mode::kCheap: return "cheap";
    case Mode::kAll: return "all";
    case Mode::kFit: return "fit:" + exact_size(options.byte_limit);
    case Mode::kLayers: break;
  }
  std::string text = "layer";
  for (size_t i = 0; i < options.layers.size(); ++i) text += (i == 0 ? ":" : ",") + std::to_string(options.layers[i]);
  return text;
}

void read_tensor(Layout& layout, const LayoutValue& value) {
  const auto sides = split(value.text, 'x');
  if (sides.size() > 2) value.refuse("more than two sides", "T or T1xT2, as 4 or 2x2");
  layout.t1 = value.part(sides[0]).count("T or T1xT2, as 4 or 2x2, each");
  layout.t2 = sides.size() < 2 ? 1 : value.part(sides[1]).count("T or T1xT2, as 4 or 2x2, each");
}

void read_deal(Layout& layout, const LayoutValue& value) {
  const std::string expected = "order, near, random:SEED or the numbers of all clusters, as 0+3+1+2";
  const size_t colon = std::min(value.text.find(':'), value.text.size());
  if (value.text.substr(0, colon) == "random" && colon < value.text.size())
    value.part(value.text.substr(colon + 1)).number(0, INT32_MAX, "random:SEED, a seed from 0,");
  else if (value.text != "order" && value.text != "near")
    for (const auto part : split(value.text, '+')) value.part(part).number(0, kMostParts, expected);
  layout.deal = value.text;
}

std::string print_tensor(const Layout& layout) {
  return layout.t2 == 1 ? std::to_string(layout.t1) : std::to_string(layout.t1) + "x" + std::to_string(layout.t2);
}

constexpr const char* kRtsSyntax = "none, or some of weights, grads and optimizer, each with its group as in weights:2";

void read_rts(Layout& layout, const LayoutValue& value) {
  layout.rts = {};
  if (value.text == "none") return;
  for (const auto item : split(value.text, ',')) {
    const size_t colon = std::min(item.find(':'), item.size());
    const auto name = item.substr(0, colon);
    int* group = name == "weights"     ? &layout.rts.weights
                 : name == "grads"     ? &layout.rts.grads
                 : name == "optimizer" ? &layout.rts.optimizer
                                       : nullptr;
    if (!group) value.refuse("unknown kind of tensor", kRtsSyntax);
    if (*group != 0) value.refuse("'" + std::string(name) + "' stands twice", kRtsSyntax);
    *group = colon == item.size() ? kWholeAxis : value.part(item.substr(colon + 1)).count("a group's size,");
  }
}

std::string print_rts(const Layout& layout) {
  std::string text;
  const auto add = [&](const char* name, int group) {
    if (group == 0) return;
    text += (text.empty() ? "" : ",") + std::string(name) + (group == layout.r ? "" : ":" + std::to_string(group));
  };
  add("weights", layout.rts.weights), add("grads", layout.rts.grads), add("optimizer", layout.rts.optimizer);
  return text.empty() ? "none" : text;
}

constexpr const char* kOffloadSyntax = "none, or some of weights, grads, optimizer, activations and rows";

void read_offload(Layout& layout, const LayoutValue& value) {
  layout.offload = {};
  if (value.text == "none") return;
  for (const auto name : split(value.text, ',')) {
    bool* kind = name == "weights"       ? &layout.offload.weights
                 : name == "grads"       ? &layout.offload.grads
                 : name == "optimizer"   ? &layout.offload.optimizer
                 : name == "activations" ? &layout.offload.activations
                 : name == "rows"        ? &layout.offload.rows
                                         : nullptr;
    if (!kind) value.refuse("unknown kind of tensor", kOffloadSyntax);
    if (*kind) value.refuse("'" + std::string(name) + "' stands twice", kOffloadSyntax);
    *kind = true;
  }
}

std::string print_offload(const Layout& layout) {
  std::string text;
  const auto add = [&](const char* name, bool kind) {
    if (kind) text += (text.empty() ? "" : ",") + std::string(name);
  };
  add("weights", layout.offload.weights), add("grads", layout.offload.grads);
  add("optimizer", layout.offload.optimizer), add("activations", layout.offload.activations);
  add("rows", layout.offload.rows);
  return text.empty() ? "none" : text;
}

void read_schedule(Layout& layout, const LayoutValue& value) {
  const char* const expected = "gpipe, 1f1b, interleaved:V (V parts of the model a device) or zero-bubble";
  const size_t colon = std::min(value.text.find(':'), value.text.size());
  const auto found = std::find(kScheduleNames.begin(), kScheduleNames.end(), value.text.substr(0, colon));
  if (found == kScheduleNames.end()) value.refuse("unknown schedule", expected);
  layout.schedule = static_cast<PipelineSchedule>(found - kScheduleNames.begin());
  const bool interleaved = layout.schedule == PipelineSchedule::kInterleaved;
  if (interleaved != (colon != value.text.size()))
    value.refuse(
        interleaved ? "says not how many parts of the model a device holds" : "only interleaved takes a number",
        expected);
  layout.interleave = interleaved ? value.part(value.text.substr(colon + 1)).count("parts of the model a device,") : 1;
  if (interleaved && layout.interleave == 1)
    value.refuse("one part a device is not interleaved", "interleaved:2 or more, or 1f1b");
}

std::string print_schedule(const Layout& layout) {
  const std::string name(name_of(layout.schedule));
  return layout.schedule == PipelineSchedule::kInterleaved ? name + ":" + std::to_string(layout.interleave) : name;
}

void read_layers(Layout& layout, const LayoutValue& value) {
  layout.layers.clear();
  if (value.text == "auto") return;
  for (const auto part : split(value.text, '+'))
    layout.layers.push_back(value.part(part).number(0, kMostParts, "layers of every part of the model, as 3+7+7+7"));
}

std::string print_layers(const Layout& layout) {
  if (layout.layers.empty()) return "auto";
  std::string text;
  for (const int64_t layers : layout.layers) text += (text.empty() ? "" : "+") + std::to_string(layers);
  return text;
}

bool read_truth(const LayoutValue& value) {
  if (value.text != "true" && value.text != "false") value.refuse("neither true nor false", "true or false");
  return value.text == "true";
}

void read_recompute(Layout& layout, const LayoutValue& value) {
  try {
    layout.recompute = parse_recompute(std::string(value.text));
  } catch (const Error& error) {
    value.refuse(error.parts().what, error.parts().expected);
  }
}

void read_streaming(Layout& layout, const LayoutValue& value) {
  const bool odd = std::any_of(value.text.begin(), value.text.end(),
                               [](char c) { return static_cast<unsigned char>(c) < 32 || c == 127 || c == '"'; });
  if (value.text.empty() || odd)
    value.refuse("not a folder's name", "ram, or a folder (no control characters, no quotes)");
  layout.streaming = value.text;
}

/// One key of a layout: all that parsing, printing and the documentation know of it.
struct LayoutKey {
  const char *name, *syntax, *doc;
  void (*read)(Layout&, const LayoutValue&);
  std::string (*print)(const Layout&);
};

constexpr LayoutKey kKeys[] = {
    {"p", "N", "pipeline stages", [](Layout& l, const LayoutValue& v) { l.p = v.count(); },
     [](const Layout& l) { return std::to_string(l.p); }},
    {"t", "T or T1xT2",
     "tensor shards: products cut T1 ways (columns, then rows; heads; vocabulary) and the hidden dimension T2 ways. "
     "Must "
     "divide train.chunks, leaving a power of two",
     read_tensor, print_tensor},
    {"r", "N", "replicas, which share the lanes of a step. Must divide train.lanes, leaving a power of two",
     [](Layout& l, const LayoutValue& v) { l.r = v.count(); }, [](const Layout& l) { return std::to_string(l.r); }},
    {"g", "N",
     "devices among which the clusters of one graph (data.graphs.batch = \"cut\") or the shards of a knowledge graph's "
     "entities (model.knowledge.shards) are dealt. Must divide them",
     [](Layout& l, const LayoutValue& v) { l.g = v.count(); }, [](const Layout& l) { return std::to_string(l.g); }},
    {"deal", "order | near | random:SEED | N+N+...",
     "which clusters each of the g devices gets: runs in order, those that exchange most, at random, or all numbers in "
     "the order of the devices",
     read_deal, [](const Layout& l) { return l.deal; }},
    {"rts", "KIND[:GROUP],...",
     "replicated tensor sharding: weights, grads and optimizer are each split among groups of replicas (all of them "
     "without :GROUP), gathered before use and reduce-scattered after",
     read_rts, print_rts},
    {"phases", "N",
     "parts of a stage, of which one is in device memory at a time; all micro-batches run through one before the next",
     [](Layout& l, const LayoutValue& v) { l.phases = v.count(); },
     [](const Layout& l) { return std::to_string(l.phases); }},
    {"recompute", "none | cheap | layer | layer:0,3,5 | all | fit:SIZE",
     "what of the forward pass is computed again in the backward pass; overrules train.recompute. fit:SIZE chooses for "
     "each layer what a limit of device memory costs least in time: kept, recomputed (what is cheap, or all) or, with "
     "offload=activations, streamed",
     read_recompute, [](const Layout& l) { return l.recompute ? text_of(*l.recompute) : std::string(); }},
    {"offload", "KIND,...",
     "what lives in streaming memory between its uses: weights, grads, optimizer, activations; rows: "
     "of tables that a step reads by rows, all but the rows of a step, with their optimizer states",
     read_offload, print_offload},
    {"schedule", "gpipe | 1f1b | interleaved:V | zero-bubble",
     "order in which pipeline stages take micro-batches; interleaved gives each device V parts of the model",
     read_schedule, print_schedule},
    {"layers", "auto | N+N+...",
     "layers of every stage, as 3+7+7+7; with phases or interleaving, of every part in the model's order (part c is on "
     "stage c % p)",
     read_layers, print_layers},
    {"head", "last | first",
     "the stage of the loss head; left out, a head that shares the embeddings' table is put beside them, any other on "
     "the last",
     [](Layout& l, const LayoutValue& v) {
       if (v.text != "first" && v.text != "last") v.refuse("unknown place of the loss head", "last or first");
       l.head = v.text == "first" ? Layout::Head::kFirst : Layout::Head::kLast;
     },
     [](const Layout& l) {
       return std::string(l.head == Layout::Head::kFirst ? "first" : l.head == Layout::Head::kLast ? "last" : "");
     }},
    {"sequence", "true | false", "sequence parallelism: between the cut products, tokens are cut T1 ways",
     [](Layout& l, const LayoutValue& v) { l.sequence = read_truth(v); },
     [](const Layout& l) { return std::string(l.sequence ? "true" : "false"); }},
    {"device_memory", "SIZE", "memory that each device may plan with, as 1GiB; 0: no limit",
     [](Layout& l, const LayoutValue& v) { l.device_memory = size_of(v); },
     [](const Layout& l) { return exact_size(l.device_memory); }},
    {"streaming", "ram | FOLDER", "where streaming memory is: RAM, or files in a folder (on a fast disk)",
     read_streaming, [](const Layout& l) { return l.streaming; }},
    {"threads", "N", "threads of each device; 0: an equal share of the processors",
     [](Layout& l, const LayoutValue& v) {
       l.threads = static_cast<int>(v.number(0, 4096, "a whole number from 0 to 4096"));
     },
     [](const Layout& l) { return std::to_string(l.threads); }},
    {"per_process", "N", "devices of each MPI rank; 0: spread evenly",
     [](Layout& l, const LayoutValue& v) {
       l.per_process =
           static_cast<int>(v.number(0, kMostParts, "a whole number from 0 to " + std::to_string(kMostParts)));
     },
     [](const Layout& l) { return std::to_string(l.per_process); }},
};

[[noreturn]] void unknown_key(const LayoutSetting& setting) {
  std::vector<std::string> names;
  for (const auto& key : kKeys) names.emplace_back(key.name);
  const std::string near = nearest_name(setting.key, names);
  const std::string all = listed(names);
  throw Error({.what = "unknown key '" + setting.key.substr(0, 100) + "' of a layout",
               .where = setting.where,
               .expected = near.empty() ? "" : "perhaps '" + near + "'",
               .remedy = "A layout has: " + all});
}

[[noreturn]] void no_automatic_layout(const std::string& where) {
  throw Error({.what = "a layout is searched for by `ramet plan` and `ramet train` with --layout auto alone",
               .where = where,
               .found = "'auto'",
               .expected = "numbers, as in \"p=2 t=2 r=2\"",
               .remedy = "`ramet plan RECIPE --layout auto` prints what to write here"});
}

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

/// "a=b c="d e"" as settings.
std::vector<LayoutSetting> settings_of(std::string_view text, const std::string& source) {
  std::vector<LayoutSetting> settings;
  for (size_t at = 0; at < text.size();) {
    if (is_space(text[at])) {
      ++at;
      continue;
    }
    const size_t begin = at;
    while (at < text.size() && text[at] != '=' && !is_space(text[at])) ++at;
    LayoutSetting setting{.key = std::string(text.substr(begin, at - begin)), .value = "", .where = source};
    if (setting.key == "auto" && (at == text.size() || text[at] != '=')) no_automatic_layout(source);
    if (at == text.size() || text[at] != '=' || setting.key.empty())
      throw Error(
          {.what = "not a key with its value",
           .where = source,
           .found = "'" + std::string(text.substr(begin, std::min<size_t>(80, std::max<size_t>(1, at - begin)))) + "'",
           .expected = "KEY=VALUE apart by spaces, as in \"p=2 t=2x1 r=2\""});
    setting.where += " " + setting.key.substr(0, 100);
    const size_t value = ++at;
    if (at < text.size() && text[at] == '"') {
      const size_t quote = text.find('"', at + 1);
      if (quote == text.npos || (quote + 1 < text.size() && !is_space(text[quote + 1])))
        throw Error({.what = "a quote without its end", .where = setting.where, .expected = "KEY=\"VALUE\""});
      setting.value = text.substr(value + 1, quote - value - 1);
      at = quote + 1;
    } else {
      while (at < text.size() && !is_space(text[at])) ++at;
      setting.value = text.substr(value, at - value);
    }
    settings.push_back(std::move(setting));
  }
  return settings;
}

/// `text` in lines of at most 100, each after six spaces.
std::string wrapped(const std::string& text) {
  std::string result, line;
  for (const auto word : split(text, ' ')) {
    if (!line.empty() && line.size() + 1 + word.size() > 94) result += "      " + line + "\n", line.clear();
    line += (line.empty() ? "" : " ") + std::string(word);
  }
  return result + "      " + line + "\n";
}

}  // namespace

std::string_view name_of(PipelineSchedule schedule) { return kScheduleNames[static_cast<size_t>(schedule)]; }

Layout parse_layout(std::span<const LayoutSetting> settings) {
  Layout layout;
  std::set<std::string> seen;
  for (const auto& setting : settings) {
    const auto* key =
        std::find_if(std::begin(kKeys), std::end(kKeys), [&](const LayoutKey& k) { return setting.key == k.name; });
    if (key == std::end(kKeys)) unknown_key(setting);
    if (!seen.insert(setting.key).second) throw Error({.what = "this key stands twice", .where = setting.where});
    if (setting.value == "auto" && setting.key != "layers") no_automatic_layout(setting.where);
    key->read(layout, {setting.value, setting});
  }
  for (int* group : {&layout.rts.weights, &layout.rts.grads, &layout.rts.optimizer})
    if (*group == kWholeAxis) *group = layout.r;
  int64_t devices = 1;
  for (const int parts : {layout.p, layout.r, layout.t1, layout.g, layout.t2}) {
    devices *= parts;
    if (devices > kMostParts)
      throw Error({.what = "too many devices",
                   .where = settings.empty() ? "layout" : settings[0].where,
                   .expected = "at most " + std::to_string(kMostParts)});
  }
  if (static_cast<int64_t>(layout.p) * layout.phases > kMostParts ||
      static_cast<int64_t>(layout.p) * layout.phases * layout.interleave > kMostParts)
    throw Error({.what = "too many parts of the model",
                 .where = settings.empty() ? "layout" : settings[0].where,
                 .expected = "at most " + std::to_string(kMostParts)});
  return layout;
}

Layout parse_layout(std::string_view text, const std::string& source) {
  if (text.size() > kMostText)
    throw Error({.what = "too long for a layout", .where = source, .expected = "at most " + format_size(kMostText)});
  if (text.find('\0') != text.npos) throw Error({.what = "a text with a NUL character", .where = source});
  const auto settings = settings_of(text, source);
  return parse_layout(settings);
}

Layout change_layout(const Layout& layout, const LayoutSetting& change) {
  std::vector<LayoutSetting> settings = settings_of(print_layout(layout), change.where);
  std::erase_if(settings, [&](const LayoutSetting& setting) { return setting.key == change.key; });
  settings.push_back(change);
  return parse_layout(settings);
}

std::string print_layout(const Layout& layout) {
  const Layout defaults;
  std::string text;
  for (const auto& key : kKeys) {
    std::string value = key.print(layout);
    if (value == key.print(defaults)) continue;
    if (std::any_of(value.begin(), value.end(), is_space)) value = '"' + value + '"';
    text += (text.empty() ? "" : " ") + std::string(key.name) + "=" + value;
  }
  return text.empty() ? "p=1" : text;
}

std::string layout_help() {
  const Layout defaults;
  std::string text;
  for (const auto& key : kKeys) {
    std::string value = key.print(defaults);
    text += "  " + std::string(key.name) + " = " + key.syntax + "; default " +
            (value.empty() ? "the recipe's" : value) + "\n";
    text += wrapped(key.doc);
  }
  return text;
}

}  // namespace ramet::layout
