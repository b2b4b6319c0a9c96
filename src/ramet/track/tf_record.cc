#include "ramet/track/tf_record.h"

#include <cstring>
#include <optional>

#include "ramet/base/hash.h"

namespace ramet::track {
namespace {

constexpr size_t kHeader = 12, kFooter = 4;

uint32_t masked(uint32_t crc) { return ((crc >> 15) | (crc << 17)) + 0xa282ead8u; }
uint32_t masked_crc(std::string_view bytes) { return masked(crc32c(bytes.data(), bytes.size())); }

template <typename T>
void put(std::string& to, T value) {
  char bytes[sizeof(T)];
  std::memcpy(bytes, &value, sizeof(T));  // all supported machines are little-endian
  to.append(bytes, sizeof(T));
}
template <typename T>
T get(std::string_view from, size_t offset) {
  T value;
  std::memcpy(&value, from.data() + offset, sizeof(T));
  return value;
}

/// The length of the payload of a record that begins here, if its header is whole and all of the record is there.
std::optional<size_t> payload_size(std::string_view rest) {
  if (rest.size() < kHeader + kFooter || masked_crc(rest.substr(0, 8)) != get<uint32_t>(rest, 8)) return std::nullopt;
  const auto length = get<uint64_t>(rest, 0);
  if (length > rest.size() - kHeader - kFooter) return std::nullopt;
  return static_cast<size_t>(length);
}

}  // namespace

std::string tf_record(std::string_view payload) {
  std::string record;
  record.reserve(payload.size() + kHeader + kFooter);
  put(record, static_cast<uint64_t>(payload.size()));
  put(record, masked_crc(record));
  record += payload;
  put(record, masked_crc(payload));
  return record;
}

int64_t read_tf_records(std::string_view file, const std::function<void(std::string_view payload)>& take) {
  int64_t skipped = 0;
  while (!file.empty()) {
    const auto length = payload_size(file);
    if (!length) {
      file.remove_prefix(1);  // records have no marks: the next one may begin at any byte
      ++skipped;
      continue;
    }
    const std::string_view payload = file.substr(kHeader, *length);
    const size_t whole = kHeader + *length + kFooter;
    if (masked_crc(payload) == get<uint32_t>(file, kHeader + *length))
      take(payload);
    else
      skipped += static_cast<int64_t>(whole);
    file.remove_prefix(whole);
  }
  return skipped;
}

bool begins_with_tf_record(std::string_view file) {
  const auto length = payload_size(file);
  return length && masked_crc(file.substr(kHeader, *length)) == get<uint32_t>(file, kHeader + *length);
}

}  // namespace ramet::track
