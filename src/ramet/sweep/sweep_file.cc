#include "ramet/sweep/sweep_file.h"

#include <algorithm>
#include <cmath>
#include <sstream>

#include "ramet/base/error.h"
#include "ramet/base/file.h"
#include "ramet/base/toml.h"
#include "ramet/base/toml_text.h"
#include "ramet/base/words.h"
#include "ramet/recipe/key_names.h"

namespace ramet::sweep {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMostText = 512 << 10;
constexpr int64_t kMostDots = 8192;  // each may nest a table, and a parser's stack is not endless
constexpr int64_t kMostValues = 1000;
constexpr double kMostInteger = 9007199254740992.0;  // 2^53

using SweepField = std::variant<int64_t*, double*, std::string*, std::optional<double>*>;

/// One key of a sweep's file.
struct SweepKey {
  std::string name;
  std::string doc;
  SweepField (*field)(SweepOptions&);
  double low = 0, high = 0;  ///< of numbers, inclusive; none when both are 0
  std::vector<std::string> choices{};
  std::string otherwise{};  ///< the meaning of 0 or "", for the documentation
};

#define RAMET_SWEEP_FIELD(member) [](SweepOptions& options) -> SweepField { return &options.member; }

const std::vector<SweepKey>& sweep_keys() {
  static const std::vector<SweepKey> keys = {
      {.name = "name",
       .doc = "name of the sweep: of its folder RUNS/sweeps/NAME, and the group of its runs",
       .field = RAMET_SWEEP_FIELD(name),
       .otherwise = "the file's name"},
      {.name = "recipe",
       .doc = "file of the recipe that every point changes; or a table [recipe] with the recipe itself",
       .field = RAMET_SWEEP_FIELD(recipe)},
      {.name = "method",
       .doc = "how points are chosen. grid: all combinations; random: independent draws; latin_hypercube: draws that "
              "cover the range of every parameter evenly; tpe: tree-structured Parzen estimator, which draws where "
              "earlier points were good; halving: successive halving, which gives few steps to all points and more to "
              "the best",
       .field = RAMET_SWEEP_FIELD(method),
       .choices = {"grid", "random", "latin_hypercube", "tpe", "halving"}},
      {.name = "points",
       .doc = "how many points to try, those that are refused included",
       .field = RAMET_SWEEP_FIELD(points),
       .low = 1,
       .high = static_cast<double>(kMostPoints),
       .otherwise = "all of the grid; other methods need it"},
      {.name = "seeds",
       .doc = "runs of each point, with seeds train.seed, train.seed + 1 and so on; the point's score is their mean",
       .field = RAMET_SWEEP_FIELD(seeds),
       .low = 1,
       .high = 1000},
      {.name = "seed",
       .doc = "of the draws of points",
       .field = RAMET_SWEEP_FIELD(seed),
       .low = 0,
       .high = kMostInteger},
      {.name = "metric",
       .doc = "the number that scores a run, by its name in the run's log: held_out_NAME of an evaluation, or a number "
              "of a training step",
       .field = RAMET_SWEEP_FIELD(metric)},
      {.name = "goal",
       .doc = "whether a small or a large score is good",
       .field = RAMET_SWEEP_FIELD(goal),
       .choices = {"min", "max"}},
      {.name = "of",
       .doc = "which value of the metric counts: the last one of the run, or the best",
       .field = RAMET_SWEEP_FIELD(of),
       .choices = {"last", "best"}},
      {.name = "stop.no_improvement",
       .doc = "end the sweep when so many points in a row, by number, have not been better than the best before them",
       .field = RAMET_SWEEP_FIELD(stop.no_improvement),
       .low = 0,
       .high = static_cast<double>(kMostPoints),
       .otherwise = "never"},
      {.name = "stop.seconds",
       .doc = "end the sweep after so many seconds of all its sessions; runs under way are saved and stopped",
       .field = RAMET_SWEEP_FIELD(stop.seconds),
       .low = 0,
       .high = 1e9,
       .otherwise = "no limit"},
      {.name = "stop.target",
       .doc = "draw no more points once one has reached this score",
       .field = RAMET_SWEEP_FIELD(stop.target),
       .otherwise = "none"},
      {.name = "use.parallel",
       .doc = "most runs at once. Point n is drawn from the results of points 0 to n - parallel",
       .field = RAMET_SWEEP_FIELD(use.parallel),
       .low = 1,
       .high = 1024},
      {.name = "use.threads",
       .doc = "threads of a run, each on a processor of the run's own",
       .field = RAMET_SWEEP_FIELD(use.threads),
       .low = 0,
       .high = 4096,
       .otherwise = "an equal share of use.cores"},
      {.name = "use.cores",
       .doc = "processors for all runs together",
       .field = RAMET_SWEEP_FIELD(use.cores),
       .low = 0,
       .high = 65536,
       .otherwise = "all"},
      {.name = "use.memory",
       .doc = "memory for all runs together, as \"12GiB\". A point that needs more is refused; one that needs more "
              "than an equal share runs beside fewer others",
       .field = RAMET_SWEEP_FIELD(use.memory),
       .otherwise = "nine tenths of what is free when the sweep begins"},
      {.name = "tpe.first",
       .doc = "random points before the first that learns from others",
       .field = RAMET_SWEEP_FIELD(tpe.first),
       .low = 1,
       .high = static_cast<double>(kMostPoints)},
      {.name = "tpe.candidates",
       .doc = "points drawn from the density of the good ones, of which the most promising is taken",
       .field = RAMET_SWEEP_FIELD(tpe.candidates),
       .low = 1,
       .high = 10000},
      {.name = "tpe.good",
       .doc = "share of the points that count as good",
       .field = RAMET_SWEEP_FIELD(tpe.good),
       .low = 0.01,
       .high = 0.9},
      {.name = "halving.points",
       .doc = "how the points of the first rung are drawn",
       .field = RAMET_SWEEP_FIELD(halving.points),
       .choices = {"grid", "random", "latin_hypercube", "tpe"}},
      {.name = "halving.steps",
       .doc = "steps of the first rung; the last one has all steps of the recipe. Learning rates follow the recipe's "
              "whole schedule on every rung",
       .field = RAMET_SWEEP_FIELD(halving.steps),
       .low = 1,
       .high = 1e9,
       .otherwise = "method = \"halving\" needs it"},
      {.name = "halving.factor",
       .doc = "each rung has so many times the steps of the one before it, and the best 1/factor of its points",
       .field = RAMET_SWEEP_FIELD(halving.factor),
       .low = 1.5,
       .high = 100},
  };
  return keys;
}

std::string number_text(double value) {
  if (value == std::floor(value) && std::fabs(value) < 1e15) return std::to_string(static_cast<int64_t>(value));
  return toml_of(value);
}

std::string kind_text(const SweepKey& key) {
  SweepOptions options;
  const SweepField field = key.field(options);
  if (!key.choices.empty()) return joined(key.choices);
  if (std::holds_alternative<std::string*>(field)) return "a text in quotes";
  const std::string kind = std::holds_alternative<int64_t*>(field) ? "a whole number" : "a number";
  return key.low == 0 && key.high == 0 ? kind : kind + " from " + number_text(key.low) + " to " + number_text(key.high);
}

std::string value_text(const toml::node& node) {
  if (node.is_table()) return "a table";
  if (node.is_array()) return "a list";
  if (const auto* text = node.as_string()) return "'" + text->get().substr(0, 100) + "'";
  if (const auto* number = node.as_integer()) return std::to_string(number->get());
  if (const auto* number = node.as_floating_point()) return toml_of(number->get());
  if (const auto* truth = node.as_boolean()) return truth->get() ? "true" : "false";
  return "a date or time";
}

[[noreturn]] void refuse_unknown(const std::string& name, const std::string& place) {
  std::vector<std::string> names = {"parameters", "set", "recipe"};
  for (const SweepKey& key : sweep_keys()) {
    names.push_back(key.name);
    if (!table_of(key.name).empty()) names.push_back(table_of(key.name));
  }
  std::string near = nearest_name(name, names);
  for (const auto& known : names)  // the right word in the wrong table
    if (near.empty() && leaf_of(known) == leaf_of(name)) near = known;
  if (near.empty() && (find_recipe_key(name) || is_recipe_table(name)))
    throw Error({.what = "'" + name.substr(0, 200) + "' is a key of the recipe",
                 .where = place,
                 .remedy = "Put it into [set], which changes it for all points, or into [parameters]"});
  throw Error({.what = "unknown key '" + name.substr(0, 200) + "'",
               .where = place,
               .expected = near.empty() ? "" : "perhaps '" + near + "'",
               .remedy = "`ramet sweep keys` lists all keys"});
}

/// A scalar of TOML; nothing for tables, lists, dates and texts with a NUL.
std::optional<RecipeValue> scalar_of(const toml::node& node) {
  if (const auto* text = node.as_string())
    return text->get().find('\0') == std::string::npos ? std::optional<RecipeValue>(text->get()) : std::nullopt;
  if (const auto* number = node.as_integer()) return number->get();
  if (const auto* number = node.as_floating_point()) return number->get();
  if (const auto* truth = node.as_boolean()) return truth->get();
  return {};
}

/// Reads one file.
class SweepReader {
 public:
  SweepReader(const std::string& source, const fs::path& folder) : source_(source), folder_(folder) {}

  SweepOptions read(const toml::table& table) {
    read_table(table, "");
    return std::move(options_);
  }

 private:
  std::string place_of(const toml::node& node) const {
    return source_ + ":" + std::to_string(node.source().begin.line);
  }
  std::string place_of(const toml::key& key) const { return source_ + ":" + std::to_string(key.source().begin.line); }

  void read_table(const toml::table& table, const std::string& prefix) {
    for (const auto& [key_node, value] : table) {
      const std::string name = prefix + std::string(key_node.str()), place = place_of(key_node);
      if (name == "parameters" || name == "set") {
        if (!value.is_table())
          throw Error({.what = "'" + name + "' is a table", .where = place, .found = value_text(value)});
        read_recipe_keys(*value.as_table(), "", name == "set");
      } else if (name == "recipe" && value.is_table()) {
        std::ostringstream text;
        text << toml::toml_formatter(*value.as_table());
        options_.recipe_text = text.str();
        options_.folder = fs::absolute(folder_).lexically_normal().string();
      } else if (const SweepKey* key = find_key(sweep_keys(), name)) {
        read_key(*key, value, place);
      } else if (is_table(sweep_keys(), name)) {
        if (!value.is_table())
          throw Error({.what = "'" + name + "' is a table", .where = place, .found = value_text(value)});
        read_table(*value.as_table(), name + ".");
      } else {
        refuse_unknown(name, place);
      }
    }
  }

  void read_key(const SweepKey& key, const toml::node& node, const std::string& place) {
    const auto refuse = [&](const std::string& what) -> Error {
      return Error(
          {.what = what, .where = place + " " + key.name, .found = value_text(node), .expected = kind_text(key)});
    };
    const auto number_in_range = [&](auto value) {
      const auto wide = static_cast<double>(value);
      if (!std::isfinite(wide)) throw refuse("not a finite number");
      if ((key.low != 0 || key.high != 0) && (wide < key.low || wide > key.high)) throw refuse("out of range");
      return value;
    };
    const auto number = [&]() -> double {
      if (const auto* whole = node.as_integer()) return number_in_range(static_cast<double>(whole->get()));
      if (const auto* real = node.as_floating_point()) return number_in_range(real->get());
      throw refuse("wrong kind of value");
    };
    const SweepField field = key.field(options_);
    if (auto* const* text = std::get_if<std::string*>(&field)) {
      const auto* given = node.as_string();
      if (!given || given->get().find('\0') != std::string::npos) throw refuse("wrong kind of value");
      if (!key.choices.empty() && std::find(key.choices.begin(), key.choices.end(), given->get()) == key.choices.end())
        throw refuse("unknown choice");
      **text = given->get();
      if (key.name == "recipe" && !(*text)->empty() && fs::path(**text).is_relative())
        **text = (fs::absolute(folder_) / **text).lexically_normal().string();
    } else if (auto* const* whole = std::get_if<int64_t*>(&field)) {
      const auto* given = node.as_integer();
      if (!given) throw refuse("wrong kind of value");
      **whole = number_in_range(given->get());
    } else if (auto* const* real = std::get_if<double*>(&field)) {
      **real = number();
    } else {
      *std::get<std::optional<double>*>(field) = number();
    }
  }

  /// The tables [parameters] and [set]: keys of the recipe, written whole or as nested tables.
  void read_recipe_keys(const toml::table& table, const std::string& prefix, bool set) {
    for (const auto& [key_node, value] : table) {
      const std::string name = prefix + std::string(key_node.str()), place = place_of(key_node);
      if (const RecipeKey* key = find_recipe_key(name)) {
        if (set)
          read_setting(*key, value, place);
        else
          read_parameter(*key, value, place);
      } else if (is_recipe_table(name)) {
        if (!value.is_table())
          throw Error({.what = "'" + name + "' is a table of the recipe", .where = place, .found = value_text(value)});
        read_recipe_keys(*value.as_table(), name + ".", set);
      } else {
        refuse_unknown_key(name, place);
      }
    }
  }

  RecipeValue value_of(const RecipeKey& key, const toml::node& node, const std::string& place) const {
    const std::optional<RecipeValue> scalar = scalar_of(node);
    if (!scalar)
      throw Error({.what = "wrong kind of value", .where = place + " " + key.name, .found = value_text(node)});
    return checked_value(key, *scalar, place, folder_);
  }

  void read_setting(const RecipeKey& key, const toml::node& node, const std::string& place) {
    const auto same = std::find_if(options_.settings.begin(), options_.settings.end(),
                                   [&](const auto& each) { return each.first == key.name; });
    if (same != options_.settings.end()) throw Error({.what = "a key is set twice", .where = place + " " + key.name});
    options_.settings.emplace_back(key.name, value_of(key, node, place));
  }

  void read_parameter(const RecipeKey& key, const toml::node& node, const std::string& place) {
    for (const Parameter& other : options_.parameters)
      if (other.key == key.name) throw Error({.what = "a parameter stands twice", .where = place + " " + key.name});
    Parameter parameter{.key = key.name};
    if (node.is_array()) {
      read_choices(key, *node.as_array(), place, parameter);
    } else if (node.is_table()) {
      read_domain(key, *node.as_table(), place, parameter);
    } else {
      throw Error({.what = "a parameter needs the values that it may have",
                   .where = place + " " + key.name,
                   .found = value_text(node),
                   .expected = "a list of values, or a table with low and high",
                   .remedy = "A value that all points share stands in [set]"});
    }
    options_.parameters.push_back(std::move(parameter));
  }

  void read_choices(const RecipeKey& key, const toml::array& list, const std::string& place, Parameter& parameter) {
    if (list.empty() || std::ssize(list) > kMostValues)
      throw Error({.what = list.empty() ? "a list without values" : "too many values",
                   .where = place + " " + key.name,
                   .expected = "1 to " + std::to_string(kMostValues) + " values"});
    for (const toml::node& each : list) {
      RecipeValue value = value_of(key, each, place_of(each));
      if (std::find(parameter.values.begin(), parameter.values.end(), value) != parameter.values.end())
        throw Error(
            {.what = "a value stands twice", .where = place_of(each) + " " + key.name, .found = value_text(each)});
      parameter.values.push_back(std::move(value));
    }
  }

  /// {low, high, scale, step, grid} or {values}
  void read_domain(const RecipeKey& key, const toml::table& table, const std::string& place, Parameter& parameter) {
    static const std::vector<std::string> words = {"low", "high", "scale", "step", "grid", "values"};
    for (const auto& [word, ignored] : table)
      if (std::find(words.begin(), words.end(), word.str()) == words.end()) {
        const std::string near = nearest_name(std::string(word.str()), words);
        throw Error({.what = "unknown key '" + std::string(word.str()).substr(0, 200) + "'",
                     .where = place_of(word) + " " + key.name,
                     .expected = near.empty() ? joined(words) : "perhaps '" + near + "'"});
      }
    if (const toml::node* values = table.get("values")) {
      if (!values->is_array() || table.size() > 1)
        throw Error({.what = "`values` is a list, and stands alone", .where = place + " " + key.name});
      return read_choices(key, *values->as_array(), place, parameter);
    }
    const auto bound = [&](const char* word) -> RecipeValue {
      const toml::node* node = table.get(word);
      if (!node)
        throw Error({.what = std::string("a range needs `") + word + "`",
                     .where = place + " " + key.name,
                     .expected = "low and high, or values"});
      RecipeValue value = value_of(key, *node, place_of(*node));
      if (!std::holds_alternative<int64_t>(value) && !std::holds_alternative<double>(value))
        throw Error({.what = "a range is of numbers",
                     .where = place_of(*node) + " " + key.name,
                     .found = value_text(*node),
                     .remedy = "Give a list of values"});
      return value;
    };
    const auto as_double = [](const RecipeValue& value) {
      const auto* whole = std::get_if<int64_t>(&value);
      return whole ? static_cast<double>(*whole) : std::get<double>(value);
    };
    const RecipeValue low = bound("low"), high = bound("high");
    const bool whole = std::holds_alternative<int64_t>(low);
    parameter.kind = whole ? Parameter::Kind::kInteger : Parameter::Kind::kNumber;
    parameter.low = as_double(low), parameter.high = as_double(high);
    if (std::fabs(parameter.low) > kMostInteger || std::fabs(parameter.high) > kMostInteger)
      throw Error({.what = "out of range", .where = place + " " + key.name, .expected = "at most 2^53"});
    read_scale(key, table, place, parameter);
    read_steps(key, table, place, parameter);
    if (parameter.low >= parameter.high)
      throw Error({.what = "`low` must be below `high`",
                   .where = place + " " + key.name,
                   .found = number_text(parameter.low) + " and " + number_text(parameter.high)});
  }

  void read_scale(const RecipeKey& key, const toml::table& table, const std::string& place, Parameter& parameter) {
    const toml::node* scale = table.get("scale");
    if (!scale) return;
    const auto* word = scale->as_string();
    if (!word || (word->get() != "log" && word->get() != "linear"))
      throw Error({.what = "unknown scale",
                   .where = place_of(*scale) + " " + key.name,
                   .found = value_text(*scale),
                   .expected = "\"linear\" or \"log\""});
    parameter.log = word->get() == "log";
    if (parameter.log && parameter.low <= 0)
      throw Error({.what = "a range of logarithms begins above 0",
                   .where = place + " " + key.name,
                   .found = "low = " + number_text(parameter.low)});
  }

  void read_steps(const RecipeKey& key, const toml::table& table, const std::string& place, Parameter& parameter) {
    const auto positive = [&](const char* word, double most) -> double {
      const toml::node* node = table.get(word);
      if (!node) return 0;
      const std::optional<RecipeValue> value = scalar_of(*node);
      const double number = !value                                    ? 0
                            : std::holds_alternative<int64_t>(*value) ? static_cast<double>(std::get<int64_t>(*value))
                            : std::holds_alternative<double>(*value)  ? std::get<double>(*value)
                                                                      : 0;
      if (!(number > 0 && number <= most))
        throw Error({.what = std::string("`") + word + "` is a number above 0",
                     .where = place_of(*node) + " " + key.name,
                     .found = value_text(*node),
                     .expected = "at most " + number_text(most)});
      return number;
    };
    const bool whole = parameter.kind == Parameter::Kind::kInteger;
    parameter.step = positive("step", std::max(parameter.high - parameter.low, 1e-300));
    if (whole && parameter.step == 0) parameter.step = 1;
    if (whole && parameter.step != std::floor(parameter.step))
      throw Error({.what = "the step between whole numbers is a whole number", .where = place + " " + key.name});
    if (parameter.step > 0 && (parameter.high - parameter.low) / parameter.step > kMostInteger)
      throw Error({.what = "`step` is too small for this range", .where = place + " " + key.name});
    const double grid = positive("grid", static_cast<double>(kMostValues));
    if (grid != std::floor(grid)) throw Error({.what = "`grid` is a whole number", .where = place + " " + key.name});
    parameter.grid = static_cast<int64_t>(grid);
  }

  const std::string& source_;
  const fs::path& folder_;
  SweepOptions options_;
};

/// What keys must mean together.
void check_sweep(SweepOptions& options, const std::string& source) {
  const auto refuse = [&](const std::string& what, const std::string& key, const std::string& expected,
                          const std::string& remedy = "") {
    throw Error({.what = what, .where = source + " " + key, .expected = expected, .remedy = remedy});
  };
  if (options.recipe.empty() == options.recipe_text.empty())
    refuse("a sweep has one recipe", "recipe", "recipe = \"FILE\", or a table [recipe]");
  if (options.name.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-") !=
          std::string::npos ||
      options.name.empty() || options.name.size() > 60 || options.name.starts_with('.'))
    refuse("not a name of a folder", "name", "at most 60 letters, digits, '-', '_' and '.', the first no '.'");
  if (options.parameters.empty()) refuse("nothing to vary", "parameters", "at least one key of the recipe");
  if (options.parameters.size() > 100) refuse("too many parameters", "parameters", "at most 100");
  for (const Parameter& parameter : options.parameters)
    for (const auto& [key, value] : options.settings)
      if (key == parameter.key) refuse("a key is set for all points and varied too", "set." + key, "one of the two");
  if (options.metric.empty()) refuse("a metric without a name", "metric", "as \"held_out_loss\"");
  if (options.halves() && options.halving.steps == 0)
    refuse("successive halving needs the steps of its first rung", "halving.steps", "a whole number");
  if (options.halves() && (options.stop.no_improvement > 0 || options.stop.target))
    refuse("this rule does not go with successive halving, which compares points of one rung",
           options.stop.target ? "stop.target" : "stop.no_improvement", "stop.seconds");
  if (options.drawing() == "grid") {
    for (const Parameter& parameter : options.parameters)
      if (parameter.count() == 0 && parameter.grid == 0)
        refuse("a grid needs the number of values of a range", "parameters." + parameter.key, "grid = N, or a step");
    const int64_t all = grid_points(options.parameters);
    if (options.points != 0 && options.points != all)
      refuse("the grid has " + std::to_string(all) + " points", "points", std::to_string(all),
             "Leave `points` out, or use method = \"random\"");
    options.points = all;
  }
  if (options.points == 0) refuse("the method needs a number of points", "points", "a whole number");
  if (!options.use.memory.empty()) {
    try {
      if (parse_size(options.use.memory) <= 0) refuse("no memory at all", "use.memory", "as \"12GiB\"");
    } catch (const Error& error) {
      ErrorParts parts = error.parts();
      parts.where = source + " use.memory";
      throw Error(std::move(parts));
    }
  }
  const auto& use = options.use;
  if (use.cores > 0 && use.parallel * std::max<int64_t>(use.threads, 1) > use.cores)
    refuse(std::to_string(use.parallel) + " runs of " + std::to_string(std::max<int64_t>(use.threads, 1)) +
               " threads need more than " + std::to_string(use.cores) + " cores",
           "use.parallel", "parallel x threads of at most use.cores");
}

std::string domain_text(const Parameter& parameter) {
  if (parameter.is_choice()) {
    std::string text;
    for (const RecipeValue& value : parameter.values) text += (text.empty() ? "" : ", ") + toml_of(value);
    return "[" + text + "]";
  }
  const bool whole = parameter.kind == Parameter::Kind::kInteger;
  const auto number = [&](double value) {
    return whole ? std::to_string(static_cast<int64_t>(value)) : toml_of(value);
  };
  std::string text = "{low = " + number(parameter.low) + ", high = " + number(parameter.high);
  if (parameter.log) text += ", scale = \"log\"";
  if (parameter.step > 0) text += ", step = " + number(parameter.step);
  if (parameter.grid > 0) text += ", grid = " + std::to_string(parameter.grid);
  return text + "}";
}

/// "" for values that say nothing: 0 of a key that does not take it, unset ones, empty texts.
std::string field_text(const SweepKey& key, const SweepField& field) {
  return std::visit(
      [&](const auto* value) -> std::string {
        using T = std::remove_cvref_t<decltype(*value)>;
        if constexpr (std::is_same_v<T, std::optional<double>>)
          return *value ? toml_of(RecipeValue(**value)) : "";
        else if constexpr (std::is_same_v<T, std::string>)
          return value->empty() ? "" : quoted_toml(*value);
        else
          return static_cast<double>(*value) < key.low ? "" : toml_of(RecipeValue(*value));
      },
      field);
}

}  // namespace

SweepOptions parse_sweep(std::string_view text, const std::string& source, const fs::path& folder) {
  if (text.size() > kMostText)
    throw Error({.what = "too long for a sweep",
                 .where = source,
                 .found = format_size(static_cast<int64_t>(text.size())),
                 .expected = "at most " + format_size(kMostText)});
  if (std::count(text.begin(), text.end(), '.') > kMostDots)
    throw Error({.what = "too many dots for a sweep", .where = source});
  SweepOptions options;
  try {
    options = SweepReader(source, folder).read(toml::parse(text));
  } catch (const toml::parse_error& error) {
    throw Error({.what = "not TOML: " + std::string(error.description()),
                 .where = source + ":" + std::to_string(error.source().begin.line)});
  }
  if (options.name.empty()) options.name = fs::path(source).stem().string();
  std::sort(options.parameters.begin(), options.parameters.end(),
            [](const Parameter& a, const Parameter& b) { return a.key < b.key; });
  std::sort(options.settings.begin(), options.settings.end(),
            [](const auto& a, const auto& b) { return a.first < b.first; });
  check_sweep(options, source);
  return options;
}

SweepOptions load_sweep(const fs::path& path) {
  return parse_sweep(read_file(path), path.string(), path.parent_path().empty() ? fs::path(".") : path.parent_path());
}

std::string print_sweep(const SweepOptions& options) {
  SweepOptions copy = options;
  std::string text, table;
  for (const SweepKey& key : sweep_keys()) {
    const std::string value = field_text(key, key.field(copy));
    if (value.empty()) continue;
    if (table_of(key.name) != table) table = table_of(key.name), text += "\n[" + table + "]\n";
    text += leaf_of(key.name) + " = " + value + "\n";
  }
  if (!options.settings.empty()) text += "\n[set]\n";
  for (const auto& [key, value] : options.settings) text += quoted_toml(key) + " = " + toml_of(value) + "\n";
  text += "\n[parameters]\n";
  for (const Parameter& parameter : options.parameters)
    text += quoted_toml(parameter.key) + " = " + domain_text(parameter) + "\n";
  return text;
}

std::string sweep_help() {
  SweepOptions defaults;
  std::string text, table;
  for (const SweepKey& key : sweep_keys()) {
    if (table_of(key.name) != table) table = table_of(key.name), text += "\n[" + table + "]\n";
    std::string value = field_text(key, key.field(defaults));
    if (value.empty()) value = key.otherwise;
    text += "  " + leaf_of(key.name) + " = " + kind_text(key) + (value.empty() ? "" : "; default " + value) + "\n";
    text += wrapped(key.doc, "      ", 100);
  }
  text += "\n[set]\n" + wrapped("keys of the recipe that all points share: 'train.steps' = 200", "      ", 100);
  text += "\n[parameters]\n" +
          wrapped(
              "keys of the recipe that points vary. A list of values: 'train.precision' = [\"f32\", \"bf16\"]; a "
              "range: 'train.schedule.learning_rate' = {low = 1e-5, high = 1e-2, scale = \"log\"}; whole numbers "
              "with a step: 'model.layers' = {low = 2, high = 8, step = 2}. grid = N: values of the range in a grid",
              "      ", 100);
  return text;
}

Recipe base_recipe(const SweepOptions& options) {
  std::vector<std::string> settings;
  for (const auto& [key, value] : options.settings) settings.push_back(setting_of(key, value));
  return options.recipe.empty() ? parse_recipe(options.recipe_text, options.name, options.folder, settings)
                                : load_recipe(options.recipe, settings);
}

}  // namespace ramet::sweep
