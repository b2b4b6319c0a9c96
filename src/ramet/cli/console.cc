#include "ramet/cli/console.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "ramet/base/file.h"

namespace ramet::cli {
namespace {

constexpr double kRedraw = 0.1;   // seconds between two drawings of a bar
constexpr double kLineEvery = 5;  // seconds between two lines where there is no terminal
constexpr double kSmooth = 0.9;   // share of the past in the speed that is shown

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

size_t terminal_width() {
  winsize size{};
  if (::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return 80;
  return size.ws_col;
}

std::string bar_text(double share, size_t width) {
  const auto full = static_cast<size_t>(std::clamp(share, 0.0, 1.0) * static_cast<double>(width));
  return "[" + std::string(full, '=') + (full < width ? ">" + std::string(width - full - 1, ' ') : "") + "]";
}

bool is_number(const std::string& text) {
  return !text.empty() && text.find_first_not_of("0123456789.,-+e%") == std::string::npos;
}

/// Columns that a text takes: code points, not bytes.
size_t columns(const std::string& text) {
  return static_cast<size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

}  // namespace

struct JsonLine::Value {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
};

JsonLine::JsonLine() : value_(std::make_unique<Value>()) {}
JsonLine::~JsonLine() = default;
JsonLine::JsonLine(JsonLine&&) noexcept = default;

JsonLine& JsonLine::set(const std::string& key, const std::string& value) { return value_->json[key] = value, *this; }
JsonLine& JsonLine::set(const std::string& key, int64_t value) { return value_->json[key] = value, *this; }
JsonLine& JsonLine::set(const std::string& key, bool value) { return value_->json[key] = value, *this; }
JsonLine& JsonLine::set(const std::string& key, const std::vector<std::string>& values) {
  return value_->json[key] = values, *this;
}
JsonLine& JsonLine::set(const std::string& key, double value) {
  if (std::isfinite(value))
    value_->json[key] = value;
  else
    value_->json[key] = nullptr;
  return *this;
}
JsonLine& JsonLine::set(const Numbers& numbers) {
  for (const auto& [name, value] : numbers) set(name, value);
  return *this;
}
JsonLine& JsonLine::set_json(const std::string& key, const std::string& json) {
  return value_->json[key] = nlohmann::ordered_json::parse(json), *this;
}
std::string JsonLine::text() const {
  return value_->json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}
void JsonLine::print() const {
  std::fputs((text() + "\n").c_str(), stdout);
  std::fflush(stdout);
}

bool is_terminal() {
  const char* kind = std::getenv("TERM");
  return ::isatty(STDERR_FILENO) == 1 && kind && std::string(kind) != "dumb";
}

bool may_colour() {
  const char* plain = std::getenv("NO_COLOR");
  return is_terminal() && !(plain && *plain);
}

int report(const Error& error, bool json) {
  const int status = error.kind() == ErrorKind::kUsage ? 2 : 1;
  if (json) {
    const ErrorParts& parts = error.parts();
    const std::string text = JsonLine()
                                 .set("error", parts.what)
                                 .set("where", parts.where)
                                 .set("found", parts.found)
                                 .set("expected", parts.expected)
                                 .set("remedy", parts.remedy)
                                 .set("status", static_cast<int64_t>(status))
                                 .text();
    std::fputs((text + "\n").c_str(), stderr);
  } else {
    const std::string mark = may_colour() ? "\033[1;31mramet:\033[0m " : "ramet: ";
    std::fputs((mark + error.what() + "\n").c_str(), stderr);
  }
  return status;
}

void warn(const std::string& text) {
  const std::string mark = may_colour() ? "\033[1;33mramet: warning:\033[0m " : "ramet: warning: ";
  std::fputs((mark + text + "\n").c_str(), stderr);
}

void note(const std::string& text) {
  const std::string mark = may_colour() ? "\033[1mramet: note:\033[0m " : "ramet: note: ";
  std::fputs((mark + text + "\n").c_str(), stderr);
}

std::string duration_text(double seconds) {
  if (!std::isfinite(seconds) || seconds < 0) return "?";
  const auto whole = static_cast<int64_t>(std::lround(seconds));
  char text[32];
  if (seconds < 9.95)
    std::snprintf(text, sizeof text, "%.1fs", seconds);
  else if (whole < 60)
    std::snprintf(text, sizeof text, "%llds", static_cast<long long>(whole));
  else if (whole < 3600)
    std::snprintf(text, sizeof text, "%lldm%02llds", static_cast<long long>(whole / 60),
                  static_cast<long long>(whole % 60));
  else
    std::snprintf(text, sizeof text, "%lldh%02lldm", static_cast<long long>(whole / 3600),
                  static_cast<long long>(whole / 60 % 60));
  return text;
}

std::string number_text(double value) {
  char text[48];
  const double size = std::fabs(value);
  if ((size >= 1000 || value == std::floor(value)) && size < 1e15) {
    std::snprintf(text, sizeof text, "%.0f", value);
    std::string grouped(text);
    for (auto at = static_cast<int64_t>(grouped.size()) - 3; at > (value < 0 ? 1 : 0); at -= 3)
      grouped.insert(static_cast<size_t>(at), ",");
    return grouped;
  }
  std::snprintf(text, sizeof text, size < 1e-3 ? "%.3g" : size < 100 ? "%.4f" : "%.1f", value);
  return text;
}

std::string numbers_text(const Numbers& numbers, bool shares) {
  std::string text;
  for (const auto& [name, value] : numbers) {
    std::string label = name;
    std::replace(label.begin(), label.end(), '_', ' ');
    char share[32];
    std::snprintf(share, sizeof share, "%.1f%%", 100 * value);
    text += (text.empty() ? "" : "  ") + label + " " +
            (std::isnan(value)                      ? "not defined"
             : shares && name.ends_with("accuracy") ? std::string(share)
                                                    : number_text(value));
  }
  return text;
}

std::string table_text(const std::vector<std::vector<std::string>>& rows) {
  std::vector<size_t> widths;
  for (const auto& row : rows)
    for (size_t i = 0; i < row.size(); ++i) {
      if (i == widths.size()) widths.push_back(0);
      widths[i] = std::max(widths[i], columns(row[i]));
    }
  // A column of numbers aligns right; the first row may be a head, a dash stands for no number.
  std::vector<bool> right(widths.size(), rows.size() > 1);
  for (size_t r = 1; r < rows.size(); ++r)
    for (size_t i = 0; i < rows[r].size(); ++i) right[i] = right[i] && (rows[r][i].empty() || is_number(rows[r][i]));
  std::string text;
  for (const auto& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      const std::string space(widths[i] - columns(row[i]), ' ');
      line += (i ? "  " : "") + (right[i] ? space + row[i] : row[i] + space);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

StepProgress::StepProgress(std::string name, std::string units, int64_t begin, int64_t end)
    : name_(std::move(name)), units_(std::move(units)), begin_(begin), end_(end), started_(now()) {}

StepProgress::~StepProgress() { clear(); }

void StepProgress::step(int64_t done, const Numbers& metrics) {
  const double loss = number_of(metrics, "loss"), seconds = number_of(metrics, "step_seconds"),
               rate = number_of(metrics, units_ + "_per_second");
  const double keep = done == begin_ + 1 ? 0 : kSmooth;
  loss_ = loss;
  rate_ = keep * rate_ + (1 - keep) * rate;
  seconds_a_step_ = keep * seconds_a_step_ + (1 - keep) * seconds;
  if (const double scale = number_of(metrics, "loss_scale"); !std::isnan(scale)) {
    const double skipped = number_of(metrics, "skipped_steps");
    scale_ = "  scale " + number_text(scale) + (skipped > 0 ? ", " + number_text(skipped) + " skipped" : "");
  }
  const bool last = done >= end_, first = done == begin_ + 1;
  const double time = now();
  if (!first && !last && time - drawn_ < (is_terminal() ? kRedraw : kLineEvery)) return;
  drawn_ = time;
  draw(done);
}

void StepProgress::draw(int64_t done) {
  const std::string left = done >= end_ ? duration_text(now() - started_) + " in all"
                                        : duration_text(seconds_a_step_ * static_cast<double>(end_ - done)) + " left";
  tail_ = std::to_string(done) + "/" + std::to_string(end_) + "  loss " + number_text(loss_) + scale_ + "  " +
          number_text(std::round(rate_)) + " " + units_ + "/s  " + left;
  if (!is_terminal()) {
    std::fputs((name_ + "  step " + tail_ + "\n").c_str(), stderr);
    return;
  }
  const size_t used = columns(name_) + tail_.size() + 7, width = terminal_width();
  const std::string bar =
      width > used + 10
          ? bar_text(static_cast<double>(done) / static_cast<double>(end_), std::min<size_t>(40, width - used)) + "  "
          : "";
  const std::string line = name_ + "  " + (may_colour() && !bar.empty() ? "\033[32m" + bar + "\033[0m" : bar) + tail_;
  std::fputs(("\r\033[K" + line).c_str(), stderr);
  std::fflush(stderr);
  shown_ = true;
}

void StepProgress::line(const std::string& text) {
  const bool had = shown_;
  if (had) std::fputs("\r\033[K", stderr);
  std::fputs((text + "\n").c_str(), stderr);
  drawn_ = -1e9;
}

void StepProgress::clear() {
  if (shown_) std::fputs("\n", stderr);
  shown_ = false;
}

void StatusLine::show(const std::string& text) {
  constexpr size_t kMost = 160;
  drawn_ = is_terminal();
  std::fputs((drawn_ ? "\r\033[K" + text.substr(0, kMost) : text + "\n").c_str(), stderr);
  std::fflush(stderr);
}

void StatusLine::clear() {
  if (drawn_) std::fputs("\r\033[K", stderr);
  drawn_ = false;
}

void ByteProgress::show(std::string_view part, int64_t done, int64_t total) {
  const double time = now();
  const bool last = total > 0 && done >= total, fresh = part != part_;
  if (!fresh && !last && time - drawn_ < (is_terminal() ? kRedraw : kLineEvery)) return;
  drawn_ = time;
  if (fresh && shown_) std::fputs("\n", stderr);
  part_ = part;
  const double share = total > 0 ? static_cast<double>(done) / static_cast<double>(total) : 0;
  char percent[16];
  std::snprintf(percent, sizeof percent, "%3.0f%%", 100 * share);
  if (!is_terminal()) {
    shown_ = false;
    std::fputs((part_ + " " + percent + "\n").c_str(), stderr);
    return;
  }
  std::fputs(("\r\033[K" + part_ + "  " + bar_text(share, 30) + " " + percent).c_str(), stderr);
  std::fflush(stderr);
  shown_ = true;
}

ByteProgress::~ByteProgress() {
  if (shown_) std::fputs("\n", stderr);
}

void print_profile(const Cluster& cluster, int64_t calls) {
  for (const int device : cluster.local_devices()) {
    if (cluster.mesh().devices() > 1) std::fprintf(stderr, "device %d:\n", device);
    std::fputs(profile_text(cluster.profile_by_kernel(device), calls).c_str(), stderr);
  }
}

}  // namespace ramet::cli
