#include "ramet/api/log.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "ramet/base/clock.h"
#include "ramet/base/error.h"
#include "ramet/base/version.h"
#include "ramet/track/annotations.h"
#include "ramet/track/png.h"
#include "ramet/track/run_record.h"

namespace ramet::v0 {
namespace {

namespace fs = std::filesystem;
using json = nlohmann::ordered_json;

std::string dump(const json& value) { return value.dump(-1, ' ', false, json::error_handler_t::replace); }

/// JSON has no NaN and no infinity.
json number_json(double value) { return std::isfinite(value) ? json(value) : json(nullptr); }

json value_json(const LogValue& value) {
  if (const double* real = std::get_if<double>(&value)) return number_json(*real);
  return std::visit([](const auto& each) { return json(each); }, value);
}

json config_event(const std::map<std::string, LogValue>& values) {
  json config = json::object();
  for (const auto& [key, value] : values) config[key] = value_json(value);
  return {{"event", "config"}, {"values", config}};
}

/// Names are lines of text; a log separates them by NUL.
void check_name(const std::string& name) {
  constexpr size_t kMost = 500;
  if (name.empty() || name.size() > kMost || name.find('\0') != std::string::npos ||
      name.find('\n') != std::string::npos)
    throw Error({.what = "this name cannot be logged",
                 .found = "'" + name.substr(0, 60) + "'",
                 .expected = "one line of 1 to 500 bytes"});
}

std::string level_name(AlertLevel level) {
  switch (level) {
    case AlertLevel::kInfo: return "info";
    case AlertLevel::kWarning: return "warn";
    case AlertLevel::kError: return "error";
  }
  return "info";
}

}  // namespace

LogHistogram LogHistogram::of(std::span<const float> values, int64_t parts) {
  if (parts < 1 || parts > 100'000)
    throw Error({.what = "too few or too many parts",
                 .where = "histogram",
                 .found = std::to_string(parts),
                 .expected = "1 to 100000"});
  double least = 0, greatest = 0;
  bool any = false;
  for (const float value : values) {
    if (!std::isfinite(value)) continue;
    least = any ? std::min(least, double{value}) : value, greatest = any ? std::max(greatest, double{value}) : value;
    any = true;
  }
  if (least == greatest) least -= 0.5, greatest += 0.5;
  LogHistogram histogram;
  const double width = (greatest - least) / static_cast<double>(parts);
  for (int64_t i = 0; i <= parts; ++i) histogram.edges.push_back(least + width * static_cast<double>(i));
  histogram.counts.assign(static_cast<size_t>(parts), 0);
  for (const float value : values)
    if (std::isfinite(value))
      ++histogram.counts[static_cast<size_t>(std::clamp((value - least) / width, 0.0, static_cast<double>(parts - 1)))];
  return histogram;
}

void Run::State::event(const std::string& text) {
  if (!over) log->offer(text);
}

Run::Run(std::unique_ptr<State> state) : state_(std::move(state)) {}
Run::Run(Run&&) noexcept = default;

Run& Run::operator=(Run&& other) noexcept {
  if (this != &other) {
    Run old(std::move(state_));  // ends
    state_ = std::move(other.state_);
  }
  return *this;
}

Run::Run(const RunOptions& options) : state_(std::make_unique<State>()) {
  const track::RunFacts facts{.name = options.name, .recipe = "", .command = {}, .kernel_class = "", .threads = 0};
  state_->directory.emplace(options.exactly.empty() ? track::RunDirectory::create(options.folder, facts)
                                                    : track::RunDirectory::create_at(options.exactly, facts));
  state_->path = state_->directory->path().string();
  track::AnnotationChanges changes;
  if (!options.group.empty()) changes.group = options.group;
  if (!options.note.empty()) changes.note = options.note;
  if (!options.tags.empty()) changes.tags = options.tags;
  if (changes.group || changes.note || changes.tags) track::annotate_run(state_->path, changes);
  state_->log = std::make_shared<track::RunLogWriter>(state_->directory->log());
  state_->artifacts = std::make_unique<track::ArtifactWriter>(state_->path, *state_->log);
  state_->event(dump({{"event", "start"}, {"version", ramet::version()}, {"time", seconds_since_1970()}}));
  if (!options.config.empty()) config(options.config);
}

Run Run::join(const std::string& run, const std::string& writer) {
  const fs::path path = track::find_run(run, ".");
  const bool plain = !writer.empty() && writer.size() <= 100 && writer[0] != '.' &&
                     std::all_of(writer.begin(), writer.end(), [](unsigned char c) {
                       return std::isalnum(c) != 0 || c == '.' || c == '_' || c == '-';
                     });
  if (!plain)
    throw Error({.what = "not a name for a writer",
                 .found = "'" + writer.substr(0, 60) + "'",
                 .expected = "letters, digits, '.', '_' and '-'"});
  auto state = std::make_unique<State>();
  state->path = path.string();
  std::error_code error;
  fs::create_directories(path / "logs", error);
  state->log = std::make_shared<track::RunLogWriter>(path / "logs" / (writer + ".ramet"));
  state->artifacts = std::make_unique<track::ArtifactWriter>(path, *state->log);
  return Run(std::move(state));
}

Run::~Run() {
  if (!state_) return;
  try {
    finish();
  } catch (const std::exception&) {  // a destructor has nobody to tell
  }
}

void Run::log(int64_t step, std::span<const std::pair<std::string, double>> numbers) {
  for (const auto& [name, number] : numbers) check_name(name);
  if (!state_->over) state_->log->metrics(step, numbers);
}
void Run::log(int64_t step, std::initializer_list<std::pair<std::string, double>> numbers) {
  log(step, std::span(numbers.begin(), numbers.size()));
}
void Run::log(int64_t step, const std::string& name, double number) { log(step, {{name, number}}); }

void Run::log_image(int64_t step, const std::string& name, const LogImage& image) {
  check_name(name);
  const int64_t expected = image.width * image.height * image.channels;
  if (image.width < 1 || image.height < 1 || image.width > 65536 || image.height > 65536 || image.channels < 1 ||
      image.channels > 4 || static_cast<int64_t>(image.pixels.size()) != expected)
    throw Error({.what = "these are not the pixels of an image",
                 .where = name,
                 .found = std::to_string(image.pixels.size()) + " bytes for " + std::to_string(image.width) + " x " +
                          std::to_string(image.height) + " pixels of " + std::to_string(image.channels) + " channels",
                 .expected = "width x height x channels bytes, 1 to 4 channels"});
  if (state_->over) return;
  std::vector<uint8_t> pixels(image.pixels.begin(), image.pixels.end());
  const size_t bytes = pixels.size();
  state_->artifacts->offer({.kind = "image",
                            .name = name,
                            .type = "image/png",
                            .caption = image.caption,
                            .step = step,
                            .more = dump({{"width", image.width}, {"height", image.height}})},
                           bytes,
                           [pixels = std::move(pixels), width = image.width, height = image.height,
                            channels = image.channels] { return track::encode_png(width, height, channels, pixels); });
}

void Run::log_histogram(int64_t step, const std::string& name, const LogHistogram& histogram) {
  check_name(name);
  if (histogram.counts.empty() || histogram.edges.size() != histogram.counts.size() + 1)
    throw Error({.what = "not a histogram",
                 .where = name,
                 .found = std::to_string(histogram.edges.size()) + " edges and " +
                          std::to_string(histogram.counts.size()) + " counts",
                 .expected = "one edge more than counts"});
  if (state_->over) return;
  json value = {{"version", 1}, {"edges", json::array()}, {"counts", json::array()}};
  for (const double edge : histogram.edges) value["edges"].push_back(number_json(edge));
  for (const double count : histogram.counts) value["counts"].push_back(number_json(count));
  std::string text = dump(value);
  const size_t bytes = text.size();
  state_->artifacts->offer({.kind = "histogram", .name = name, .type = "application/json", .caption = "", .step = step},
                           bytes, [text = std::move(text)] { return text; });
}

void Run::log_table(int64_t step, const std::string& name, const LogTable& table) {
  check_name(name);
  json value = {{"version", 1}, {"columns", table.columns}, {"rows", json::array()}};
  for (const auto& row : table.rows) {
    if (row.size() != table.columns.size())
      throw Error({.what = "a row of another length than the columns",
                   .where = name,
                   .found = std::to_string(row.size()),
                   .expected = std::to_string(table.columns.size())});
    json cells = json::array();
    for (const auto& cell : row) cells.push_back(value_json(cell));
    value["rows"].push_back(std::move(cells));
  }
  if (state_->over) return;
  std::string text = dump(value);
  const size_t bytes = text.size();
  state_->artifacts->offer({.kind = "table", .name = name, .type = "application/json", .caption = "", .step = step},
                           bytes, [text = std::move(text)] { return text; });
}

void Run::log_text(int64_t step, const std::string& name, const std::string& text) {
  check_name(name);
  if (!state_->over)
    state_->artifacts->offer({.kind = "text", .name = name, .type = "text/plain", .caption = "", .step = step},
                             text.size(), [text] { return text; });
}

void Run::log_file(int64_t step, const std::string& name, const std::string& path) {
  check_name(name);
  std::error_code error;
  if (!fs::is_regular_file(path, error)) throw Error({.what = "no such file", .where = path});
  const fs::path absolute = fs::absolute(path, error);
  if (!state_->over)
    state_->artifacts->offer_file({.kind = "file",
                                   .name = name,
                                   .type = "application/octet-stream",
                                   .caption = absolute.filename().string(),
                                   .step = step},
                                  absolute);
}

void Run::alert(AlertLevel level, const std::string& title, const std::string& text, int64_t step) {
  constexpr size_t kMost = 64 << 10;
  state_->event(dump({{"event", "alert"},
                      {"kind", "user"},
                      {"level", level_name(level)},
                      {"step", step},
                      {"time", seconds_since_1970()},
                      {"title", title.substr(0, kMost)},
                      {"text", text.substr(0, kMost)}}));
}

void Run::config(const std::map<std::string, LogValue>& values) {
  for (const auto& [key, value] : values) check_name(key);
  state_->event(dump(config_event(values)));
}

void Run::tag(const std::string& tag) {
  track::AnnotationChanges changes;
  changes.added_tags = {tag};
  track::annotate_run(state_->path, changes);
}

void Run::axis(double samples_per_step, double units_per_step, const std::string& units) {
  state_->event(dump({{"event", "axis"},
                      {"samples_per_step", number_json(samples_per_step)},
                      {"units_per_step", number_json(units_per_step)},
                      {"units", units}}));
}

bool Run::flush() {
  const int64_t before = dropped();
  const bool written = state_->artifacts->flush();
  return written && dropped() == before;
}

int64_t Run::dropped() const {
  return state_->log->dropped() + state_->log->dropped_events() + state_->artifacts->dropped();
}

std::string Run::problem() const {
  const std::string problem = state_->artifacts->problem();
  return problem.empty() ? state_->log->problem() : problem;
}

void Run::finish(const std::string& error) {
  if (state_->over) return;
  state_->artifacts->flush();
  if (state_->directory) {
    json end = {{"event", "end"}, {"status", error.empty() ? "done" : "failed"}, {"time", seconds_since_1970()}};
    if (!error.empty()) end["error"] = error.substr(0, 10'000);
    state_->event(dump(end));
    state_->log->flush();
  }
  state_->over = true;
  state_->directory.reset();  // its lock
}

const std::string& Run::path() const { return state_->path; }
std::string Run::id() const { return fs::path(state_->path).filename().string(); }

}  // namespace ramet::v0
