#include <algorithm>
#include <cmath>
#include <cstdio>

#include "ramet/base/svg.h"
#include "ramet/layout/schedule_table.h"

namespace ramet::layout {
namespace {

std::string label_of(const ScheduleTable& table, const ScheduleEntry& entry) {
  std::string label = letter_of(entry.pass) + std::to_string(entry.micro);
  if (table.parts() > table.stages()) label += "/" + std::to_string(entry.part);
  return label;
}

/// What one column of text stands for: the shortest pass, but no less than a sixth of the longest.
double column_seconds(const ScheduleTable& table, const PassTimes& times, double makespan) {
  double least = makespan, most = 0;
  for (const auto& entries : table.entries)
    for (const auto& entry : entries) {
      if (times.of(entry) > 0) least = std::min(least, times.of(entry));
      most = std::max(most, times.of(entry));
    }
  return std::max({least, most / 6, 1e-300});
}

class TextTable {
 public:
  TextTable(const ScheduleTable& table, const PassTimes& times, int64_t columns)
      : table_(table), times_(times), most_(columns), outcome_(outcome_of(table, times)) {
    unit_ = column_seconds(table, times, outcome_.makespan);
    for (const auto& entries : table.entries)
      for (const auto& entry : entries) width_ = std::max(width_, label_of(table, entry).size() + 1);
  }

  std::string run() const {
    std::string text;
    const size_t digits = std::to_string(table_.stages() - 1).size();
    for (size_t stage = 0; stage < table_.entries.size(); ++stage) {
      std::string number = std::to_string(stage);
      text += "stage " + std::string(digits - number.size(), ' ') + number + "  " + line(stage) + "\n";
    }
    return text;
  }

 private:
  int64_t column(double time) const { return std::llround(time / unit_); }

  std::string line(size_t stage) const {
    std::string text;
    int64_t at = 0;
    const auto& entries = table_.entries[stage];
    for (size_t i = 0; i < entries.size(); ++i) {
      const double start = outcome_.starts[stage][i];
      const int64_t first = std::max(at, column(start));
      const int64_t end = std::max(first + 1, column(start + times_.of(entries[i])));
      if (most_ > 0 && end > most_) return text + "... and " + std::to_string(entries.size() - i) + " more";
      for (; at < first; ++at) text += "." + std::string(width_ - 1, ' ');
      std::string cell = label_of(table_, entries[i]);
      // Dashes show how long a pass takes.
      const size_t cells = static_cast<size_t>(end - first) * width_ - 1;
      cell += std::string(end - first > 1 && cells > cell.size() ? cells - cell.size() : 0, '-');
      cell += std::string(cells + 1 - std::min(cells + 1, cell.size()), ' ');
      text += cell;
      at = end;
    }
    while (!text.empty() && text.back() == ' ') text.pop_back();
    return text;
  }

  const ScheduleTable& table_;
  const PassTimes& times_;
  int64_t most_;
  ScheduleOutcome outcome_;
  double unit_ = 1;
  size_t width_ = 0;
};

constexpr double kWidth = 1200, kLeft = 70, kRight = 20, kTop = 52, kRow = 30, kGap = 6, kBottom = 34;

// Okabe and Ito's palette: told apart by readers who do not see red and green apart too.
constexpr const char* kColours[kPassCount] = {"#56b4e9", "#009e73", "#e69f00"};
constexpr const char* kPassNames[kPassCount] = {"forward", "backward", "weight gradient"};

class Picture : SvgPicture {
 public:
  Picture(const ScheduleTable& table, const PassTimes& times)
      : table_(table), times_(times), outcome_(outcome_of(table, times)) {
    scale_ = (kWidth - kLeft - kRight) / std::max(1e-300, outcome_.makespan);
    height_ = kTop + table.stages() * (kRow + kGap) + kBottom;
  }

  std::string run() {
    open(kWidth, height_);
    add("<text x=\"%.0f\" y=\"18\">%s, %d stages, %lld micro-batches: stages wait %.1f%% of the time</text>\n", kLeft,
        std::string(name_of(table_.kind)).c_str(), table_.stages(), static_cast<long long>(table_.micro_batches),
        100 * outcome_.bubble);
    legend();
    for (size_t stage = 0; stage < table_.entries.size(); ++stage) row(stage);
    axis();
    return close();
  }

 private:
  double x(double time) const { return kLeft + time * scale_; }
  double y(size_t stage) const { return kTop + static_cast<double>(stage) * (kRow + kGap); }

  void legend() {
    double at = kLeft;
    for (size_t pass = 0; pass < (table_.split_backward ? 3u : 2u); ++pass) {
      swatch(at, 28, kColours[pass], kPassNames[pass]);
      at += 34 + 7.5 * static_cast<double>(std::string(kPassNames[pass]).size());
    }
  }

  void row(size_t stage) {
    add("<text x=\"%.0f\" y=\"%.1f\" text-anchor=\"end\">stage %zu</text>\n", kLeft - 8, y(stage) + kRow / 2 + 4,
        stage);
    add("<rect x=\"%.2f\" y=\"%.1f\" width=\"%.2f\" height=\"%.0f\" fill=\"#eeeeee\"/>\n", kLeft, y(stage),
        outcome_.makespan * scale_, kRow);
    for (size_t i = 0; i < table_.entries[stage].size(); ++i) cell(stage, i);
  }

  void cell(size_t stage, size_t index) {
    const ScheduleEntry& entry = table_.entries[stage][index];
    const double start = outcome_.starts[stage][index], width = times_.of(entry) * scale_;
    const auto pass = static_cast<size_t>(entry.pass);
    const int first_of_round = entry.part - entry.part % table_.stages();
    const double opacity = 1 - 0.55 * first_of_round / std::max(1, table_.parts());
    add("<rect x=\"%.2f\" y=\"%.1f\" width=\"%.2f\" height=\"%.0f\" fill=\"%s\" fill-opacity=\"%.2f\" stroke=\"white\" "
        "stroke-width=\"0.4\"><title>%s of micro-batch %lld, part %d\nfrom %.4g to %.4g</title></rect>\n",
        x(start), y(stage), width, kRow, kColours[pass], opacity, kPassNames[pass], static_cast<long long>(entry.micro),
        entry.part, start, start + times_.of(entry));
    if (width >= 18)
      add("<text x=\"%.2f\" y=\"%.1f\" text-anchor=\"middle\" font-size=\"10\" pointer-events=\"none\">%lld</text>\n",
          x(start) + width / 2, y(stage) + kRow / 2 + 4, static_cast<long long>(entry.micro));
  }

  void axis() {
    const double bottom = y(table_.entries.size());
    for (int i = 0; i <= 8; ++i) {
      const double time = outcome_.makespan * i / 8;
      add("<line x1=\"%.2f\" x2=\"%.2f\" y1=\"%.1f\" y2=\"%.1f\" stroke=\"black\" stroke-width=\"0.6\"/>", x(time),
          x(time), bottom, bottom + 5);
      add("<text x=\"%.2f\" y=\"%.1f\" text-anchor=\"middle\">%.3g</text>\n", x(time), bottom + 18, time);
    }
  }

  const ScheduleTable& table_;
  const PassTimes& times_;
  ScheduleOutcome outcome_;
  double scale_ = 1, height_ = 0;
};

}  // namespace

std::string text_of(const ScheduleTable& table, const PassTimes& times, int64_t columns) {
  return TextTable(table, times, columns).run();
}

std::string svg_of(const ScheduleTable& table, const PassTimes& times) { return Picture(table, times).run(); }

}  // namespace ramet::layout
