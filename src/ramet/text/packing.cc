#include "ramet/text/packing.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <set>

#include "ramet/base/error.h"
#include "ramet/base/file.h"

namespace ramet::text {
namespace {

constexpr int64_t kLongestRow = 1 << 20;
constexpr int64_t kMostSequences = int64_t{1} << 40;  // of one length: sums over lengths stay far from 2^63
constexpr size_t kMostStrategies = 500'000;  // full packs to choose from; depth 3 at 512 tokens has 22 thousand
constexpr int32_t kShort = 8;                // sequences up to here may be short or left over at little cost,
constexpr double kShortWeight = 0.09;        // as published

/// Reads one whole number at the front of `text`; false when there is none.
bool take_number(std::string_view& text, int64_t& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc()) return false;
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  return true;
}

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }

void skip_blanks(std::string_view& text) {
  while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
}

/// A line for messages: shortened, and without bytes that a terminal would not show.
std::string shown(std::string_view line) {
  std::string text;
  for (const char c : line.substr(0, 60)) text += c >= 32 && c < 127 ? c : c == '\t' ? ' ' : '?';
  return "'" + text + (line.size() > 60 ? "...'" : "'");
}

void parse_line(std::string_view line, const std::string& where, LengthHistogram& histogram) {
  std::string_view rest = line;
  int64_t length = 0, count = 0;
  const auto refuse = [&](const std::string& what, const std::string& expected) {
    throw Error({.what = what, .where = where, .found = shown(line), .expected = expected});
  };
  const std::string form = "a length and a count, as \"128<tab>5000\"";
  if (!take_number(rest, length)) refuse("not a line of a histogram", form);
  const size_t before = rest.size();
  skip_blanks(rest);
  if (rest.size() == before || !take_number(rest, count)) refuse("not a line of a histogram", form);
  skip_blanks(rest);
  if (!rest.empty()) refuse("not a line of a histogram", form);
  if (length < 1 || length > kLongestRow)
    refuse("a length that no sequence has", "1 to " + std::to_string(kLongestRow) + " tokens");
  if (count < 0 || count > kMostSequences)
    refuse("a count of sequences that cannot be", "0 to " + std::to_string(kMostSequences));
  if (length <= histogram.row())
    refuse("lengths must rise", "more than " + std::to_string(histogram.row()) + ", the length before");
  histogram.counts.resize(static_cast<size_t>(length + 1), 0);
  histogram.counts.back() = count;
}

void check_depth(int64_t depth) {
  if (depth < 0)
    throw Error({.what = "the depth of packing is out of range",
                 .found = std::to_string(depth),
                 .expected = "1 or more sequences a row, or 0 for no limit"});
}

/// Packs in the making. Those of one content are one group, found by the room that is left.
class Groups {
 public:
  Groups(int64_t row, int64_t depth, bool most_room)
      : row_(row), depth_(depth == 0 ? row : depth), most_room_(most_room) {}

  /// Packs that exist already.
  void put(PackKind kind) {
    int64_t room = row_;
    for (const int32_t length : kind.lengths) room -= length;
    if (kind.packs == 0) return;
    if (room == 0 || static_cast<int64_t>(kind.lengths.size()) >= depth_)
      full_.push_back(std::move(kind));
    else
      open_[room].push_back(std::move(kind));
  }

  /// Places `count` sequences; lengths come longest first.
  void place(int32_t length, int64_t count) {
    while (count > 0) {
      const auto at = most_room_ ? roomiest(length) : open_.lower_bound(length);
      PackKind kind{{}, count};  // an empty pack
      if (at != open_.end()) {
        kind = std::move(at->second.back());
        at->second.pop_back();
        if (at->second.empty()) open_.erase(at);
      }
      count -= extend(std::move(kind), length, count);
    }
  }

  std::vector<PackKind> take() {
    for (auto& [room, kinds] : open_)
      for (PackKind& kind : kinds) full_.push_back(std::move(kind));
    open_.clear();
    return std::move(full_);
  }

 private:
  using Open = std::map<int64_t, std::vector<PackKind>>;
  Open::iterator roomiest(int64_t length) {
    if (open_.empty() || open_.rbegin()->first < length) return open_.end();
    return std::prev(open_.end());
  }

  /// Puts sequences into some of `kind`'s packs, gives the rest of the packs back; returns how many it placed. Into
  /// the fullest pack go as many as fit, for the next of them would choose it again.
  int64_t extend(PackKind kind, int32_t length, int64_t count) {
    int64_t room = row_, each = 1;
    for (const int32_t there : kind.lengths) room -= there;
    if (!most_room_) each = std::min({room / length, depth_ - static_cast<int64_t>(kind.lengths.size()), count});
    const int64_t packs = std::min(count / each, kind.packs);
    PackKind rest = kind;
    rest.packs -= packs;
    if (!rest.lengths.empty()) put(std::move(rest));
    kind.packs = packs;
    kind.lengths.insert(kind.lengths.end(), static_cast<size_t>(each), length);
    put(std::move(kind));
    return packs * each;
  }

  int64_t row_, depth_;
  bool most_room_;
  Open open_;
  std::vector<PackKind> full_;
};

/// All sets of at most `depth` lengths that fill a row, each longest first.
class Strategies {
 public:
  Strategies(int64_t row, int64_t depth) : depth_(depth) {
    std::vector<int32_t> lengths;
    extend(lengths, static_cast<int32_t>(row), static_cast<int32_t>(row));
  }
  std::vector<std::vector<int32_t>> all;

 private:
  void extend(std::vector<int32_t>& lengths, int32_t left, int32_t longest) {
    if (left == 0) {
      all.push_back(lengths);
      if (all.size() > kMostStrategies)
        throw Error({.what = "too many ways to fill a row for nnlshp",
                     .found = "more than " + std::to_string(kMostStrategies) + " at depth " + std::to_string(depth_),
                     .remedy = "Lower the depth (3 is usual), or pack with lpfhp"});
      return;
    }
    const int64_t more = depth_ - static_cast<int64_t>(lengths.size());
    if (more == 0) return;
    for (int32_t length = std::min(left, longest); length >= 1 && length * more >= left; --length) {
      lengths.push_back(length);
      extend(lengths, left - length, length);
      lengths.pop_back();
    }
  }
  int64_t depth_;
};

/// As many packs of this content as the sequences that are left allow; where they run out, packs without them.
void realise(std::vector<int32_t> lengths, int64_t packs, std::vector<int64_t>& left, Groups& groups) {
  while (packs > 0 && !lengths.empty()) {
    int64_t whole = packs;
    int32_t scarce = 0;
    for (const int32_t length : lengths) {
      const int64_t times = std::count(lengths.begin(), lengths.end(), length);
      if (const int64_t possible = left[static_cast<size_t>(length)] / times; possible < whole)
        whole = possible, scarce = length;
    }
    for (const int32_t length : lengths) left[static_cast<size_t>(length)] -= whole;
    groups.put({lengths, whole});
    packs -= whole;
    if (packs > 0) lengths.erase(std::find(lengths.begin(), lengths.end(), scarce));
  }
}

std::vector<PackKind> pack_by_least_squares(const LengthHistogram& histogram, int64_t depth) {
  const int64_t row = histogram.row();
  const Strategies strategies(row, depth == 0 ? row : std::min(depth, row));
  const auto weight = [](int32_t length) { return length <= kShort ? kShortWeight : 1.0; };
  std::vector<std::vector<SparseEntry>> columns;
  for (const auto& lengths : strategies.all) {
    std::map<int32_t, double> entries;
    for (const int32_t length : lengths) entries[length - 1] += weight(length);
    columns.emplace_back();
    for (const auto& [at, value] : entries) columns.back().push_back({at, value});
  }
  std::vector<double> wanted;
  for (int32_t length = 1; length <= row; ++length)
    wanted.push_back(weight(length) * static_cast<double>(histogram.counts[static_cast<size_t>(length)]));
  const std::vector<double> times = nonnegative_least_squares(columns, wanted);

  std::vector<int64_t> left = histogram.counts;
  Groups groups(row, depth, false);
  for (size_t i = 0; i < times.size(); ++i)
    if (const auto packs = static_cast<int64_t>(std::llrint(times[i])); packs > 0)
      realise(strategies.all[i], packs, left, groups);
  for (auto length = static_cast<int32_t>(row); length >= 1; --length)
    groups.place(length, left[static_cast<size_t>(length)]);
  return groups.take();
}

/// One entry a content, in order of contents.
std::vector<PackKind> merged(std::vector<PackKind> kinds) {
  std::map<std::vector<int32_t>, int64_t, std::greater<>> packs;
  for (PackKind& kind : kinds) {
    std::sort(kind.lengths.begin(), kind.lengths.end(), std::greater<>());
    packs[std::move(kind.lengths)] += kind.packs;
  }
  std::vector<PackKind> result;
  for (auto& [lengths, count] : packs) result.push_back({lengths, count});
  return result;
}

}  // namespace

int64_t LengthHistogram::sequences() const {
  int64_t sum = 0;
  for (const int64_t count : counts) sum += count;
  return sum;
}

int64_t LengthHistogram::tokens() const {
  int64_t sum = 0;
  for (size_t length = 0; length < counts.size(); ++length) sum += static_cast<int64_t>(length) * counts[length];
  return sum;
}

LengthHistogram parse_histogram(std::string_view text, const std::string& source) {
  LengthHistogram histogram;
  histogram.counts.push_back(0);
  int64_t number = 0;
  bool heading = true;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    ++number;
    skip_blanks(line);
    while (!line.empty() && is_blank(line.back())) line.remove_suffix(1);
    if (line.empty()) continue;
    const bool digit = line.front() >= '0' && line.front() <= '9';
    if (!digit && line.front() != '-' && heading) {
      heading = false;
      continue;
    }
    heading = false;
    parse_line(line, source + ":" + std::to_string(number), histogram);
  }
  // A count has 40 bits, a length 20, and there may be 2^20 of them: only what can be added up is a histogram.
  double tokens = 0;
  for (size_t length = 0; length < histogram.counts.size(); ++length)
    tokens += static_cast<double>(length) * static_cast<double>(histogram.counts[length]);
  if (tokens > 9e18) throw Error({.what = "a histogram of more tokens than can be counted", .where = source});
  if (histogram.sequences() == 0)
    throw Error({.what = "a histogram of no sequences",
                 .where = source,
                 .expected = "lines of a length and a count, as \"128<tab>5000\""});
  return histogram;
}

LengthHistogram load_histogram(const std::filesystem::path& path) {
  return parse_histogram(read_file(path), path.string());
}

LengthHistogram histogram_of(std::span<const int32_t> lengths, int64_t row) {
  LengthHistogram histogram;
  if (row < 1 || row > kLongestRow)
    throw Error({.what = "a row that cannot be packed",
                 .found = std::to_string(row) + " tokens",
                 .expected = "1 to " + std::to_string(kLongestRow)});
  histogram.counts.assign(static_cast<size_t>(row) + 1, 0);
  for (size_t i = 0; i < lengths.size(); ++i) {
    if (lengths[i] < 1 || lengths[i] > row)
      throw Error({.what = "a sequence does not fit the row that it is to be packed in",
                   .where = "sequence " + std::to_string(i),
                   .found = std::to_string(lengths[i]) + " tokens",
                   .expected = "1 to " + std::to_string(row),
                   .remedy = "Cut the sequence, or make the row longer"});
    ++histogram.counts[static_cast<size_t>(lengths[i])];
  }
  return histogram;
}

PackingAlgorithm packing_algorithm(const std::string& name) {
  if (name == "spfhp") return PackingAlgorithm::kSpfhp;
  if (name == "lpfhp") return PackingAlgorithm::kLpfhp;
  if (name == "nnlshp") return PackingAlgorithm::kNnlshp;
  throw Error({.what = "unknown way of packing",
               .found = "'" + name.substr(0, 100) + "'",
               .expected = "spfhp, lpfhp or nnlshp"});
}

const char* name_of(PackingAlgorithm algorithm) {
  return algorithm == PackingAlgorithm::kSpfhp ? "spfhp" : algorithm == PackingAlgorithm::kLpfhp ? "lpfhp" : "nnlshp";
}

int64_t Packing::packs() const {
  int64_t sum = 0;
  for (const PackKind& kind : kinds) sum += kind.packs;
  return sum;
}

int64_t Packing::sequences() const {
  int64_t sum = 0;
  for (const PackKind& kind : kinds) sum += kind.packs * static_cast<int64_t>(kind.lengths.size());
  return sum;
}

int64_t Packing::tokens() const {
  int64_t sum = 0;
  for (const PackKind& kind : kinds)
    for (const int32_t length : kind.lengths) sum += kind.packs * length;
  return sum;
}

int64_t Packing::deepest() const {
  size_t most = 0;
  for (const PackKind& kind : kinds) most = std::max(most, kind.lengths.size());
  return static_cast<int64_t>(most);
}

double Packing::efficiency() const {
  const double slots = static_cast<double>(packs()) * static_cast<double>(row);
  return slots == 0 ? 0 : static_cast<double>(tokens()) / slots;
}

double Packing::factor() const {
  return kinds.empty() ? 0 : static_cast<double>(sequences()) / static_cast<double>(packs());
}

Packing pack_histogram(const LengthHistogram& histogram, PackingAlgorithm algorithm, int64_t depth) {
  check_depth(depth);
  if (histogram.row() < 1 || histogram.sequences() == 0) throw Error({.what = "there are no sequences to pack"});
  Packing packing{histogram.row(), {}};
  if (algorithm == PackingAlgorithm::kNnlshp) {
    packing.kinds = merged(pack_by_least_squares(histogram, depth));
    return packing;
  }
  Groups groups(histogram.row(), depth, algorithm == PackingAlgorithm::kSpfhp);
  for (auto length = static_cast<int32_t>(histogram.row()); length >= 1; --length)
    groups.place(length, histogram.counts[static_cast<size_t>(length)]);
  packing.kinds = merged(groups.take());
  return packing;
}

std::vector<std::vector<int64_t>> pack_sequences(std::span<const int32_t> lengths, int64_t row,
                                                 PackingAlgorithm algorithm, int64_t depth) {
  check_depth(depth);
  const LengthHistogram histogram = histogram_of(lengths, row);
  if (lengths.empty()) return {};
  const Packing packing = pack_histogram(histogram, algorithm, depth);
  std::vector<std::vector<int64_t>> of_length(static_cast<size_t>(row) + 1);
  for (size_t i = lengths.size(); i-- > 0;)
    of_length[static_cast<size_t>(lengths[i])].push_back(static_cast<int64_t>(i));
  std::vector<std::vector<int64_t>> packs;
  packs.reserve(static_cast<size_t>(packing.packs()));
  for (const PackKind& kind : packing.kinds)
    for (int64_t i = 0; i < kind.packs; ++i) {
      auto& pack = packs.emplace_back();
      for (const int32_t length : kind.lengths) {
        auto& left = of_length[static_cast<size_t>(length)];
        pack.push_back(left.back());
        left.pop_back();
      }
      std::sort(pack.begin(), pack.end());
    }
  std::sort(packs.begin(), packs.end());
  return packs;
}

}  // namespace ramet::text
