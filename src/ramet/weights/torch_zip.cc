#include "ramet/weights/torch_zip.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <map>
#include <mutex>

#include "ramet/base/dtype.h"
#include "ramet/base/error.h"
#include "ramet/weights/pickle.h"
#include "ramet/weights/zip_file.h"

namespace ramet::weights {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kMostPickle = 64 << 20;

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
  explicit TorchZip(const fs::path& path) : TensorFile(path), zip_(path, "a zip file as torch.save writes it") {
    const std::string pickle = find_pickle();
    folder_ = pickle.substr(0, pickle.rfind('/') + 1);
    check_byte_order();
    const std::string bytes = zip_.read(pickle, kMostPickle);
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
      kept_ = zip_.read(folder_ + "data/" + place.storage, UINT64_MAX);
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
  static bool is_float(const std::string& dtype) { return dtype.find('f') != std::string::npos; }

  std::string find_pickle() const {
    const std::vector<std::string> names = zip_.names();
    for (const std::string& name : names)
      if (name == "data.pkl" || name.ends_with("/data.pkl")) return name;
    zip_.refuse("the zip file holds no data.pkl", std::to_string(names.size()) + " entries");
  }

  void check_byte_order() const {
    static_assert(std::endian::native == std::endian::little);
    const std::string name = folder_ + "byteorder";
    if (!zip_.has(name)) return;
    if (const std::string order = zip_.read(name, 100); order != "little")
      zip_.refuse("tensors of another byte order", order);
  }

  void check_record(const PickledTensor& tensor) const {
    const std::string name = folder_ + "data/" + tensor.storage;
    const uint64_t size = zip_.size(name);
    const uint64_t expected =
        static_cast<uint64_t>(tensor.storage_elements) * static_cast<uint64_t>(torch_dtype_size(tensor.dtype));
    if (size != expected)
      zip_.refuse("tensor '" + tensor.name + "' is not as long as it says",
                  name + ", " + std::to_string(size) + " bytes; " + std::to_string(expected) + " are told");
  }

  ZipFile zip_;
  std::string folder_;
  std::map<std::string, PickledTensor> places_;
  mutable std::mutex mutex_;
  mutable std::string kept_record_, kept_;  // the last record: tensors may share one
};

}  // namespace

std::unique_ptr<TensorFile> open_torch_zip(const fs::path& path) { return std::make_unique<TorchZip>(path); }

}  // namespace ramet::weights
