#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ramet/data/source.h"

namespace ramet::data {

/// An array whose first dimension are samples: one named input of a model. Its bytes lie row-major anywhere in memory,
/// without alignment.
struct ArrayColumn {
  std::string name;
  std::string stored;  ///< name of the element type as it lies there: "f32", "u8", ...
  Shape shape;
  const std::byte* data = nullptr;
  std::shared_ptr<const void> keeper{};  ///< owns `data`; null: the caller does
  std::string where{};                   ///< file, for messages
  int64_t host_bytes = 0;                ///< memory that it takes; 0 where it is mapped from a file, or the caller's
};

/// Arrays of a file of NumPy, mapped: .npy, one array named as the file; .npz, one array an entry. Entries that are
/// compressed are read whole into memory. Throws Error, naming the file, when it is no file of NumPy, is not whole, or
/// is stored in a form that is not supported (big-endian, Fortran order, objects).
std::vector<ArrayColumn> open_npy(const std::filesystem::path& path);
std::vector<ArrayColumn> open_npz(const std::filesystem::path& path);
/// The array of a file's bytes; `source` names it in messages. Its data points into `file`.
ArrayColumn parse_npy(std::string_view file, const std::string& source);
/// The pickle in a file's bytes where the array holds objects of Python; nothing where it holds other elements.
std::optional<std::string_view> npy_pickle(std::string_view file, const std::string& source);

/// Writes arrays as one .npz, each under its name, uncompressed; equal arrays give equal files. Types that NumPy does
/// not have (bf16, f8) become f32. The file is replaced whole or not at all.
void save_npz(const std::filesystem::path& path, const std::vector<NamedTensor>& tensors);

/// The type in which a model gets elements that does not ask for another: f64 as f32; i8, i16 and u16 as i32; u32 and
/// u64 as i64; all others as they lie. Throws Error for a name that is none.
DType delivered_type(std::string_view stored);
/// Size of a stored element in bytes; Error likewise.
int64_t stored_size(std::string_view stored);

struct ArrayOptions {
  /// Types in which arrays are delivered, by name, where not as `delivered_type` says: any type as it lies, integers as
  /// any type of integers (a number that does not fit is an Error when its sample is made), f16, bf16 and f64 as f32.
  std::map<std::string, DType> types{};
  bool shuffle = true;  ///< a new order every epoch
  uint64_t seed = 0;    ///< of that order
  /// Share of the samples that is held out, drawn once for these arrays whatever the seed; 0: none.
  double held_out = 0;
  bool evaluation = false;  ///< gives the samples held out, in order, instead of the others
  /// Hears how many bytes have been hashed for the identity, which reads all data once when it is first asked for.
  std::function<void(int64_t done, int64_t total)> progress{};
};

/// Samples of arrays, epoch after epoch: sample i is one row of each. Rows are copied when they are asked for; nothing
/// is read ahead of that. Throws Error for arrays with different numbers of samples, of one name, without samples, for
/// types that cannot be delivered, and for a share that leaves no sample on a side.
std::shared_ptr<const Source> make_array_source(std::vector<ArrayColumn> columns, ArrayOptions options);

}  // namespace ramet::data
