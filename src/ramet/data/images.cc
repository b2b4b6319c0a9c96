#include "ramet/data/images.h"

#include <algorithm>
#include <cstring>
#include <mutex>

#include "ramet/base/error.h"

namespace ramet::data {
namespace {

[[noreturn]] void refuse(const std::string& what, const std::string& source, const std::string& found,
                         const std::string& expected, const std::string& remedy = "") {
  throw Error({.what = what, .where = source, .found = found, .expected = expected, .remedy = remedy});
}

/// Reads whole numbers of any stored type as i32.
std::vector<int32_t> read_labels(const ArrayColumn& column, const std::string& source) {
  if (column.shape.rank() != 1 || is_floating(delivered_type(column.stored)))
    refuse("labels are whole numbers, one for each image", source, "'labels' " + column.stored + column.shape.text(),
           "integers [N]");
  std::vector<int32_t> labels(static_cast<size_t>(column.shape[0]));
  if (labels.empty()) return labels;
  const auto rows = make_array_source({column}, {.types = {{column.name, DType::kI32}}, .shuffle = false});
  std::byte* place = reinterpret_cast<std::byte*>(labels.data());
  rows->fill(0, column.shape[0], {.tensors = std::span(&place, 1)});
  if (const int32_t least = *std::min_element(labels.begin(), labels.end()); least < -1)
    refuse("a label below -1", source, std::to_string(least),
           "a class from 0 on, or -1 for an image that does not count");
  return labels;
}

/// The form of arrays of images.
struct ArrayForm {
  int64_t channels = 1, height = 0, width = 0;
  bool channels_last = false;
};

bool looks_like_channels(int64_t extent) { return extent == 1 || extent == 3 || extent == 4; }

ArrayForm form_of(const ArrayColumn& images, ChannelAxis axis, const std::string& source) {
  const Shape& shape = images.shape;
  const std::string found = "'images' " + images.stored + shape.text();
  if (images.stored != "u8" || shape.rank() < 3 || shape.rank() > 4)
    refuse("images are bytes of three or four dimensions", source, found, "u8[N,H,W], u8[N,H,W,C] or u8[N,C,H,W]");
  for (int dim = 0; dim < shape.rank(); ++dim)
    if (shape[dim] < 1 || shape[dim] > (1 << 24)) refuse("images of a size that cannot be", source, found, "1 to 2^24");
  if (shape.rank() == 3) return {1, shape[1], shape[2], false};
  if (axis == ChannelAxis::kAuto) {
    const bool first = looks_like_channels(shape[1]), last = looks_like_channels(shape[3]);
    if (first == last)
      refuse(first ? "both the second and the last dimension of images could be channels"
                   : "neither the second nor the last dimension of images looks like channels",
             source, found, "one of them 1, 3 or 4",
             "Say where channels are: data.channels_at = \"first\" or \"last\"");
    axis = first ? ChannelAxis::kFirst : ChannelAxis::kLast;
  }
  if (axis == ChannelAxis::kFirst) return {shape[1], shape[2], shape[3], false};
  return {shape[3], shape[1], shape[2], true};
}

class ArrayImages final : public ImageSet {
 public:
  ArrayImages(ArrayColumn images, const ArrayForm& form, std::optional<ArrayColumn> labels,
              std::optional<ArrayColumn> masks, const std::string& source)
      : ImageSet(form.channels, form.height, form.width),
        images_(std::move(images)),
        masks_(std::move(masks)),
        channels_last_(form.channels_last) {
    if (labels) labels_ = read_labels(*labels, source);
    has_labels_ = labels.has_value();
    const auto check_rows = [&](const std::string& name, int64_t rows) {
      if (rows != images_.shape[0])
        refuse("arrays have different numbers of samples, their first dimension", source,
               "'" + name + "' has " + std::to_string(rows), std::to_string(images_.shape[0]) + ", as 'images' has");
    };
    if (labels) check_rows("labels", std::ssize(labels_));
    if (!masks_) return;
    check_rows("masks", masks_->shape.rank() > 0 ? masks_->shape[0] : 0);
    if (masks_->stored != "u8" || masks_->shape != Shape{images_.shape[0], height_, width_})
      refuse("masks give the class of each pixel", source, "'masks' " + masks_->stored + masks_->shape.text(),
             "u8" + Shape{images_.shape[0], height_, width_}.text());
  }

  int64_t rows() const override { return images_.shape[0]; }
  bool has_labels() const override { return has_labels_; }
  bool has_masks() const override { return masks_.has_value(); }
  int64_t classes() const override {
    if (has_labels_) return labels_.empty() ? 0 : *std::max_element(labels_.begin(), labels_.end()) + 1;
    if (!masks_) return 0;
    int most = -1;
    for (int64_t i = 0; i < masks_->shape.elements(); ++i)
      if (const auto value = static_cast<uint8_t>(masks_->data[i]); value != kNoClass)
        most = std::max<int>(most, value);
    return most + 1;
  }

  void read(int64_t row, uint8_t* pixels) const override {
    const int64_t area = height_ * width_, bytes = channels_ * area;
    const std::byte* const from = images_.data + row * bytes;
    if (!channels_last_ || channels_ == 1) {
      std::memcpy(pixels, from, static_cast<size_t>(bytes));
      return;
    }
    for (int64_t c = 0; c < channels_; ++c)
      for (int64_t i = 0; i < area; ++i) pixels[c * area + i] = static_cast<uint8_t>(from[i * channels_ + c]);
  }
  int32_t label(int64_t row) const override { return labels_[static_cast<size_t>(row)]; }
  void read_mask(int64_t row, uint8_t* classes) const override {
    const int64_t area = height_ * width_;
    std::memcpy(classes, masks_->data + row * area, static_cast<size_t>(area));
  }

  Hash hash() const override {
    std::call_once(hashed_, [this] {
      Hasher hasher;
      hasher.update("images " + images_.shape.text() + (channels_last_ ? " last\n" : " first\n"));
      hasher.update(images_.data, static_cast<size_t>(images_.shape.elements()));
      if (has_labels_) hasher.update("\nlabels\n").update(labels_.data(), labels_.size() * sizeof(int32_t));
      if (masks_) hasher.update("\nmasks\n").update(masks_->data, static_cast<size_t>(masks_->shape.elements()));
      hash_ = hasher.digest();
    });
    return hash_;
  }
  int64_t host_bytes() const override {
    return images_.host_bytes + (masks_ ? masks_->host_bytes : 0) + std::ssize(labels_) * int64_t{sizeof(int32_t)};
  }

 private:
  ArrayColumn images_;
  std::optional<ArrayColumn> masks_;
  std::vector<int32_t> labels_;
  bool channels_last_, has_labels_ = false;
  mutable std::once_flag hashed_;
  mutable Hash hash_;
};

}  // namespace

ChannelAxis channel_axis_from_name(std::string_view name) {
  for (const auto& [known, axis] :
       {std::pair{"auto", ChannelAxis::kAuto}, {"first", ChannelAxis::kFirst}, {"last", ChannelAxis::kLast}})
    if (name == known) return axis;
  throw Error({.what = "an unknown place of channels",
               .found = "'" + std::string(name) + "'",
               .expected = "one of auto, first, last"});
}

std::shared_ptr<const ImageSet> image_arrays(std::vector<ArrayColumn> arrays, ChannelAxis axis,
                                             const std::string& source) {
  std::optional<ArrayColumn> images, labels, masks;
  std::string names;
  for (ArrayColumn& array : arrays) {
    names += (names.empty() ? "" : ", ") + array.name;
    for (const auto& [name, place] : {std::pair{"images", &images}, {"labels", &labels}, {"masks", &masks}})
      if (array.name == name) {
        if (*place) refuse("two arrays have one name", source, "'" + std::string(name) + "' twice", "one");
        *place = std::move(array);
        break;
      }
  }
  if (!images) refuse("the arrays hold no images", source, names, "an array 'images'");
  const ArrayForm form = form_of(*images, axis, source);
  return std::make_shared<ArrayImages>(std::move(*images), form, std::move(labels), std::move(masks), source);
}

}  // namespace ramet::data
