#include "ramet/weights/torch_zip.h"

#include <zip.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <map>
#include <mutex>

#include "ramet/base/dtype.h"
#include "ramet/base/error_types.h"
#include "ramet/base/file.h"
#include "ramet/weights/pickle.h"

namespace ramet::weights {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kMostPickle = 64 << 20;

struct CloseZip {
  void operator()(zip_t* zip) const { zip_discard(zip); }
  void operator()(zip_file_t* file) const { zip_fclose(file); }
};

float number_at(const std::byte* bytes, std::string_view dtype, int64_t index) {
  const auto as = [&]<typename T>(T value) {
    std::memcpy(&value, bytes + index * static_cast<int64_t>(sizeof(T)), sizeof(T));
    return value;
  };
  if (dtype == "f32") return as(float{});
  if (dtype == "f16") return f16_to_f32(as(uint16_t{}));
  if (dtype == "bf16") return bf16_to_f32(as(uint16_t{}));
  if (dtype == "f64") return static_cast<float>(as(double{}));
  if (dtype == "i64") return static_cast<float>(as(int64_t{}));
  if (dtype == "i32") return static_cast<float>(as(int32_t{}));
  if (dtype == "i16") return static_cast<float>(as(int16_t{}));
  if (dtype == "i8") return static_cast<float>(as(int8_t{}));
  return static_cast<float>(as(uint8_t{}));  // u8, bool
}

class TorchZip final : public TensorFile {
 public:
  explicit TorchZip(const fs::path& path) : TensorFile(path), map_(path) {
    open();
    const std::string pickle = find_pickle();
    folder_ = pickle.substr(0, pickle.rfind('/') + 1);
    check_byte_order();
    const std::string bytes = whole_entry(pickle, kMostPickle);
    for (auto& tensor : read_torch_pickle(bytes, path.string() + " " + pickle)) {
      check_record(tensor);
      tensors_.push_back({tensor.name, tensor.shape, tensor.dtype, is_float(tensor.dtype)});
      places_[tensor.name] = std::move(tensor);
    }
  }

  void read(const StoredTensor& tensor, std::span<float> to) const override {
    const PickledTensor& place = places_.at(tensor.name);
    const std::scoped_lock lock(mutex_);
    if (kept_record_ != place.storage || kept_.empty()) {
      kept_.clear();
      kept_record_ = place.storage;
      kept_ = whole_entry(folder_ + "data/" + place.storage, UINT64_MAX);
    }
    const auto* bytes = reinterpret_cast<const std::byte*>(kept_.data());
    std::vector<int64_t> at(static_cast<size_t>(place.shape.rank()), 0);
    int64_t element = place.offset;
    for (float& value : to) {
      value = number_at(bytes, place.dtype, element);
      for (size_t i = at.size(); i-- > 0;) {  // the next index, as an odometer counts
        element += place.strides[i];
        if (++at[i] < place.shape[static_cast<int>(i)]) break;
        element -= at[i] * place.strides[i];
        at[i] = 0;
      }
    }
  }

 private:
  [[noreturn]] void refuse(const std::string& what, const std::string& found = "",
                           const std::string& remedy = "") const {
    throw FormatError({.what = what,
                       .where = path_.string(),
                       .found = found,
                       .expected = "a zip file as torch.save writes it",
                       .remedy = remedy});
  }
  static bool is_float(const std::string& dtype) { return dtype.find('f') != std::string::npos; }

  void open() {
    zip_error_t error;
    zip_error_init(&error);
    zip_source_t* source = zip_source_buffer_create(map_.data(), map_.size(), 0, &error);
    zip_.reset(source ? zip_open_from_source(source, ZIP_RDONLY, &error) : nullptr);
    if (zip_) return zip_error_fini(&error);
    if (source) zip_source_free(source);
    const std::string reason = zip_error_strerror(&error);
    zip_error_fini(&error);
    refuse("not a whole zip file", reason, "The file may be cut short: compare its size with where it came from");
  }

  std::string find_pickle() const {
    const zip_int64_t count = zip_get_num_entries(zip_.get(), 0);
    for (zip_int64_t i = 0; i < count; ++i) {
      const char* name = zip_get_name(zip_.get(), static_cast<zip_uint64_t>(i), ZIP_FL_ENC_RAW);
      const std::string_view text = name ? name : "";
      if (text == "data.pkl" || text.ends_with("/data.pkl")) return std::string(text);
    }
    refuse("the zip file holds no data.pkl", std::to_string(count) + " entries");
  }

  void check_byte_order() const {
    static_assert(std::endian::native == std::endian::little);
    const std::string name = folder_ + "byteorder";
    if (zip_name_locate(zip_.get(), name.c_str(), ZIP_FL_ENC_RAW) < 0) return;
    if (const std::string order = whole_entry(name, 100); order != "little")
      refuse("tensors of another byte order", order);
  }

  uint64_t entry_size(const std::string& name) const {
    zip_stat_t stat;
    zip_stat_init(&stat);
    if (zip_stat(zip_.get(), name.c_str(), ZIP_FL_ENC_RAW, &stat) != 0 || !(stat.valid & ZIP_STAT_SIZE))
      refuse("a part of the file is missing", "no entry '" + name + "'",
             "The file may be cut short: compare its size with where it came from");
    return stat.size;
  }

  std::string whole_entry(const std::string& name, uint64_t most) const {
    const uint64_t size = entry_size(name);
    if (size > most) refuse("an entry of this size", name + ", " + std::to_string(size) + " bytes");
    const std::unique_ptr<zip_file_t, CloseZip> file(zip_fopen(zip_.get(), name.c_str(), ZIP_FL_ENC_RAW));
    if (!file) refuse("a part of the file cannot be read", name + ": " + zip_strerror(zip_.get()));
    std::string bytes;
    // By pieces: an entry that lies about its size takes no more memory than it has bytes.
    constexpr size_t kPiece = 1 << 24;
    while (bytes.size() < size) {
      const size_t before = bytes.size();
      bytes.resize(std::min<uint64_t>(size, before + kPiece));
      const zip_int64_t got = zip_fread(file.get(), bytes.data() + before, bytes.size() - before);
      if (got <= 0) refuse("a part of the file cannot be read", name + " ends early or its checksum is wrong");
      bytes.resize(before + static_cast<size_t>(got));
    }
    char more;  // the checksum is looked at when the end is met
    if (zip_fread(file.get(), &more, 1) != 0)
      refuse("a part of the file cannot be read", name + ": its checksum is wrong");
    return bytes;
  }

  void check_record(const PickledTensor& tensor) const {
    const std::string name = folder_ + "data/" + tensor.storage;
    const uint64_t size = entry_size(name);
    const uint64_t expected =
        static_cast<uint64_t>(tensor.storage_elements) * static_cast<uint64_t>(torch_dtype_size(tensor.dtype));
    if (size != expected)
      refuse("tensor '" + tensor.name + "' is not as long as it says",
             name + ", " + std::to_string(size) + " bytes; " + std::to_string(expected) + " are told");
  }

  MappedFile map_;
  std::unique_ptr<zip_t, CloseZip> zip_;
  std::string folder_;
  std::map<std::string, PickledTensor> places_;
  mutable std::mutex mutex_;
  mutable std::string kept_record_, kept_;  // the last record: tensors may share one
};

}  // namespace

std::unique_ptr<TensorFile> open_torch_zip(const fs::path& path) { return std::make_unique<TorchZip>(path); }

}  // namespace ramet::weights
