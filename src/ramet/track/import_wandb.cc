#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "ramet/base/error.h"
#include "ramet/base/file.h"
#include "ramet/base/proto.h"
#include "ramet/track/import.h"
#include "ramet/track/json_text.h"
#include "ramet/track/wandb_file.h"

// The messages are those of wandb/proto/wandb_internal.proto:
//   Record: history 2, summary 3, config 5, stats 7, alert 10, run 17, exit 18
//   HistoryRecord: item 1, step 2 (num 1); ConfigRecord and SummaryRecord: update 1, remove 2
//   items: key 1, nested_key 2, value_json 16
//   RunRecord: run_id 1, entity 2, project 3, config 4, summary 5, run_group 6, display_name 8, notes 9, tags 10,
//     start_time 17, git 21 (commit 2); RunExitRecord: exit_code 1, runtime 2
//   StatsRecord: timestamp 2, item 3 (key 1, value_json 16); AlertRecord: title 1, text 2, level 3

namespace ramet::track {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr uintmax_t kMostFile = 256 << 20;

/// The JSON of W&B knows NaN and Infinity; here they become the texts "NaN", "Infinity" and "-Infinity".
json parse_wandb_json(std::string_view text) {
  std::string plain;
  bool quoted = false;
  for (size_t i = 0; i < text.size();) {
    const std::string_view rest = text.substr(i);
    if (quoted || rest[0] == '"') {
      if (rest[0] == '"') quoted = !quoted;
      const size_t count = quoted && rest[0] == '\\' && rest.size() > 1 ? 2 : 1;
      plain += rest.substr(0, count);
      i += count;
      continue;
    }
    size_t word = 1;
    for (const std::string_view name : {"NaN", "Infinity", "-Infinity"})
      if (rest.starts_with(name)) word = name.size();
    plain += word > 1 ? '"' + std::string(rest.substr(0, word)) + '"' : std::string(rest.substr(0, 1));
    i += word;
  }
  return parse_json(plain);
}

std::optional<double> number_of(const json& value) {
  if (value.is_boolean()) return value.get<bool>() ? 1 : 0;
  if (value.is_number()) return value.get<double>();
  if (value == "NaN") return std::numeric_limits<double>::quiet_NaN();
  if (value == "Infinity") return std::numeric_limits<double>::infinity();
  if (value == "-Infinity") return -std::numeric_limits<double>::infinity();
  return std::nullopt;
}

std::string text_or_empty(const json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

struct Item {
  std::string key;  ///< nested keys joined by dots
  json value;
};

Item read_item(std::string_view bytes) {
  Item item;
  std::string nested;
  ProtoReader fields(bytes);
  while (fields.next()) switch (fields.field()) {
      case 1: item.key = fields.bytes(); break;
      case 2: nested += (nested.empty() ? "" : ".") + std::string(fields.bytes()); break;
      case 16: item.value = parse_wandb_json(fields.bytes()); break;
      default: break;
    }
  if (item.key.empty()) item.key = nested;
  return item;
}

double read_timestamp(std::string_view bytes) {
  double seconds = 0;
  ProtoReader fields(bytes);
  while (fields.next()) {
    if (fields.field() == 1) seconds += static_cast<double>(fields.integer());
    if (fields.field() == 2) seconds += static_cast<double>(fields.integer()) * 1e-9;
  }
  return seconds;
}

/// Calls `take` with each value of an object's objects, by names joined with dots.
template <typename Take>
void flatten(const std::string& key, const json& value, const Take& take) {
  if (!value.is_object() || value.empty() || value.contains("_type")) return take(key, value);
  for (const auto& [name, below] : value.items()) flatten(key.empty() ? name : key + "." + name, below, take);
}

/// Our names of the system metrics of W&B; others keep theirs.
std::string system_name(const std::string& key) {
  static const std::map<std::string, std::string> kNames = {
      {"cpu", "cpu_percent"}, {"memory_percent", "memory_percent"}, {"proc.memory.rssMB", "process_memory_megabytes"}};
  if (const auto found = kNames.find(key); found != kNames.end()) return found->second;
  if (!key.starts_with("gpu.")) return key;
  const size_t dot = key.find('.', 4);
  if (dot == std::string::npos) return key;
  const std::string gpu = "gpu" + key.substr(4, dot - 4), what = key.substr(dot + 1);
  if (what == "gpu") return gpu + "_percent";
  if (what == "memoryAllocatedBytes") return gpu + "_memory_bytes";
  if (what == "powerWatts") return gpu + "_watts";
  return key;
}

/// A run out of the records of a file.
class WandbCollector {
 public:
  WandbCollector(ImportedRun& run, fs::path files) : run_(run), files_(std::move(files)) {}

  void take(std::string_view record) {
    ProtoReader fields(record);
    while (fields.next()) switch (fields.field()) {
        case 2: take_history(fields.bytes()); break;
        case 3: take_summary(fields.bytes()); break;
        case 5: take_config(fields.bytes()); break;
        case 7: take_stats(fields.bytes()); break;
        case 10: take_alert(fields.bytes()); break;
        case 17: take_run(fields.bytes()); break;
        case 18: take_exit(fields.bytes()); break;
        default: break;
      }
    damaged_ += fields.damaged();
  }

  void finish() {
    for (const auto& [key, value] : config_) run_.config.emplace_back(key, dump_json(value));
    // What a run says of itself at its end alone.
    for (const auto& [key, value] : summary_)
      if (!run_.metrics.contains(key))
        run_.metrics[key].push_back({std::max<int64_t>(last_step_, 0), last_time_, value});
    if (runtime_ > 0 && run_.started > 0) run_.ended = run_.started + runtime_;
    const auto told = [&](int64_t count, const char* what) {
      if (count > 0) run_.remarks.push_back(std::to_string(count) + what);
    };
    told(damaged_, " records are damaged and were read in part");
    told(absent_, " files that were logged are not beside the .wandb file");
    told(others_, " values are neither numbers, texts, images nor histograms and were left out");
  }

 private:
  void take_history(std::string_view bytes) {
    int64_t step = last_step_ + 1;
    double time = 0;
    std::vector<Item> items;
    ProtoReader fields(bytes);
    while (fields.next()) {
      if (fields.field() == 1) {
        items.push_back(read_item(fields.bytes()));
        const Item& item = items.back();
        if (item.key == "_step" && item.value.is_number_integer()) step = item.value.get<int64_t>();
        if (item.key == "_timestamp" && item.value.is_number()) time = item.value.get<double>();
      } else if (fields.field() == 2) {
        ProtoReader number(fields.bytes());
        step = 0;  // zero is not written
        while (number.next())
          if (number.field() == 1) step = number.integer();
      }
    }
    last_step_ = step, last_time_ = time;
    for (const Item& item : items) {
      if (item.key.starts_with('_')) continue;
      flatten(item.key, item.value, [&](const std::string& key, const json& value) { log(key, value, step, time); });
    }
  }

  void log(const std::string& key, const json& value, int64_t step, double time) {
    if (const auto number = number_of(value)) {
      run_.metrics[key].push_back({step, time, *number});
    } else if (value.is_string()) {
      run_.media.push_back({"text", key, step, time, "text/plain", value.get<std::string>(), ""});
    } else if (value.is_object()) {
      log_object(key, value, step, time);
    } else {
      ++others_;
    }
  }

  void log_object(const std::string& key, const json& value, int64_t step, double time) {
    const std::string type = text_or_empty(value, "_type"), caption = text_or_empty(value, "caption");
    if (type == "histogram") {
      log_histogram(key, value, step, time);
    } else if (const auto names = value.find("filenames"); names != value.end() && names->is_array()) {
      const auto captions = value.find("captions");
      for (size_t i = 0; i < names->size(); ++i) {
        const bool told =
            captions != value.end() && captions->is_array() && i < captions->size() && (*captions)[i].is_string();
        if ((*names)[i].is_string())
          log_file(key, (*names)[i].get<std::string>(), told ? (*captions)[i].get<std::string>() : "", step, time);
      }
    } else if (const std::string path = text_or_empty(value, "path"); !path.empty()) {
      log_file(key, path, caption, step, time);
    } else {
      ++others_;
    }
  }

  void log_histogram(const std::string& key, const json& value, int64_t step, double time) {
    Histogram histogram;
    const auto numbers = [&](const json& object, const char* name, std::vector<double>& to) {
      const auto list = object.find(name);
      if (list == object.end() || !list->is_array()) return;
      for (const json& number : *list) to.push_back(number_of(number).value_or(0));
    };
    numbers(value, "values", histogram.counts);
    numbers(value, "bins", histogram.edges);
    if (const auto packed = value.find("packedBins"); packed != value.end() && packed->is_object()) {
      const double least = packed->value("min", json(0)).is_number() ? packed->value("min", json(0)).get<double>() : 0;
      const double size = packed->value("size", json(0)).is_number() ? packed->value("size", json(0)).get<double>() : 0;
      histogram.edges.clear();
      for (size_t i = 0; i <= histogram.counts.size(); ++i)
        histogram.edges.push_back(least + size * static_cast<double>(i));
    }
    if (histogram.counts.empty() || histogram.edges.size() != histogram.counts.size() + 1) {
      ++others_;
      return;
    }
    run_.media.push_back({"histogram", key, step, time, "application/json", json_of(histogram), ""});
  }

  /// A file that W&B copied into the folder `files` beside the .wandb file, and none that lies elsewhere.
  void log_file(const std::string& key, const std::string& name, const std::string& caption, int64_t step,
                double time) {
    std::error_code error;
    const fs::path root = fs::canonical(files_, error);
    const fs::path path = error ? fs::path() : fs::canonical(root / name, error);
    const bool inside = !error && std::mismatch(root.begin(), root.end(), path.begin(), path.end()).first == root.end();
    if (!inside || !fs::is_regular_file(path, error) || fs::file_size(path, error) > kMostFile) {
      ++absent_;
      return;
    }
    std::string bytes = read_file(path);
    const std::string_view type = image_type(bytes);
    run_.media.push_back({type.empty() ? "file" : "image", key, step, time,
                          type.empty() ? "application/octet-stream" : std::string(type), std::move(bytes), caption});
  }

  void take_config(std::string_view bytes) {
    ProtoReader fields(bytes);
    while (fields.next()) {
      const Item item = read_item(fields.bytes());
      if (item.key == "_wandb" || item.key.starts_with("_wandb.")) continue;
      if (fields.field() == 1)
        flatten(item.key, item.value, [&](const std::string& key, const json& value) { config_[key] = value; });
      if (fields.field() == 2) config_.erase(item.key);
    }
  }

  void take_summary(std::string_view bytes) {
    ProtoReader fields(bytes);
    while (fields.next()) {
      const Item item = read_item(fields.bytes());
      if (item.key.starts_with('_')) continue;
      if (fields.field() == 1)
        flatten(item.key, item.value, [&](const std::string& key, const json& value) {
          if (const auto number = number_of(value)) summary_[key] = *number;
        });
      if (fields.field() == 2) summary_.erase(item.key);
    }
  }

  void take_stats(std::string_view bytes) {
    double time = 0;
    std::vector<Item> items;
    ProtoReader fields(bytes);
    while (fields.next()) {
      if (fields.field() == 2) time = read_timestamp(fields.bytes());
      if (fields.field() == 3) items.push_back(read_item(fields.bytes()));
    }
    for (const Item& item : items)
      if (const auto number = number_of(item.value))
        run_.system[system_name(item.key)].push_back({samples_, time, *number});
    ++samples_;
  }

  void take_alert(std::string_view bytes) {
    std::string title, text, level;
    ProtoReader fields(bytes);
    while (fields.next()) {
      if (fields.field() == 1) title = fields.bytes();
      if (fields.field() == 2) text = fields.bytes();
      if (fields.field() == 3) level = fields.bytes();
    }
    run_.events.push_back(dump_json({{"event", "alert"},
                                     {"kind", "user"},
                                     {"level", level == "ERROR"  ? "error"
                                               : level == "WARN" ? "warn"
                                                                 : "info"},
                                     {"step", std::max<int64_t>(last_step_, 0)},
                                     {"time", last_time_},
                                     {"title", title},
                                     {"text", text}}));
  }

  void take_run(std::string_view bytes) {
    std::string entity, project;
    ProtoReader fields(bytes);
    while (fields.next()) switch (fields.field()) {
        case 1: run_.id = fields.bytes(); break;
        case 2: entity = fields.bytes(); break;
        case 3: project = fields.bytes(); break;
        case 4: take_config(fields.bytes()); break;
        case 5: take_summary(fields.bytes()); break;
        case 6: run_.group = fields.bytes(); break;
        case 8: run_.name = fields.bytes(); break;
        case 9: run_.note = fields.bytes(); break;
        case 10: add_tag(fields.bytes()); break;
        case 17: run_.started = read_timestamp(fields.bytes()); break;
        case 21: take_git(fields.bytes()); break;
        default: break;
      }
    if (!project.empty()) run_.source = (entity.empty() ? "" : entity + "/") + project;
  }

  void add_tag(std::string_view tag) {
    if (std::find(run_.tags.begin(), run_.tags.end(), tag) == run_.tags.end()) run_.tags.emplace_back(tag);
  }

  void take_git(std::string_view bytes) {
    ProtoReader fields(bytes);
    while (fields.next())
      if (fields.field() == 2) run_.git = fields.bytes();
  }

  void take_exit(std::string_view bytes) {
    int64_t code = 0;
    ProtoReader fields(bytes);
    while (fields.next()) {
      if (fields.field() == 1) code = fields.integer();
      if (fields.field() == 2) runtime_ = static_cast<double>(fields.integer());
    }
    run_.status = code == 0 ? "done" : "failed";
    if (code != 0) run_.error = "exit status " + std::to_string(code);
  }

  ImportedRun& run_;
  const fs::path files_;
  std::map<std::string, json> config_;
  std::map<std::string, double> summary_;
  int64_t last_step_ = -1, samples_ = 0, damaged_ = 0, absent_ = 0, others_ = 0;
  double last_time_ = 0, runtime_ = 0;
};

}  // namespace

void read_wandb_file(const ImportSource& source, const ImportSink& sink) {
  const MappedFile file(source.path);
  if (!is_wandb_file(file.view()))
    throw Error({.what = "not a .wandb file", .where = source.path.string(), .expected = "the first bytes ':W&B'"});
  ImportedRun run;
  run.from = name_of(ImportKind::kWandb);
  run.path = fs::absolute(source.path);
  WandbCollector collector(run, source.path.parent_path() / "files");
  const int64_t skipped = read_wandb_records(file.view(), [&](std::string_view record) { collector.take(record); });
  if (run.id.empty()) run.id = source.name;
  if (!sink.wants(run.id)) return;
  if (skipped > 0) run.remarks.push_back(skipped_bytes_text(skipped));
  collector.finish();
  if (run.name.empty()) run.name = run.id;
  sink.take(std::move(run));
  if (sink.progress) sink.progress(1, 1);
}

}  // namespace ramet::track
