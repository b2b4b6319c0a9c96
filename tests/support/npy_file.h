#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

/// Files of NumPy made by hand, of elements that nothing of Ramet writes, too.
namespace ramet::tests {

/// A .npy file: `descr` as "<f4", `shape` as "(3, 2)", and the array's bytes (of "|O": a pickle).
inline std::string npy_file(const std::string& descr, const std::string& shape, const std::string& bytes) {
  const std::string header = "{'descr': '" + descr + "', 'fortran_order': False, 'shape': " + shape + ", }\n";
  std::string file("\x93NUMPY\x01\0", 8);
  file += static_cast<char>(header.size() & 255);
  file += static_cast<char>(header.size() >> 8);
  return file + header + bytes;
}

/// The same of numbers.
template <typename T>
std::string npy_of(const std::string& descr, const std::string& shape, const std::vector<T>& values) {
  return npy_file(descr, shape, {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)});
}

/// A .npz file of such files by name: a zip file without compression.
inline std::string npz_file(const std::vector<std::pair<std::string, std::string>>& arrays) {
  const auto number = [](uint64_t value, int bytes) {
    std::string text;
    for (int i = 0; i < bytes; ++i) text += static_cast<char>(value >> (8 * i) & 255);
    return text;
  };
  const auto checksum = [](const std::string& bytes) {
    uint32_t crc = ~0u;
    for (const char byte : bytes) {
      crc ^= static_cast<uint8_t>(byte);
      for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? 0xedb88320u : 0);
    }
    return ~crc;
  };
  std::string file, table;
  for (const auto& [array, bytes] : arrays) {
    const std::string name = array + ".npy", size = number(bytes.size(), 4);
    // Version, flags, method, time and date; checksum, both sizes, and lengths of the name and of more.
    const std::string shared = number(20, 2) + number(0, 2) + number(0, 2) + number(0x210000, 4) +
                               number(checksum(bytes), 4) + size + size + number(name.size(), 2) + number(0, 2);
    table += "PK\x01\x02" + number(20, 2) + shared + number(0, 10) + number(file.size(), 4) + name;
    file += "PK\x03\x04" + shared + name + bytes;
  }
  return file + table + "PK\x05\x06" + number(0, 4) + number(arrays.size(), 2) + number(arrays.size(), 2) +
         number(table.size(), 4) + number(file.size(), 4) + number(0, 2);
}

}  // namespace ramet::tests
