// Writes NumPy's files (data/npy.cc reads them).

#include <zip.h>

#include <memory>
#include <system_error>

#include "ramet/base/error.h"
#include "ramet/base/host_tensor.h"
#include "ramet/data/arrays.h"

namespace ramet::data {
namespace {

namespace fs = std::filesystem;

/// NumPy's name of a type; "" where it has none.
std::string_view numpy_name(DType dtype) {
  switch (dtype) {
    case DType::kF32: return "<f4";
    case DType::kF16: return "<f2";
    case DType::kI32: return "<i4";
    case DType::kI64: return "<i8";
    case DType::kBool: return "|b1";
    case DType::kU8: return "|u1";
    case DType::kU16: return "<u2";
    case DType::kF64: return "<f8";
    case DType::kI8: return "|i1";
    case DType::kI16: return "<i2";
    case DType::kU32: return "<u4";
    case DType::kU64: return "<u8";
    default: return "";
  }
}

/// The file of one array.
std::string npy_of(const NamedTensor& tensor) {
  TensorType type = tensor.type;
  const bool wide = numpy_name(type.dtype).empty();
  if (wide) type.dtype = DType::kF32;
  std::string dims;
  for (const int64_t dim : type.shape.dims()) dims += std::to_string(dim) + ", ";
  std::string header =
      "{'descr': '" + std::string(numpy_name(type.dtype)) + "', 'fortran_order': False, 'shape': (" + dims + "), }";
  constexpr size_t kPrefix = 10, kAlignment = 64;
  header.append(kAlignment - 1 - (kPrefix + header.size()) % kAlignment, ' ');
  header += '\n';
  std::string file = "\x93NUMPY";
  for (const size_t byte : {size_t{1}, size_t{0}, header.size() & 255, header.size() >> 8})
    file += static_cast<char>(byte);
  file += header;
  if (!wide) return file.append(reinterpret_cast<const char*>(tensor.bytes.data()), tensor.bytes.size());
  for (int64_t i = 0; i < type.elements(); ++i) {
    const auto value = static_cast<float>(load_element(tensor.bytes.data(), tensor.type.dtype, i));
    file.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  return file;
}

struct Discard {
  void operator()(zip_t* zip) const { zip_discard(zip); }
};

}  // namespace

void save_npz(const fs::path& path, const std::vector<NamedTensor>& tensors) {
  const fs::path aside = path.string() + ".part";
  std::error_code error;
  const auto fail = [&](const std::string& reason) {
    fs::remove(aside, error);
    throw Error({.what = "cannot write the arrays", .where = path.string(), .found = reason}, ErrorKind::kFailure);
  };
  std::vector<std::string> files;  // libzip reads them when the archive is closed
  for (const NamedTensor& tensor : tensors) files.push_back(npy_of(tensor));
  int code = 0;
  std::unique_ptr<zip_t, Discard> zip(zip_open(aside.c_str(), ZIP_CREATE | ZIP_TRUNCATE, &code));
  if (!zip) {
    zip_error_t reason;
    zip_error_init_with_code(&reason, code);
    const std::string text = zip_error_strerror(&reason);
    zip_error_fini(&reason);
    fail(text);
  }
  for (size_t i = 0; i < tensors.size(); ++i) {
    zip_source_t* const source = zip_source_buffer(zip.get(), files[i].data(), files[i].size(), 0);
    const zip_int64_t entry =
        source ? zip_file_add(zip.get(), (tensors[i].name + ".npy").c_str(), source, ZIP_FL_ENC_UTF_8) : -1;
    if (entry < 0) {
      if (source) zip_source_free(source);
      fail(zip_strerror(zip.get()));
    }
    const auto index = static_cast<zip_uint64_t>(entry);
    zip_set_file_compression(zip.get(), index, ZIP_CM_STORE, 0);
    zip_file_set_dostime(zip.get(), index, 0, 0x21, 0);  // equal arrays are equal files: 1 January 1980
  }
  if (zip_close(zip.get()) != 0) fail(zip_strerror(zip.get()));
  (void)zip.release();  // closed
  fs::rename(aside, path, error);
  if (error) fail(error.message());
}

}  // namespace ramet::data
