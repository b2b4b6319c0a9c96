#include "fuzz/mutate.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstring>

namespace ramet::tests::fuzz {
namespace {

constexpr std::array<const char*, 16> kNumbers = {"0",
                                                  "-1",
                                                  "1",
                                                  "2147483647",
                                                  "2147483648",
                                                  "-2147483649",
                                                  "4294967296",
                                                  "9223372036854775807",
                                                  "9223372036854775808",
                                                  "-9223372036854775808",
                                                  "1e308",
                                                  "1e-320",
                                                  "nan",
                                                  "inf",
                                                  "0.5",
                                                  "99999999999999999999999"};
constexpr std::array<uint64_t, 12> kBinaryNumbers = {
    0, 1, 0x7f, 0x80, 0xff, 0xffff, 0x7fffffff, 0x80000000, 0xffffffff, 0x7fffffffffffffff, 0x8000000000000000, ~0ull};

}  // namespace

std::string Mutator::mutate(const std::vector<std::string>& seeds, size_t most) {
  std::string input = seeds.empty() ? "" : seeds[below(seeds.size())];
  for (size_t changes = 1 + below(8); changes > 0; --changes) change(input, seeds);
  if (input.size() > most) input.resize(most);
  return input;
}

void Mutator::insert(std::string& input, std::string_view piece) {
  input.insert(below(input.size() + 1), piece.substr(0, 4096));
}

void Mutator::change(std::string& input, const std::vector<std::string>& seeds) {
  const size_t size = input.size(), at = below(size), length = std::min(size - at, 1 + below(below(4) ? 8 : 200));
  switch (below(14)) {
    case 0:
      if (size) input[at] = static_cast<char>(input[at] ^ (1 << below(8)));
      return;
    case 1:
      if (size) input[at] = static_cast<char>(random_());
      return;
    case 2: return insert(input, std::string(1 + below(3), static_cast<char>(random_())));
    case 3: input.erase(at, length); return;
    case 4: return insert(input, input.substr(at, length));  // moved or repeated
    case 5: {
      const std::string piece = input.substr(at, length);
      input.erase(at, length);
      return insert(input, piece);
    }
    case 6:
      if (!words_.empty()) insert(input, words_[below(words_.size())]);
      return;
    case 7:
    case 8: return change_number(input);
    case 9: return change_binary_number(input);
    case 10: {
      if (seeds.empty()) return;
      const std::string& other = seeds[below(seeds.size())];
      return insert(input, std::string_view(other).substr(below(other.size() + 1), 1 + below(300)));
    }
    case 11: input.resize(at); return;  // cut off
    case 12: {                          // one character many times, as deep nesting is
      static constexpr std::string_view kDeep = "[({\"'=,.-\n #";
      return insert(input, std::string(1 + below(3000), kDeep[below(kDeep.size())]));
    }
    default: {  // a line twice, or gone
      const size_t begin = input.rfind('\n', at) == input.npos ? 0 : input.rfind('\n', at) + 1;
      const size_t end = std::min(input.find('\n', at), size);
      if (begin >= end) return;
      const std::string line = input.substr(begin, end - begin) + "\n";
      if (below(2))
        input.insert(begin, line);
      else
        input.erase(begin, end - begin);
    }
  }
}

void Mutator::change_number(std::string& input) {
  std::vector<size_t> starts;
  for (size_t i = 0; i < input.size(); ++i)
    if (std::isdigit(static_cast<unsigned char>(input[i])) &&
        (i == 0 || !std::isdigit(static_cast<unsigned char>(input[i - 1]))))
      starts.push_back(i);
  if (starts.empty()) return insert(input, kNumbers[below(kNumbers.size())]);
  const size_t begin = starts[below(starts.size())];
  size_t end = begin;
  while (end < input.size() && std::isdigit(static_cast<unsigned char>(input[end]))) ++end;
  std::string number = input.substr(begin, end - begin);
  switch (below(4)) {
    case 0: number = kNumbers[below(kNumbers.size())]; break;
    case 1: number += static_cast<char>('0' + below(10)); break;
    case 2: number = "-" + number; break;
    default: {
      uint64_t value = 0;
      for (const char digit : number) value = value * 10 + static_cast<uint64_t>(digit - '0');
      number = std::to_string(value + below(3) - 1);
    }
  }
  input.replace(begin, end - begin, number);
}

void Mutator::change_binary_number(std::string& input) {
  static constexpr std::array<size_t, 4> kWidths = {1, 2, 4, 8};
  const size_t width = kWidths[below(4)];
  if (input.size() < width) return;
  // Headers lie at the beginning.
  const size_t at = below(below(2) ? std::min<size_t>(input.size() - width + 1, 64) : input.size() - width + 1);
  uint64_t value = 0;
  std::memcpy(&value, input.data() + at, width);
  value = below(3) == 0 ? kBinaryNumbers[below(kBinaryNumbers.size())] : value + below(5) - 2;
  std::memcpy(input.data() + at, &value, width);
}

}  // namespace ramet::tests::fuzz
