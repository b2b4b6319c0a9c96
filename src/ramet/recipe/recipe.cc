#include "ramet/recipe/recipe.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "ramet/base/error.h"
#include "ramet/base/file.h"
#include "ramet/base/toml.h"
#include "ramet/base/toml_text.h"
#include "ramet/base/words.h"
#include "ramet/front/open_model.h"
#include "ramet/ir/attribute.h"
#include "ramet/layout/layout_toml.h"
#include "ramet/recipe/arrays.h"
#include "ramet/recipe/key_names.h"
#include "ramet/recipe/kinds.h"
#include "ramet/recipe/recipe_groups.h"
#include "ramet/recipe/sparse.h"
#include "ramet/train/groups.h"
#include "ramet/train/optimizers/optimizer.h"
#include "ramet/transform/recompute.h"

namespace ramet::recipe {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMostText = 256 << 10;  // a recipe is a page, not a book
constexpr int64_t kMostDots = 4096;      // each may nest a table, and a parser's stack is not endless

/// The source of a value, and the folder of its relative paths.
struct Source {
  std::string place;  ///< "bert.toml:12", "--set"
  fs::path folder;
  std::string file{};  ///< "bert.toml"
};

/// The known key or table nearest to `name`; "" when none is near.
std::string nearest_key(const std::string& name) {
  std::set<std::string> here, all;
  for (const auto& key : recipe_keys()) {
    all.insert(key.name);
    for (std::string table = table_of(key.name); !table.empty(); table = table_of(table)) all.insert(table);
  }
  for (const auto& known : all)
    if (table_of(known) == table_of(name)) here.insert(leaf_of(known));
  if (const std::string near = nearest_name(leaf_of(name), here); !near.empty())
    return table_of(name).empty() ? near : table_of(name) + "." + near;
  for (const auto& known : all)  // the right word in the wrong table
    if (leaf_of(known) == leaf_of(name)) return known;
  return nearest_name(name, all);
}

[[noreturn]] void unknown_key(const std::string& name, const std::string& place) {
  const std::string near = nearest_key(name);
  throw Error({.what = "unknown key '" + name.substr(0, 200) + "'",
               .where = place,
               .expected = near.empty() ? "" : "perhaps '" + near + "'",
               .remedy = "`ramet recipe --help` lists all keys"});
}

std::string number_text(double value) {
  if (value == std::floor(value) && std::fabs(value) < 1e15) return std::to_string(static_cast<int64_t>(value));
  return text_of(Attribute(value));
}

std::string kind_text(const RecipeKey& key) {
  Recipe recipe;
  const RecipeField field = key.field(recipe);
  if (std::holds_alternative<bool*>(field)) return "true or false";
  if (std::holds_alternative<std::string*>(field)) {
    if (!key.choices.empty()) return joined(key.choices);
    if (key.kind == RecipeKey::Kind::kLayout) return "a text in quotes, or a table";
    return key.kind == RecipeKey::Kind::kPath ? "a path in quotes" : "a text in quotes";
  }
  if (std::holds_alternative<std::vector<GroupOptions>*>(field)) return "a list of tables";
  if (std::holds_alternative<NumberOrAuto*>(field))
    return "\"auto\", or a number from " + number_text(key.low) + " to " + number_text(key.high);
  const bool whole = std::holds_alternative<int64_t*>(field) || std::holds_alternative<std::optional<int64_t>*>(field);
  const std::string kind = whole ? "a whole number" : "a number";
  return key.low == 0 && key.high == 0 ? kind : kind + " from " + number_text(key.low) + " to " + number_text(key.high);
}

/// Text of a TOML value for a message.
std::string value_text(const toml::node& node) {
  if (node.is_table()) return "a table";
  if (node.is_array()) return "a list";
  if (const auto* text = node.as_string()) return "'" + text->get().substr(0, 100) + "'";
  if (const auto* number = node.as_integer()) return std::to_string(number->get());
  if (const auto* number = node.as_floating_point()) return text_of(Attribute(number->get()));
  if (const auto* truth = node.as_boolean()) return truth->get() ? "true" : "false";
  return "a date or time";
}

/// Canonical text of a layout; its folder of streaming files is taken from `folder`.
std::string canonical_layout(Layout layout, const fs::path& folder) {
  if (layout.streams_to_files() && fs::path(layout.streaming).is_relative())
    layout.streaming = (fs::absolute(folder) / layout.streaming).lexically_normal().string();
  return print_layout(layout);
}

/// Puts one value into its field, or throws.
class Assignment {
 public:
  Assignment(Recipe& recipe, const RecipeKey& key, const Source& source)
      : recipe_(recipe), key_(key), source_(source) {}

  void assign(const toml::node& node) {
    node_ = &node;
    std::visit([this](auto* field) { put(*field); }, key_.field(recipe_));
    recipe_.places[key_.name] = source_.place;
  }

 private:
  [[noreturn]] void refuse(const std::string& what) const {
    throw Error({.what = what,
                 .where = source_.place + " " + key_.name,
                 .found = value_text(*node_),
                 .expected = kind_text(key_)});
  }
  template <typename Number>
  Number in_range(Number value) const {
    const auto wide = static_cast<double>(value);
    if (!std::isfinite(wide)) refuse("not a finite number");
    if ((key_.low != 0 || key_.high != 0) && (wide < key_.low || wide > key_.high)) refuse("out of range");
    return value;
  }
  void put(bool& field) const {
    const auto* truth = node_->as_boolean();
    if (!truth) refuse("wrong kind of value");
    field = truth->get();
  }
  void put(int64_t& field) const {
    const auto* number = node_->as_integer();
    if (!number) refuse("wrong kind of value");
    field = in_range(number->get());
  }
  void put(double& field) const {
    const auto* whole = node_->as_integer();
    const auto* number = node_->as_floating_point();
    if (!whole && !number) refuse("wrong kind of value");
    field = in_range(number ? number->get() : static_cast<double>(whole->get()));
  }
  void put(NumberOrAuto& field) const {
    const auto* word = node_->as_string();
    if (word && word->get() != "auto") refuse("unknown choice");
    double value = 0;
    if (!word) put(value);
    field = word ? NumberOrAuto{{}, true} : NumberOrAuto{value, false};
  }
  /// Kept as canonical text, whichever form it was given in.
  std::string layout_text() const {
    if (!node_->is_table() && !node_->is_string()) refuse("wrong kind of value");
    return canonical_layout(node_->is_table() ? parse_layout(layout_settings(*node_->as_table(), source_.file))
                                              : parse_layout(node_->as_string()->get(), source_.place + " layout"),
                            source_.folder);
  }
  void put(std::string& field) const {
    if (key_.kind == RecipeKey::Kind::kLayout) {
      field = layout_text();
      return;
    }
    const auto* text = node_->as_string();
    if (!text) refuse("wrong kind of value");
    std::string value = text->get();
    if (value.find('\0') != std::string::npos) refuse("a text with a NUL character");
    if (!key_.choices.empty() && std::find(key_.choices.begin(), key_.choices.end(), value) == key_.choices.end())
      refuse("unknown choice");
    if (key_.kind == RecipeKey::Kind::kPath && !value.empty() && fs::path(value).is_relative())
      value = (fs::absolute(source_.folder) / value).lexically_normal().string();
    field = std::move(value);
  }
  void put(std::vector<GroupOptions>& field) const { field = parse_groups(*node_, source_.place, source_.file); }
  template <typename Number>
  void put(std::optional<Number>& field) const {
    Number value{};
    put(value);
    field = value;
  }

  Recipe& recipe_;
  const RecipeKey& key_;
  const Source& source_;
  const toml::node* node_ = nullptr;
};

toml::table parse_toml(std::string_view text, const std::string& source) {
  if (text.size() > kMostText)
    throw Error({.what = "too long for a recipe",
                 .where = source,
                 .found = format_size(static_cast<int64_t>(text.size())),
                 .expected = "at most 256 KiB"});
  if (std::count(text.begin(), text.end(), '.') > kMostDots)
    throw Error(
        {.what = "too many dots for a recipe", .where = source, .expected = "at most " + std::to_string(kMostDots)});
  try {
    return toml::parse(text);
  } catch (const toml::parse_error& error) {
    throw Error({.what = "not TOML: " + std::string(error.description()),
                 .where = source + ":" + std::to_string(error.source().begin.line)});
  }
}

/// `only_absent`: keys that the recipe has keep their values.
void assign_table(Recipe& recipe, const toml::table& table, const std::string& prefix, const std::string& source,
                  const fs::path& folder, bool only_absent = false) {
  for (const auto& [key_node, value] : table) {
    const std::string name = prefix + std::string(key_node.str());
    const Source place{source + ":" + std::to_string(key_node.source().begin.line), folder, source};
    if (const RecipeKey* key = find_key(recipe_keys(), name)) {
      if (!only_absent || !recipe.places.count(name)) Assignment(recipe, *key, place).assign(value);
    } else if (is_table(recipe_keys(), name)) {
      if (!value.is_table())
        throw Error({.what = "'" + name + "' is a table",
                     .where = place.place,
                     .found = value_text(value),
                     .expected = "[" + name + "]"});
      assign_table(recipe, *value.as_table(), name + ".", source, folder, only_absent);
    } else {
      unknown_key(name, place.place);
    }
  }
}

/// "layout.KEY=VALUE"
void apply_layout_setting(Recipe& recipe, const std::string& name, const std::string& text) {
  const std::string key = name.substr(std::string_view("layout.").size());
  recipe.layout = canonical_layout(
      change_layout(parse_layout(recipe.layout), {.key = key, .value = text, .where = "--set " + name.substr(0, 100)}),
      fs::current_path());
  recipe.places["layout"] = "--set";
}

/// "a.b=c" with c as TOML, or as a plain text where that is what the key wants.
void apply_setting(Recipe& recipe, const std::string& setting, bool resumed) {
  const size_t equals = setting.find('=');
  const std::string name = setting.substr(0, equals),
                    text = equals == std::string::npos ? "" : setting.substr(equals + 1);
  if (equals == std::string::npos || name.empty())
    throw Error({.what = "not a setting",
                 .where = "--set",
                 .found = "'" + setting.substr(0, 100) + "'",
                 .expected = "KEY=VALUE, as train.steps=100"});
  if (name.starts_with("layout.")) return apply_layout_setting(recipe, name, text);
  const RecipeKey* key = find_key(recipe_keys(), name);
  if (!key && is_table(recipe_keys(), name))
    throw Error({.what = "'" + name + "' is a table, not a key", .where = "--set " + setting.substr(0, 100)});
  if (!key) unknown_key(name, "--set");
  if (resumed && key->decides)
    throw Error({.what = "this key decides the numbers of the run, so it cannot change while a run is resumed",
                 .where = "--set " + name,
                 .remedy = "Start a new run; model.init_from takes the weights of a checkpoint"});
  const Source source{"--set", fs::current_path()};
  toml::table parsed;
  bool plain =
      std::holds_alternative<std::string*>(key->field(recipe)) && !text.starts_with('"') && !text.starts_with('\'');
  if (!plain) {
    try {
      parsed = toml::parse("value = " + text);
      plain = parsed.size() != 1;
    } catch (const toml::parse_error&) {
      plain = true;
    }
  }
  if (plain) {
    try {
      (void)toml::parse("value = " + quoted_toml(text));  // printed recipes must parse
    } catch (const toml::parse_error&) {
      throw Error({.what = "not a text of UTF-8", .where = "--set " + name});
    }
    parsed = toml::table{{"value", text}};
  }
  Assignment(recipe, *key, source).assign(*parsed.get("value"));
}

/// Numbers that divide `value`, the nearest to `wanted` first, as a text.
std::string divisors_near(int64_t value, int64_t wanted) {
  std::vector<int64_t> divisors;
  for (int64_t i = 1; i <= value / i; ++i)
    if (value % i == 0) {
      divisors.push_back(i);
      if (i != value / i) divisors.push_back(value / i);
    }
  std::sort(divisors.begin(), divisors.end());
  if (divisors.size() > 12) {
    std::stable_sort(divisors.begin(), divisors.end(),
                     [&](int64_t a, int64_t b) { return std::abs(a - wanted) < std::abs(b - wanted); });
    divisors.resize(12);
    std::sort(divisors.begin(), divisors.end());
  }
  std::vector<std::string> words;
  for (int64_t divisor : divisors) words.push_back(std::to_string(divisor));
  return joined(words);
}

/// Keys that only another kind of recipe may have.
void check_kind(const Recipe& recipe) {
  const RecipeKind& kind = kind_of(recipe);
  for (const RecipeKey& key : recipe_keys()) {
    const auto place = recipe.places.find(key.name);
    if (place == recipe.places.end()) continue;
    if (!kind.takes_key(key))
      throw Error({.what = key.of_text     ? "a key of models of text"
                           : key.of_arrays ? "a key of models that read arrays"
                                           : "a key of models with sizes by name",
                   .where = place->second + " " + key.name,
                   .found = "a recipe of a " + kind.title(),
                   .remedy = "Leave the key out"});
    if (!key.owner || !key.owner->keeps_its_keys() || key.owner->takes(recipe)) continue;
    const std::string other = key.owner->title();
    throw Error({.what = "a key of a " + other + " without a " + other,
                 .where = place->second + " " + key.name,
                 .remedy = "Set " + key.owner->chosen_by() + " as well"});
  }
  kind.check(recipe);
  const std::vector<std::string> data_kinds = kind.data_kinds();
  if (std::find(data_kinds.begin(), data_kinds.end(), recipe.data.kind) == data_kinds.end())
    throw Error({.what = "data of a kind that the model does not read",
                 .where = recipe.where("data.kind"),
                 .found = quoted_toml(recipe.data.kind) + " for model.kind = " + quoted_toml(recipe.model.kind),
                 .expected = joined(data_kinds)});
}

/// Refuses keys of unit scaling and of u-muP without these, and combinations that do not work.
void check_scaling(const Recipe& recipe) {
  const std::string& scaling = recipe.train.scaling;
  const auto needs = [&](const std::string& key, const std::string& wanted) {
    throw Error({.what = key + " has no meaning without train.scaling = \"" + wanted + "\"",
                 .where = recipe.where(key),
                 .found = "train.scaling = \"" + scaling + "\"",
                 .remedy = "Leave the key out, or set train.scaling"});
  };
  if (recipe.train.residual_tau && scaling != "unit") needs("train.residual_tau", "unit");
  const auto& train = recipe.train;
  for (const auto& [multiplier, value] :
       {std::pair("attention", train.attention_multiplier), std::pair("residual", train.residual_multiplier),
        std::pair("attention_residual", train.attention_residual_multiplier),
        std::pair("logits", train.logits_multiplier)})
    if (value != 1 && scaling != "u-mup") needs(std::string("train.multipliers.") + multiplier, "u-mup");
  const std::string& optimizer = recipe.train.optimizer.kind;
  std::vector<std::string> fitting;
  for (const OptimizerDef& each : optimizers())
    if (each.fits_u_mup) fitting.push_back(each.name);
  if (scaling == "u-mup" && !find_optimizer(optimizer).fits_u_mup)
    throw Error({.what = "u-muP's learning rates are made for Adam",
                 .where = recipe.where("train.optimizer.kind"),
                 .found = "'" + optimizer + "'",
                 .expected = joined(fitting),
                 .remedy = "Set train.optimizer.kind, or train.scaling = \"unit\""});
}

void check_alerts(const Recipe& recipe) {
  const AlertOptions& alerts = recipe.track.alerts;
  for (const auto& [key, size] :
       {std::pair("track.alerts.disk", alerts.disk), {"track.alerts.memory", alerts.memory}}) {
    if (size.empty()) continue;
    try {
      (void)parse_size(size);
    } catch (const Error& error) {
      ErrorParts parts = error.parts();
      parts.where = recipe.where(key);
      throw Error(std::move(parts));
    }
  }
  const std::string& hook = alerts.webhook;
  if (!hook.empty() && !hook.starts_with("http://") && !hook.starts_with("https://"))
    throw Error({.what = "not an address of a webhook",
                 .where = recipe.where("track.alerts.webhook"),
                 .found = "'" + hook.substr(0, 100) + "'",
                 .expected = "http://... or https://..."});
}

/// What the kind of the recipe says where keys are left out.
void settle_kind(Recipe& recipe) {
  if (!recipe.model.file.empty()) {
    if (!recipe.places.count("model.kind")) recipe.model.kind = "file";
    if (!recipe.places.count("data.kind")) recipe.data.kind = "arrays";
  }
  if (recipe.model.preset.empty()) recipe.model.preset = kind_of(recipe).default_preset(recipe);
}

/// What the model's own file says of keys that are left out.
void take_own_defaults(Recipe& recipe) {
  if (recipe.model.kind != "file") return;
  const std::string text = for_key(recipe, "model.file", [&] { return front::recipe_of_model(recipe.model.file); });
  if (text.empty()) return;
  const std::string source = recipe.model.file + " (its own recipe)";
  toml::table given = parse_toml(text, source), taken;
  for (const char* name : {"train", "layout"})
    if (const toml::node* value = given.get(name)) taken.insert(name, *value);
  assign_table(recipe, taken, "", source, fs::path(recipe.model.file).parent_path(), true);
}

/// What the run to begin from says of keys of the model that are left out: its weights fit no other sizes. A recipe of
/// another kind or preset says them itself.
void take_sizes_of_run(Recipe& recipe) {
  const fs::path run = run_of(recipe.model.init_from);
  std::error_code ignored;
  if (run.empty() || !fs::is_directory(run / "checkpoints", ignored)) return;  // not beside weights of others
  const std::string source = (run / "recipe.toml").string();
  toml::table given = parse_toml(read_file(source), source);
  toml::table* model = given["model"].as_table();
  if (!model) return;
  for (const auto& [key, own] : {std::pair("kind", &recipe.model.kind), std::pair("preset", &recipe.model.preset)})
    if (recipe.places.count(std::string("model.") + key) && (*model)[key].value_or(*own) != *own) return;
  for (const char* key : {"init_from", "file"}) model->erase(key);
  assign_table(recipe, *model, "model.", source, run, true);
}

/// What keys must mean together.
void check_recipe(const Recipe& recipe) {
  const auto& train = recipe.train;
  if (train.accumulation % train.lanes != 0)
    throw Error(
        {.what = "train.lanes must divide train.accumulation",
         .where = recipe.where("train.lanes"),
         .found = std::to_string(train.lanes) + " lanes of " + std::to_string(train.accumulation) + " micro-batches",
         .expected = divisors_near(train.accumulation, train.lanes)});
  // An f32 product would read an f32 copy of every weight, and only bf16 ones read a high half as it is.
  const bool split = train.weights == "split";
  if (train.weights != "f32" && (train.precision == "f32" || (split && train.precision != "bf16")))
    throw Error({.what = "products of this precision cannot read weights that are held as \"" + train.weights + "\"",
                 .where = recipe.where("train.weights"),
                 .found = "train.precision = \"" + train.precision + "\"",
                 .expected = split ? "\"bf16\", which read the high half" : "\"bf16\", \"f16\" or \"f8\"",
                 .remedy = "Change one of the two, or hold weights in f32"});
  if (recipe.data.kind == "text" && recipe.data.corpus.empty() && kind_of(recipe).reads_text())
    throw Error({.what = "data.kind = \"text\" needs data.corpus",
                 .where = recipe.where("data.kind"),
                 .expected = "the folder of a corpus",
                 .remedy = "Make one with `ramet vocab` and `ramet corpus`, or use data.kind = \"synthetic\""});
  if (recipe.train.schedule.end > recipe.train.schedule.learning_rate)
    throw Error(
        {.what = "the learning rate would rise after the warm-up",
         .where = recipe.where("train.schedule.end"),
         .found = number_text(recipe.train.schedule.end),
         .expected = "at most train.schedule.learning_rate, " + number_text(recipe.train.schedule.learning_rate)});
  if (recipe.train.schedule.kind != "constant" && recipe.train.schedule.steps &&
      *recipe.train.schedule.steps < recipe.train.schedule.warmup_steps)
    throw Error(
        {.what = "the schedule ends before its warm-up does",
         .where = recipe.where("train.schedule.steps"),
         .found = std::to_string(*recipe.train.schedule.steps),
         .expected = "at least train.schedule.warmup_steps, " + std::to_string(recipe.train.schedule.warmup_steps)});
  if (recipe.train.optimizer.nesterov && recipe.train.optimizer.momentum == 0)
    throw Error(
        {.what = "Nesterov's momentum needs a momentum above 0", .where = recipe.where("train.optimizer.nesterov")});
  if (recipe.train.optimizer.in_backward && train.clip_norm > 0)
    throw Error(
        {.what = "weights cannot be updated in the backward pass while gradients are clipped by the norm of all",
         .where = recipe.where("train.optimizer.in_backward"),
         .found = "train.clip_norm = " + number_text(train.clip_norm),
         .expected = "0",
         .remedy = "Set train.clip_norm = 0, or leave train.optimizer.in_backward out"});
  if (recipe.train.optimizer.in_backward && train.loss_scale.automatic)
    throw Error({.what = "a step that overflows cannot be skipped when weights are updated in the backward pass",
                 .where = recipe.where("train.loss_scale"),
                 .found = "train.optimizer.in_backward = true",
                 .expected = "false",
                 .remedy = "Give a number as train.loss_scale, or leave train.optimizer.in_backward out"});
  if (recipe.train.optimizer.in_backward && train.accumulation > 1)
    throw Error({.what = "weights cannot be updated in the backward pass while gradients are summed over micro-batches",
                 .where = recipe.where("train.optimizer.in_backward"),
                 .found = "train.accumulation = " + std::to_string(train.accumulation),
                 .expected = "1",
                 .remedy = "Set train.accumulation = 1, or leave train.optimizer.in_backward out"});
  check_scaling(recipe);
  check_alerts(recipe);
  check_groups(train, recipe.where("train.groups"));
  check_sparse(recipe);
  if (recipe.train.sums == "in-order" && recipe.train.precision != "f32")
    throw Error({.what = "sums in order are for f32",
                 .where = recipe.where("train.sums"),
                 .found = "train.precision = \"" + recipe.train.precision + "\"",
                 .remedy = "Set train.precision = \"f32\", or leave train.sums out"});
  if (recipe.train.recompute != "auto") {
    try {
      parse_recompute(recipe.train.recompute);
    } catch (const Error& error) {
      ErrorParts parts = error.parts();
      parts.where = recipe.where("train.recompute");
      throw Error(std::move(parts));
    }
  }
  check_kind(recipe);
  const auto presets = kind_of(recipe).presets(recipe);
  if (!recipe.model.preset.empty() && std::find(presets.begin(), presets.end(), recipe.model.preset) == presets.end())
    throw Error({.what = "unknown preset of " + recipe.model.kind,
                 .where = recipe.where("model.preset"),
                 .found = "'" + recipe.model.preset.substr(0, 100) + "'",
                 .expected = joined(presets)});
}

std::string field_text(const RecipeField& field) {
  return std::visit(
      [](const auto* value) -> std::string {
        using T = std::remove_cvref_t<decltype(*value)>;
        if constexpr (std::is_same_v<T, std::optional<int64_t>> || std::is_same_v<T, std::optional<double>>)
          return *value ? text_of(Attribute(**value)) : "";
        else if constexpr (std::is_same_v<T, std::string>)
          return quoted_toml(*value);
        else if constexpr (std::is_same_v<T, std::vector<GroupOptions>>)
          return text_of(*value);
        else if constexpr (std::is_same_v<T, NumberOrAuto>)
          return value->automatic ? quoted_toml("auto") : value->number ? text_of(Attribute(*value->number)) : "";
        else
          return text_of(Attribute(*value));
      },
      field);
}

std::string print_keys(const Recipe& recipe, bool deciding_only) {
  Recipe copy = recipe, defaults;
  std::string text, table;
  for (const auto& key : recipe_keys()) {
    const std::string value = field_text(key.field(copy));
    if (value.empty() || (deciding_only && !key.decides)) continue;
    if (deciding_only && value == "\"\"") continue;  // says as much as a key that is not there
    if (deciding_only && key.quiet && value == field_text(key.field(defaults))) continue;
    if (key.owner && key.owner->keeps_its_keys() && !key.owner->takes(recipe)) continue;
    if (!kind_of(recipe).takes_key(key)) continue;
    if (key.name.starts_with("sparse.") && recipe.sparse.weights.empty()) continue;
    if (table_of(key.name) != table) {
      table = table_of(key.name);
      text += (text.empty() ? "[" : "\n[") + table + "]\n";
    }
    text += leaf_of(key.name) + " = " + value + "\n";
  }
  return text;
}

/// Documentation of the keys that one kind owns; null: that several share.
std::string help_of(const RecipeKind* owner, const std::string& prefix) {
  Recipe defaults;
  std::string text, table = "?";
  for (const auto& key : recipe_keys()) {
    if (key.owner != owner) continue;
    if (!prefix.empty() && key.name != prefix && !key.name.starts_with(prefix + ".")) continue;
    if (table_of(key.name) != table) {
      table = table_of(key.name);
      if (!text.empty()) text += "\n";
      if (!table.empty()) text += "[" + table + "]\n";
    }
    std::string value = field_text(key.field(defaults));
    if ((value.empty() || value == "\"\"") && !key.otherwise.empty()) value = key.otherwise;
    text += "  " + leaf_of(key.name) + " = " + kind_text(key) + "; default " + value +
            (key.decides ? "" : "; may change on resume") + "\n";
    text += wrapped(key.doc, "      ", 100);
  }
  return text;
}

}  // namespace

const RecipeKey* find_recipe_key(const std::string& name) { return find_key(recipe_keys(), name); }
bool is_recipe_table(const std::string& name) { return is_table(recipe_keys(), name); }
void refuse_unknown_key(const std::string& name, const std::string& place) { unknown_key(name, place); }

RecipeValue checked_value(const RecipeKey& key, const RecipeValue& value, const std::string& place,
                          const fs::path& folder) {
  toml::table table;
  std::visit([&](const auto& given) { table.insert("value", given); }, value);
  Recipe scratch;
  Assignment(scratch, key, {place, folder, place}).assign(*table.get("value"));
  return std::visit(
      [&](const auto* field) -> RecipeValue {
        using T = std::remove_cvref_t<decltype(*field)>;
        if constexpr (std::is_same_v<T, std::optional<int64_t>> || std::is_same_v<T, std::optional<double>>) {
          return **field;
        } else if constexpr (std::is_same_v<T, NumberOrAuto>) {
          return field->automatic ? RecipeValue(std::string("auto")) : RecipeValue(*field->number);
        } else if constexpr (std::is_same_v<T, std::vector<GroupOptions>>) {
          internal_error("checked_value", "a single value became a list");
        } else {
          return *field;
        }
      },
      key.field(scratch));
}

std::string toml_of(const RecipeValue& value) {
  if (const auto* text = std::get_if<std::string>(&value)) return quoted_toml(*text);
  return std::visit([](const auto& given) { return text_of(Attribute(given)); }, value);
}

std::string setting_of(const std::string& key, const RecipeValue& value) { return key + "=" + toml_of(value); }

fs::path run_of(const fs::path& folder) {
  std::error_code ignored;
  const auto is_run = [&](const fs::path& run) { return fs::is_regular_file(run / "recipe.toml", ignored); };
  if (folder.empty() || folder == folder.root_path()) return {};
  if (folder.filename().empty()) return run_of(folder.parent_path());  // with a slash behind
  if (is_run(folder)) return folder;
  const fs::path checkpoints = folder.parent_path();  // of a run: checkpoints/step-00000100, best/step-00000100
  const bool named_so = checkpoints.filename() == "checkpoints" || checkpoints.filename() == "best";
  return named_so && is_run(checkpoints.parent_path()) ? checkpoints.parent_path() : fs::path();
}

std::string Recipe::where(const std::string& key) const {
  const auto place = places.find(key);
  return place == places.end() ? key : place->second + " " + key;
}

Recipe parse_recipe(std::string_view text, const std::string& source, const fs::path& folder,
                    std::span<const std::string> settings) {
  Recipe recipe;
  assign_table(recipe, parse_toml(text, source), "", source, folder);
  for (const auto& setting : settings) apply_setting(recipe, setting, false);
  if (recipe.name.empty()) recipe.name = fs::path(source).stem().string();
  settle_kind(recipe);
  take_own_defaults(recipe);
  take_sizes_of_run(recipe);
  check_recipe(recipe);
  return recipe;
}

Recipe load_recipe(const fs::path& path, std::span<const std::string> settings) {
  return parse_recipe(read_file(path), path.string(), path.parent_path().empty() ? fs::path(".") : path.parent_path(),
                      settings);
}

void change_resumed_recipe(Recipe& recipe, std::span<const std::string> settings) {
  for (const auto& setting : settings) apply_setting(recipe, setting, true);
  settle_kind(recipe);
  check_recipe(recipe);
}

void set_layout(Recipe& recipe, const std::string& text_or_file) {
  recipe.layout = print_layout(load_layout(text_or_file));
  recipe.places["layout"] = "--layout";
}

std::string layout_source(const Recipe& recipe) {
  const auto place = recipe.places.find("layout");
  return place != recipe.places.end() && place->second == "--layout" ? "--layout" : recipe.where("layout");
}

std::string print_recipe(const Recipe& recipe) { return print_keys(recipe, false); }

Hash recipe_hash(const Recipe& recipe) { return hash_text(print_keys(recipe, true)); }

std::string recipe_help(const std::string& prefix) {
  if (!prefix.empty() && !find_key(recipe_keys(), prefix) && !is_table(recipe_keys(), prefix))
    unknown_key(prefix, "ramet recipe");
  std::string text = help_of(nullptr, prefix);
  for (const RecipeKind* kind : recipe_kinds())
    if (const std::string own = help_of(kind, prefix); !own.empty())
      text += std::string(text.empty() ? "" : "\n") + "Of " + kind->title() + " alone:\n\n" + own;
  return text;
}

}  // namespace ramet::recipe
