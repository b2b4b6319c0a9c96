#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ramet/data/arrays.h"
#include "ramet/data/sample_order.h"
#include "ramet/data/source.h"

namespace ramet::data {

/// A set of images of one size, with elements from 0 to 255, and what is to be learned of each. All functions may be
/// called from many threads at once.
class ImageSet {
 public:
  virtual ~ImageSet() = default;
  /// Number of images; 0: endless (any row from 0 on).
  virtual int64_t rows() const = 0;
  int64_t channels() const { return channels_; }
  int64_t height() const { return height_; }
  int64_t width() const { return width_; }
  virtual bool has_labels() const = 0;
  virtual bool has_masks() const = 0;
  /// Number of classes that labels or masks need: the greatest plus one. May read all data.
  virtual int64_t classes() const = 0;

  /// The image of a row: [channels, height, width].
  virtual void read(int64_t row, uint8_t* pixels) const = 0;
  /// Its class; below 0: it does not count.
  virtual int32_t label(int64_t row) const = 0;
  /// The class of each pixel, [height, width]; kNoClass: the pixel does not count.
  virtual void read_mask(int64_t row, uint8_t* classes) const = 0;

  /// Hash of the contents. May read all data.
  virtual Hash hash() const = 0;
  virtual int64_t host_bytes() const { return 0; }

 protected:
  ImageSet(int64_t channels, int64_t height, int64_t width) : channels_(channels), height_(height), width_(width) {}
  int64_t channels_, height_, width_;
};
/// In masks: pixels that do not count.
inline constexpr uint8_t kNoClass = 255;

/// Where the channels of arrays of images are.
enum class ChannelAxis { kAuto, kFirst, kLast };
/// "auto", "first", "last"; throws Error naming them.
ChannelAxis channel_axis_from_name(std::string_view name);

/// The images of arrays: "images" u8 [N,H,W], [N,H,W,C] or [N,C,H,W]; with "labels" (integers [N]), "masks" (u8
/// [N,H,W]), both or neither. kAuto finds the axis of 1, 3 or 4 channels. Arrays of other names are passed over. Throws
/// Error, naming `source`, when images are missing, of another type, without elements, or of a form that could be read
/// in two ways, when labels are no whole numbers from -1 on, or when the arrays have different numbers of samples.
std::shared_ptr<const ImageSet> image_arrays(std::vector<ArrayColumn> arrays, ChannelAxis axis,
                                             const std::string& source);

/// One array of a file in the idx form of MNIST (LeCun, Cortes and Burges): u8, of 1 to 4 dimensions, named `name`.
/// The file may be compressed by gzip; it is read whole. Throws Error naming the file.
ArrayColumn open_idx(const std::filesystem::path& path, const std::string& name);
/// The same of the bytes of a file that is not compressed; `source` names it in messages.
ArrayColumn parse_idx(std::string bytes, const std::string& name, const std::string& source);
/// A part ("train" or "t10k") of a data set in the form of MNIST: PART-images-idx3-ubyte and PART-labels-idx1-ubyte,
/// each plain or with the ending .gz. Throws Error naming the folder.
std::shared_ptr<const ImageSet> open_mnist(const std::filesystem::path& folder, const std::string& part);

struct SyntheticImages {
  int64_t channels = 3, height = 32, width = 32, classes = 10;
  bool masks = false;  ///< shapes on a background of class 0, and what each pixel shows; otherwise labels
  uint64_t seed = 0;   ///< of what images show; what classes look like is the same for every seed
};
/// Endless images that a network can learn. An image with a label is a coarse pattern of its class under noise; one
/// with a mask shows one to three boxes and discs, each with the shade of its class.
std::shared_ptr<const ImageSet> make_synthetic_images(const SyntheticImages& options);

/// Random changes of the images that are trained on. Each is drawn by (seed, epoch, row of the set).
struct Augmentation {
  int64_t pad = 0;               ///< zeros around the image, of which a window of the image's size is taken
  double flip = 0;               ///< probability of a mirror image
  double brightness = 0;         ///< pixels times a factor from [1 - x, 1 + x]
  double contrast = 0;           ///< distances from the image's mean grey times such a factor
  double saturation = 0;         ///< distances from each pixel's grey times such a factor (three channels)
  double erase = 0;              ///< probability that a box is filled with noise (Zhong et al., arXiv 1708.04896)
  double mixup = 0, cutmix = 0;  ///< alpha of Zhang et al., arXiv 1710.09412, and of Yun et al., arXiv 1905.04899
  bool mixes() const { return mixup > 0 || cutmix > 0; }
  bool any() const {
    return pad > 0 || flip > 0 || brightness > 0 || contrast > 0 || saturation > 0 || erase > 0 || mixes();
  }
};

struct ImageOptions {
  int64_t height = 0,
          width = 0;  ///< as delivered; 0: the set's. Greater ones get zeros around, smaller ones are cut out
  OrderOptions order{};
  Augmentation augmentation{};        ///< ignored by an evaluation
  bool labels = true, masks = false;  ///< what is delivered beside images
  bool mixed = false;                 ///< other_labels and label_shares are delivered, too, mixed or not
  int64_t classes = 0;                ///< a class beyond is an Error when its sample is made; 0: any
};

/// Samples of a set: images u8 [n, channels, height, width]; labels i32[n]; masks u8 [n, height, width]; other_labels
/// i32[n] and label_shares f32[n], the share of the image that `labels` speak of. A mixture is of an image and another
/// one that is drawn from the whole set. Throws Error for sizes that cannot be, and for labels or masks that the set
/// does not have.
std::shared_ptr<const Source> make_image_source(std::shared_ptr<const ImageSet> images, const ImageOptions& options);

}  // namespace ramet::data
