#include "ramet/base/base64.h"

#include <algorithm>
#include <array>
#include <cstdint>

namespace ramet {
namespace {

constexpr std::string_view kAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

}  // namespace

std::string base64(std::span<const std::byte> bytes) {
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (size_t i = 0; i < bytes.size(); i += 3) {
    const size_t count = std::min<size_t>(3, bytes.size() - i);
    uint32_t group = 0;
    for (size_t j = 0; j < 3; ++j) group = group << 8 | (j < count ? std::to_integer<uint32_t>(bytes[i + j]) : 0);
    for (size_t j = 0; j < 4; ++j) text += j <= count ? kAlphabet[group >> (18 - 6 * j) & 63] : '=';
  }
  return text;
}

std::optional<std::vector<std::byte>> bytes_of_base64(std::string_view text) {
  if (text.size() % 4 != 0) return std::nullopt;
  std::array<int, 256> digit;
  digit.fill(-1);
  for (size_t i = 0; i < kAlphabet.size(); ++i) digit[static_cast<unsigned char>(kAlphabet[i])] = static_cast<int>(i);
  std::vector<std::byte> bytes;
  bytes.reserve(text.size() / 4 * 3);
  for (size_t i = 0; i < text.size(); i += 4) {
    const bool last = i + 4 == text.size();
    size_t count = 3;
    if (last && text[i + 3] == '=') count = text[i + 2] == '=' ? 1 : 2;
    uint32_t group = 0;
    for (size_t j = 0; j < 4; ++j) {
      const int value = j <= count ? digit[static_cast<unsigned char>(text[i + j])] : 0;
      if (value < 0) return std::nullopt;
      group = group << 6 | static_cast<uint32_t>(value);
    }
    // Bits that stand for no byte are 0, so that bytes have one text.
    if ((group & ((1u << 8 * (3 - count)) - 1)) != 0) return std::nullopt;
    for (size_t j = 0; j < count; ++j) bytes.push_back(static_cast<std::byte>(group >> (16 - 8 * j)));
  }
  return bytes;
}

}  // namespace ramet
