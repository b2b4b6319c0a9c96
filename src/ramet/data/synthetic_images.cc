#include <algorithm>
#include <array>

#include "ramet/base/error.h"
#include "ramet/base/rng.h"
#include "ramet/data/images.h"

namespace ramet::data {
namespace {

constexpr int64_t kCells = 4;  // of a pattern, along each side
constexpr uint64_t kPatternSeed = 1;

class Synthetic final : public ImageSet {
 public:
  explicit Synthetic(const SyntheticImages& options)
      : ImageSet(options.channels, options.height, options.width), options_(options) {
    if (channels_ < 1 || height_ < 1 || width_ < 1 || options_.classes < 1 ||
        (options_.masks && options_.classes > 255))
      throw Error({.what = "synthetic images of a form that cannot be",
                   .found = std::to_string(options_.classes) + " classes, " + Shape{channels_, height_, width_}.text(),
                   .expected = "positive sizes, and at most 255 classes of pixels"});
  }

  int64_t rows() const override { return 0; }
  bool has_labels() const override { return !options_.masks; }
  bool has_masks() const override { return options_.masks; }
  int64_t classes() const override { return options_.classes; }

  void read(int64_t row, uint8_t* pixels) const override {
    if (options_.masks)
      draw_shapes(row, pixels, nullptr);
    else
      draw_pattern(row, pixels);
  }
  int32_t label(int64_t row) const override {
    return static_cast<int32_t>(draws_of(row).below(0, static_cast<uint32_t>(options_.classes)));
  }
  void read_mask(int64_t row, uint8_t* classes) const override { draw_shapes(row, nullptr, classes); }

  Hash hash() const override {
    return source_identity("synthetic images", options_.masks ? "masks" : "labels",
                           {static_cast<double>(channels_), static_cast<double>(height_), static_cast<double>(width_),
                            static_cast<double>(options_.classes), static_cast<double>(options_.seed)});
  }

 private:
  RandomStream draws_of(int64_t row) const {
    const auto number = static_cast<uint64_t>(row);
    return {options_.seed, RandomPurpose::kSynthetic, number & 0xFFFFFFFFu, number >> 32};
  }

  /// Noise from -span to span of element `i`, 16 elements a block. Blocks from kNoise on.
  class Noise {
   public:
    Noise(const RandomStream& draws, int span) : draws_(draws), span_(span) {}
    int next() {
      if (at_ == 16) words_ = draws_.block(block_++), at_ = 0;
      const auto byte = static_cast<int>(words_[static_cast<size_t>(at_ / 4)] >> 8 * (at_ % 4) & 255);
      ++at_;
      return (byte * (2 * span_ + 1) >> 8) - span_;
    }

   private:
    static constexpr uint64_t kNoise = 1024;
    const RandomStream& draws_;
    const int span_;
    uint64_t block_ = kNoise;
    std::array<uint32_t, 4> words_{};
    int at_ = 16;
  };

  static uint8_t pixel_of(int value) { return static_cast<uint8_t>(std::clamp(value, 0, 255)); }

  /// A pattern of kCells x kCells shades for each channel, which the class decides, under noise.
  void draw_pattern(int64_t row, uint8_t* pixels) const {
    const RandomStream draws = draws_of(row),
                       pattern(kPatternSeed, RandomPurpose::kSynthetic, 0, static_cast<uint64_t>(label(row)));
    Noise noise(draws, 64);
    for (int64_t c = 0; c < channels_; ++c)
      for (int64_t y = 0; y < height_; ++y) {
        const int64_t cell_row = (c * kCells + y * kCells / height_) * kCells;
        std::array<int, kCells> shades;
        for (int64_t i = 0; i < kCells; ++i)
          shades[static_cast<size_t>(i)] =
              64 + static_cast<int>(pattern.below(static_cast<uint64_t>(cell_row + i), 128));
        for (int64_t x = 0; x < width_; ++x)
          *pixels++ = pixel_of(shades[static_cast<size_t>(x * kCells / width_)] + noise.next());
      }
  }

  struct Figure {
    int64_t top = 0, left = 0, height = 0, width = 0;
    uint8_t of_class = 0;
    bool disc = false;
    bool covers(int64_t y, int64_t x) const {
      const int64_t dy = y - top, dx = x - left;
      if (dy < 0 || dy >= height || dx < 0 || dx >= width) return false;
      if (!disc) return true;
      // Of the ellipse that touches the sides, in whole numbers.
      const int64_t v = (2 * dy + 1 - height) * width, h = (2 * dx + 1 - width) * height, radius = height * width;
      return v * v + h * h <= radius * radius;
    }
  };

  /// Later figures lie on earlier ones. Either of the two results may be null.
  void draw_shapes(int64_t row, uint8_t* pixels, uint8_t* classes) const {
    const RandomStream draws = draws_of(row);
    std::vector<Figure> figures;
    const int64_t count = options_.classes < 2 ? 0 : 1 + draws.below(1, 3);
    for (int64_t i = 0; i < count; ++i) {
      const auto element = static_cast<uint64_t>(8 * (i + 1));
      const auto extent = [&](uint64_t at, int64_t most) {
        const int64_t least = std::max<int64_t>(1, most / 5);
        return least + draws.below(element + at, static_cast<uint32_t>(std::max<int64_t>(1, most * 3 / 5 - least + 1)));
      };
      Figure figure{.height = extent(0, height_), .width = extent(1, width_)};
      figure.top = draws.below(element + 2, static_cast<uint32_t>(height_ - figure.height + 1));
      figure.left = draws.below(element + 3, static_cast<uint32_t>(width_ - figure.width + 1));
      figure.of_class = static_cast<uint8_t>(1 + draws.below(element + 4, static_cast<uint32_t>(options_.classes - 1)));
      figure.disc = draws.below(element + 5, 2) == 1;
      figures.push_back(figure);
    }
    std::vector<uint8_t> shown(static_cast<size_t>(height_ * width_), 0);
    for (const Figure& figure : figures)
      for (int64_t y = figure.top; y < figure.top + figure.height; ++y)
        for (int64_t x = figure.left; x < figure.left + figure.width; ++x)
          if (figure.covers(y, x)) shown[static_cast<size_t>(y * width_ + x)] = figure.of_class;
    if (classes) std::copy(shown.begin(), shown.end(), classes);
    if (!pixels) return;
    Noise noise(draws, 24);
    for (int64_t c = 0; c < channels_; ++c)
      for (const uint8_t of_class : shown) *pixels++ = pixel_of(shade_of(of_class, c) + noise.next());
  }
  /// The shade of a class: classes are spread over the range, in every second channel the other way round.
  int shade_of(uint8_t of_class, int64_t channel) const {
    const auto spread = static_cast<int>((int64_t{of_class} * 2 + 1) * 128 / options_.classes);  // 0 to 255
    return channel % 2 == 0 ? spread : 255 - spread;
  }

  SyntheticImages options_;
};

}  // namespace

std::shared_ptr<const ImageSet> make_synthetic_images(const SyntheticImages& options) {
  return std::make_shared<Synthetic>(options);
}

}  // namespace ramet::data
