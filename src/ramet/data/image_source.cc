#include <algorithm>
#include <cmath>
#include <cstring>

#include "ramet/base/error.h"
#include "ramet/base/plain_math.h"
#include "ramet/base/rng.h"
#include "ramet/data/images.h"

namespace ramet::data {
namespace {

/// Elements of a sample's stream of draws. The stream's tensor is 0 for the sample's image, and 1 for the image that it
/// is mixed with.
enum Draw : uint64_t {
  kTop,
  kLeft,
  kFlip,
  kBrightness,
  kContrast,
  kSaturation,
  kErase,
  kEraseArea,
  kEraseAspect,
  kEraseTop,
  kEraseLeft,
  kPartner,
  kMixKind,
  kBoxTop,
  kBoxLeft,
  kShares = 64,     // pairs, until one is accepted
  kNoise = 1 << 16  // of erased boxes
};

/// A factor of [1 - x, 1 + x], 0 or more.
float factor_of(const RandomStream& draws, Draw draw, double x) {
  const double low = std::max(0.0, 1 - x), high = 1 + x;
  return static_cast<float>(low + (high - low) * static_cast<double>(draws.uniform(draw)));
}

float clamped(float value) { return std::clamp(value, 0.0f, 255.0f); }

/// A number of Beta(alpha, alpha), by Jöhnk's method (Metrika 8, 1964).
double draw_beta(const RandomStream& draws, double alpha) {
  for (uint64_t at = kShares; at < kNoise; at += 2) {
    // The middle of one of 2^24 intervals: never 0.
    const double u = static_cast<double>(draws.uniform(at)) + 0x1p-25,
                 v = static_cast<double>(draws.uniform(at + 1)) + 0x1p-25;
    const double log_x = plain_log(u) / alpha, log_y = plain_log(v) / alpha;
    const double most = std::max(log_x, log_y);
    const double x = plain_exp(log_x - most), y = plain_exp(log_y - most);  // relative to the greater one
    if (most + plain_log(x + y) <= 0) return x / (x + y);
  }
  return 0.5;
}

/// The position of a window of `size` in an extent with `pad` more on each side: drawn where there is room, else in the
/// middle.
int64_t window(int64_t extent, int64_t pad, int64_t size, const RandomStream* draws, Draw draw) {
  const int64_t room = extent + 2 * pad - size;
  if (!draws || room <= 0) return extent >= size ? (extent - size) / 2 : -((size - extent) / 2);
  return static_cast<int64_t>(draws->below(draw, static_cast<uint32_t>(room + 1))) - pad;
}

class ImageSource final : public Source {
 public:
  ImageSource(std::shared_ptr<const ImageSet> images, const ImageOptions& options)
      : images_(std::move(images)), options_(options), changes_(options.augmentation) {
    if (options_.height == 0) options_.height = images_->height();
    if (options_.width == 0) options_.width = images_->width();
    if (options_.order.evaluation) changes_ = {};
    check();
    if (images_->rows() > 0) order_.emplace(images_->rows(), options_.order);
  }

  Signature signature(int64_t count) const override {
    Signature signature = {{"images", {DType::kU8, {count, images_->channels(), options_.height, options_.width}}}};
    if (options_.labels) signature.emplace_back("labels", TensorType{DType::kI32, {count}});
    if (options_.masks)
      signature.emplace_back("masks", TensorType{DType::kU8, {count, options_.height, options_.width}});
    if (options_.mixed) {
      signature.emplace_back("other_labels", TensorType{DType::kI32, {count}});
      signature.emplace_back("label_shares", TensorType{DType::kF32, {count}});
    }
    return signature;
  }

  void fill(int64_t first, int64_t count, const Places& places) const override {
    check_samples(first, count);
    Workspace work(*this);
    const std::vector<int64_t> rows = order_ ? order_->rows(first, count) : std::vector<int64_t>{};
    for (int64_t i = 0; i < count; ++i) {
      Sample sample{.row = order_ ? rows[static_cast<size_t>(i)] : first + i, .epoch = epoch_of(first + i)};
      size_t place = 0;
      sample.pixels = reinterpret_cast<uint8_t*>(places.tensors[place++]) + i * image_bytes();
      int32_t* const label = options_.labels ? reinterpret_cast<int32_t*>(places.tensors[place++]) + i : nullptr;
      if (options_.masks) sample.mask = reinterpret_cast<uint8_t*>(places.tensors[place++]) + i * area();
      make(sample, work);
      if (label) *label = sample.label;
      if (!options_.mixed) continue;
      reinterpret_cast<int32_t*>(places.tensors[place++])[i] = sample.other;
      reinterpret_cast<float*>(places.tensors[place++])[i] = sample.share;
    }
  }

  int64_t epoch_of(int64_t index) const override { return order_ ? order_->epoch_of(index) : 0; }
  int64_t epoch_samples(int64_t) const override { return order_ ? order_->size() : 0; }
  std::string text_of(int64_t index) const override {
    return (order_ ? "image " : "synthetic image ") + std::to_string(order_ ? order_->row(index) : index);
  }
  int64_t host_bytes() const override { return images_->host_bytes(); }
  Hash identity() const override {
    const OrderOptions& order = order_ ? order_->options() : options_.order;
    const Augmentation& a = changes_;
    return source_identity(
        "images", images_->hash().hex(),
        {static_cast<double>(options_.height), static_cast<double>(options_.width), order.shuffle ? 1.0 : 0.0,
         static_cast<double>(order.seed >> 32), static_cast<double>(order.seed & 0xFFFFFFFFu), order.held_out,
         order.evaluation ? 1.0 : 0.0, static_cast<double>(a.pad), a.flip, a.brightness, a.contrast, a.saturation,
         a.erase, a.mixup, a.cutmix});
  }

 private:
  struct Sample {
    int64_t row, epoch;
    uint8_t *pixels = nullptr, *mask = nullptr;
    int32_t label = 0, other = 0;
    float share = 1;
  };
  /// Memory for the images that a sample is made of.
  struct Workspace {
    std::vector<uint8_t> whole, partner, mask;
    std::vector<float> colours;
    explicit Workspace(const ImageSource& of)
        : whole(static_cast<size_t>(of.images_->channels() * of.images_->height() * of.images_->width())) {
      if (of.options_.masks) mask.resize(static_cast<size_t>(of.images_->height() * of.images_->width()));
      if (of.changes_.mixes()) partner.resize(static_cast<size_t>(of.image_bytes()));
    }
  };

  int64_t area() const { return options_.height * options_.width; }
  int64_t image_bytes() const { return images_->channels() * area(); }

  void check() const {
    const auto refuse = [](const std::string& what, const std::string& found, const std::string& expected) {
      throw Error({.what = what, .found = found, .expected = expected});
    };
    const Augmentation& a = changes_;
    if (options_.height < 1 || options_.width < 1 || options_.height > (1 << 24) || options_.width > (1 << 24))
      refuse("images cannot be of this size", Shape{options_.height, options_.width}.text(), "1 to 2^24");
    if (a.pad < 0 || a.pad > (1 << 24)) refuse("zeros around an image", std::to_string(a.pad), "0 or more");
    for (const double share : {a.flip, a.erase})
      if (!(share >= 0 && share <= 1)) refuse("a probability", std::to_string(share), "0 to 1");
    for (const double size : {a.brightness, a.contrast, a.saturation, a.mixup, a.cutmix})
      if (!(size >= 0 && size <= 4)) refuse("a size of changes", std::to_string(size), "0 to 4");
    if (options_.labels && !images_->has_labels()) refuse("the images have no labels", "no labels", "'labels'");
    if (options_.masks && !images_->has_masks()) refuse("the images have no masks", "no masks", "'masks'");
    if (a.mixes() && (options_.masks || !options_.mixed))
      refuse("images are mixed only where the shares of their labels are delivered", "mixup or cutmix", "neither");
    if (a.erase > 0 && options_.masks) refuse("parts of images with masks cannot be erased", "erase", "0");
  }

  RandomStream draws_of(const Sample& sample, uint64_t which) const {
    const auto row = static_cast<uint64_t>(sample.row);
    return {options_.order.seed, RandomPurpose::kAugmentation, static_cast<uint64_t>(sample.epoch), row * 2 + which};
  }

  int32_t label_of(int64_t row) const {
    const int32_t label = images_->label(row);
    if (options_.classes > 0 && label >= options_.classes) refuse_class(row, label);
    return label;
  }
  [[noreturn]] void refuse_class(int64_t row, int64_t found) const {
    throw Error({.what = "a class that the model does not have",
                 .where = "image " + std::to_string(row),
                 .found = std::to_string(found),
                 .expected = "0 to " + std::to_string(options_.classes - 1)});
  }

  void make(Sample& sample, Workspace& work) const {
    const RandomStream draws = draws_of(sample, 0);
    make_image(sample.row, draws, sample.pixels, sample.mask, work);
    if (options_.labels) sample.label = sample.other = label_of(sample.row);
    if (changes_.mixes()) mix(sample, draws, work);
    if (changes_.erase > 0 && static_cast<double>(draws.uniform(kErase)) < changes_.erase) erase(draws, sample.pixels);
  }

  /// The image of a row, cut out, mirrored and coloured; its mask is cut and mirrored alike.
  void make_image(int64_t row, const RandomStream& draws, uint8_t* pixels, uint8_t* mask, Workspace& work) const {
    const RandomStream* const drawn = options_.order.evaluation ? nullptr : &draws;
    const int64_t top = window(images_->height(), changes_.pad, options_.height, drawn, kTop),
                  left = window(images_->width(), changes_.pad, options_.width, drawn, kLeft);
    const bool mirrored = changes_.flip > 0 && static_cast<double>(draws.uniform(kFlip)) < changes_.flip;
    images_->read(row, work.whole.data());
    for (int64_t c = 0; c < images_->channels(); ++c)
      cut(work.whole.data() + c * images_->height() * images_->width(), top, left, mirrored, 0, pixels + c * area());
    if (changes_.brightness > 0 || changes_.contrast > 0 || changes_.saturation > 0) colour(draws, pixels, work);
    if (!mask) return;
    images_->read_mask(row, work.mask.data());
    cut(work.mask.data(), top, left, mirrored, kNoClass, mask);
    if (options_.classes == 0) return;
    for (int64_t i = 0; i < area(); ++i)
      if (mask[i] != kNoClass && mask[i] >= options_.classes) refuse_class(row, mask[i]);
  }

  /// The window of one channel that begins at (top, left); `outside` where it goes beyond.
  void cut(const uint8_t* from, int64_t top, int64_t left, bool mirrored, uint8_t outside, uint8_t* to) const {
    const int64_t height = images_->height(), width = images_->width();
    const int64_t begin = std::clamp<int64_t>(-left, 0, options_.width),
                  end = std::clamp<int64_t>(width - left, begin, options_.width);
    for (int64_t y = 0; y < options_.height; ++y, to += options_.width) {
      const int64_t row = top + y;
      if (row < 0 || row >= height || begin == end) {
        std::memset(to, outside, static_cast<size_t>(options_.width));
        continue;
      }
      std::memset(to, outside, static_cast<size_t>(begin));
      std::memcpy(to + begin, from + row * width + left + begin, static_cast<size_t>(end - begin));
      std::memset(to + end, outside, static_cast<size_t>(options_.width - end));
      if (mirrored) std::reverse(to, to + options_.width);
    }
  }

  /// Grey of a colour (ITU-R BT.601, as image libraries have it); of other images the mean of their channels.
  float grey(const std::vector<float>& colours, int64_t i) const {
    const auto at = [&](int64_t c) { return colours[static_cast<size_t>(c * area() + i)]; };
    if (images_->channels() == 3) return 0.299f * at(0) + 0.587f * at(1) + 0.114f * at(2);
    float sum = 0;
    for (int64_t c = 0; c < images_->channels(); ++c) sum += at(c);
    return sum / static_cast<float>(images_->channels());
  }

  /// Brightness, then contrast, then saturation, each within 0 and 255; rounded to bytes in the end.
  void colour(const RandomStream& draws, uint8_t* pixels, Workspace& work) const {
    std::vector<float>& colours = work.colours;
    colours.assign(pixels, pixels + image_bytes());
    if (changes_.brightness > 0) {
      const float factor = factor_of(draws, kBrightness, changes_.brightness);
      for (float& value : colours) value = clamped(value * factor);
    }
    if (changes_.contrast > 0) {
      const float factor = factor_of(draws, kContrast, changes_.contrast);
      double sum = 0;
      for (int64_t i = 0; i < area(); ++i) sum += static_cast<double>(grey(colours, i));
      const auto mean = static_cast<float>(sum / static_cast<double>(area()));
      for (float& value : colours) value = clamped(mean + factor * (value - mean));
    }
    if (changes_.saturation > 0 && images_->channels() == 3) {
      const float factor = factor_of(draws, kSaturation, changes_.saturation);
      for (int64_t i = 0; i < area(); ++i) {
        const float middle = grey(colours, i);
        for (int64_t c = 0; c < 3; ++c) {
          float& value = colours[static_cast<size_t>(c * area() + i)];
          value = clamped(middle + factor * (value - middle));
        }
      }
    }
    for (int64_t i = 0; i < image_bytes(); ++i)
      pixels[i] = static_cast<uint8_t>(colours[static_cast<size_t>(i)] + 0.5f);
  }

  /// Mixes the sample's image with that of another row, whole or in a box.
  void mix(Sample& sample, const RandomStream& draws, Workspace& work) const {
    const int64_t count = images_->rows() > 0 ? order_->size() : int64_t{1} << 31;
    const auto partner =
        static_cast<int64_t>(draws.below(kPartner, static_cast<uint32_t>(std::min<int64_t>(count, int64_t{1} << 31))));
    const int64_t row = order_ ? order_->row(sample.epoch * order_->size() + partner) : partner;
    make_image(row, draws_of(sample, 1), work.partner.data(), nullptr, work);
    sample.other = label_of(row);
    const bool boxed = changes_.cutmix > 0 && (changes_.mixup == 0 || draws.below(kMixKind, 2) == 1);
    const double share = draw_beta(draws, boxed ? changes_.cutmix : changes_.mixup);
    if (boxed)
      paste(sample, share, draws, work.partner);
    else
      blend(sample, share, work.partner);
  }

  /// Shares are multiples of 1/256, so that the image and its label have the same one.
  void blend(Sample& sample, double share, const std::vector<uint8_t>& partner) const {
    const auto own = static_cast<int>(share * 256 + 0.5);
    for (int64_t i = 0; i < image_bytes(); ++i)
      sample.pixels[i] =
          static_cast<uint8_t>((own * sample.pixels[i] + (256 - own) * partner[static_cast<size_t>(i)] + 128) >> 8);
    sample.share = static_cast<float>(own) / 256;
  }

  void paste(Sample& sample, double share, const RandomStream& draws, const std::vector<uint8_t>& partner) const {
    const double side = std::sqrt(1 - share);
    const auto extent = [&](int64_t size) { return static_cast<int64_t>(side * static_cast<double>(size)); };
    const auto middle = [&](Draw draw, int64_t size) {
      return static_cast<int64_t>(draws.below(draw, static_cast<uint32_t>(size)));
    };
    const int64_t height = extent(options_.height), width = extent(options_.width);
    const int64_t y = middle(kBoxTop, options_.height), x = middle(kBoxLeft, options_.width);
    const int64_t top = std::max<int64_t>(0, y - height / 2), bottom = std::min(options_.height, y + height / 2),
                  left = std::max<int64_t>(0, x - width / 2), right = std::min(options_.width, x + width / 2);
    for (int64_t c = 0; c < images_->channels(); ++c)
      for (int64_t row = top; row < bottom; ++row) {
        const int64_t at = (c * options_.height + row) * options_.width + left;
        if (right > left) std::memcpy(sample.pixels + at, partner.data() + at, static_cast<size_t>(right - left));
      }
    const int64_t pasted = std::max<int64_t>(0, bottom - top) * std::max<int64_t>(0, right - left);
    sample.share = 1 - static_cast<float>(pasted) / static_cast<float>(area());
  }

  /// Fills a box of 2% to 33% of the area, with sides in a proportion of 3:10 to 10:3, with noise.
  void erase(const RandomStream& draws, uint8_t* pixels) const {
    const double share = 0.02 + 0.31 * static_cast<double>(draws.uniform(kEraseArea));
    const double log_most = 1.2039728043259361;  // of 10/3
    const double log_aspect = log_most * (2 * static_cast<double>(draws.uniform(kEraseAspect)) - 1);
    const double aspect = log_aspect > 0 ? 1 / plain_exp(-log_aspect) : plain_exp(log_aspect);
    const double pixels_in_all = share * static_cast<double>(area());
    const auto side = [](double square, int64_t most) {
      return std::clamp<int64_t>(static_cast<int64_t>(std::sqrt(square) + 0.5), 1, most);
    };
    const int64_t height = side(pixels_in_all * aspect, options_.height),
                  width = side(pixels_in_all / aspect, options_.width);
    const int64_t top = draws.below(kEraseTop, static_cast<uint32_t>(options_.height - height + 1)),
                  left = draws.below(kEraseLeft, static_cast<uint32_t>(options_.width - width + 1));
    uint64_t element = kNoise;
    for (int64_t c = 0; c < images_->channels(); ++c)
      for (int64_t y = top; y < top + height; ++y)
        for (int64_t x = left; x < left + width; ++x)
          pixels[(c * options_.height + y) * options_.width + x] = static_cast<uint8_t>(draws.bits16(element++) >> 8);
  }

  std::shared_ptr<const ImageSet> images_;
  ImageOptions options_;
  Augmentation changes_;
  std::optional<SampleOrder> order_;  ///< none of an endless set
};

}  // namespace

std::shared_ptr<const Source> make_image_source(std::shared_ptr<const ImageSet> images, const ImageOptions& options) {
  return std::make_shared<ImageSource>(std::move(images), options);
}

}  // namespace ramet::data
