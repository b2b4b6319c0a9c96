#include "ramet/data/images.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <set>
#include <thread>

#include "ramet/base/error.h"
#include "ramet/base/file.h"
#include "support/errors.h"
#include "support/temporary.h"

namespace ramet::tests {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

template <typename T>
ArrayColumn column_of(const std::string& name, const std::string& stored, Shape shape, const std::vector<T>& numbers) {
  const auto keeper = std::make_shared<std::vector<T>>(numbers);
  return {.name = name,
          .stored = stored,
          .shape = std::move(shape),
          .data = reinterpret_cast<const std::byte*>(keeper->data()),
          .keeper = keeper,
          .where = "made"};
}

/// Images whose pixels say where they are: 16 row + 4 y + x, [N,4,4].
std::vector<uint8_t> counted(int64_t rows) {
  std::vector<uint8_t> pixels;
  for (int64_t i = 0; i < rows * 16; ++i) pixels.push_back(static_cast<uint8_t>(i));
  return pixels;
}

std::shared_ptr<const ImageSet> small_set(int64_t rows = 8, bool masks = false) {
  std::vector<ArrayColumn> arrays = {column_of("images", "u8", {rows, 4, 4}, counted(rows))};
  if (masks) {
    std::vector<uint8_t> classes = counted(rows);
    for (uint8_t& each : classes) each %= 3;
    arrays.push_back(column_of("masks", "u8", {rows, 4, 4}, classes));
  } else {
    std::vector<int64_t> labels;
    for (int64_t i = 0; i < rows; ++i) labels.push_back(i % 5);
    arrays.push_back(column_of("labels", "i64", {rows}, labels));
  }
  return image_arrays(std::move(arrays), ChannelAxis::kAuto, "made");
}

std::vector<uint8_t> bytes_of(const NamedTensor& tensor) {
  std::vector<uint8_t> bytes(tensor.bytes.size());
  std::memcpy(bytes.data(), tensor.bytes.data(), bytes.size());
  return bytes;
}
template <typename T>
std::vector<T> numbers_of(const NamedTensor& tensor) {
  std::vector<T> numbers(tensor.bytes.size() / sizeof(T));
  std::memcpy(numbers.data(), tensor.bytes.data(), tensor.bytes.size());
  return numbers;
}

/// All tensors of samples, one behind the other.
std::string text_of(const Source& source, int64_t first, int64_t count) {
  std::string text;
  for (const NamedTensor& tensor : source.make(first, count).tensors)
    text.append(reinterpret_cast<const char*>(tensor.bytes.data()), tensor.bytes.size());
  return text;
}

Augmentation everything() {
  return {.pad = 2,
          .flip = 0.5,
          .brightness = 0.3,
          .contrast = 0.3,
          .saturation = 0.3,
          .erase = 0.5,
          .mixup = 0.8,
          .cutmix = 1};
}

TEST(Images, ArraysOfEveryFormGiveTheSameImages) {
  const int64_t rows = 2, channels = 3, height = 5, width = 6;
  std::vector<uint8_t> first, last(static_cast<size_t>(rows * channels * height * width));
  for (int64_t n = 0; n < rows; ++n)
    for (int64_t c = 0; c < channels; ++c)
      for (int64_t y = 0; y < height; ++y)
        for (int64_t x = 0; x < width; ++x) {
          const auto pixel = static_cast<uint8_t>(100 * n + 30 * c + 5 * y + x);
          first.push_back(pixel);
          last[static_cast<size_t>(((n * height + y) * width + x) * channels + c)] = pixel;
        }
  const auto images = [&](Shape shape, const std::vector<uint8_t>& pixels, ChannelAxis axis) {
    const auto set = image_arrays({column_of("images", "u8", std::move(shape), pixels)}, axis, "made");
    EXPECT_EQ(set->channels(), channels);
    EXPECT_EQ(set->height(), height);
    return bytes_of(make_image_source(set, {.order = {.shuffle = false}, .labels = false})->make(0, rows).at("images"));
  };
  EXPECT_EQ(images({rows, channels, height, width}, first, ChannelAxis::kAuto), first);
  EXPECT_EQ(images({rows, channels, height, width}, first, ChannelAxis::kFirst), first);
  EXPECT_EQ(images({rows, height, width, channels}, last, ChannelAxis::kAuto), first);
  EXPECT_EQ(images({rows, height, width, channels}, last, ChannelAxis::kLast), first);
}

TEST(Images, WhatArraysCannotBeIsRefused) {
  const std::vector<uint8_t> pixels(96, 1);
  const auto error = [&](std::vector<ArrayColumn> arrays) {
    return error_of([&] { image_arrays(std::move(arrays), ChannelAxis::kAuto, "made.npz"); });
  };
  const ArrayColumn images = column_of("images", "u8", {2, 3, 4, 2}, pixels);
  EXPECT_THAT(error({column_of("image", "u8", {6, 4, 4}, pixels)}),
              HasSubstr("made.npz: the arrays hold no images; found image; expected an array 'images'"));
  EXPECT_THAT(error({column_of("images", "f32", {6, 4, 1}, pixels)}), HasSubstr("images are bytes of three or four"));
  EXPECT_THAT(error({column_of("images", "u8", {2, 3, 4, 3}, pixels)}),
              HasSubstr("both the second and the last dimension of images could be channels"));
  EXPECT_THAT(error({column_of("images", "u8", {2, 2, 4, 5}, pixels)}), HasSubstr("data.channels_at"));
  EXPECT_THAT(error({images, column_of<int32_t>("labels", "i32", {3}, {0, 1, 2})}),
              HasSubstr("'labels' has 3; expected 2, as 'images' has"));
  EXPECT_THAT(error({images, column_of<int32_t>("labels", "i32", {2}, {0, -7})}), HasSubstr("a label below -1"));
  EXPECT_THAT(error({images, column_of<float>("labels", "f32", {2}, {0, 1})}), HasSubstr("labels are whole numbers"));
  EXPECT_THAT(error({images, column_of("masks", "u8", {2, 4, 1}, pixels)}), HasSubstr("masks give the class of each"));
  EXPECT_THAT(error({images, images}), HasSubstr("two arrays have one name"));
}

TEST(Images, AnEvaluationGivesTheMiddleAndNothingRandom) {
  ImageOptions options{
      .height = 2, .width = 6, .order = {.evaluation = true}, .augmentation = everything(), .mixed = true};
  const Batch batch = make_image_source(small_set(), options)->make(1, 1);
  // Rows 1 and 2 of the image of row 1, with a zero on each side.
  EXPECT_THAT(bytes_of(batch.at("images")), ElementsAre(0, 20, 21, 22, 23, 0, 0, 24, 25, 26, 27, 0));
  EXPECT_THAT(numbers_of<int32_t>(batch.at("labels")), ElementsAre(1));
  EXPECT_THAT(numbers_of<int32_t>(batch.at("other_labels")), ElementsAre(1));
  EXPECT_THAT(numbers_of<float>(batch.at("label_shares")), ElementsAre(1));
}

TEST(Images, AShareIsHeldOutAndTheRestIsTrainedOn) {
  std::multiset<int32_t> seen;
  const auto set = small_set();
  for (const bool evaluation : {false, true}) {
    const auto source = make_image_source(set, {.order = {.seed = 3, .held_out = 0.25, .evaluation = evaluation}});
    EXPECT_EQ(source->epoch_samples(0), evaluation ? 2 : 6);
    const Batch batch = source->make(0, source->epoch_samples(0));
    for (size_t i = 0; i < batch.at("images").bytes.size(); i += 16) seen.insert(bytes_of(batch.at("images"))[i]);
  }
  EXPECT_THAT(seen, ElementsAre(0, 16, 32, 48, 64, 80, 96, 112)) << "each image once";
}

TEST(Images, ACropIsAWindowOfThePaddedImageAndAMirrorIsThat) {
  const auto set = small_set(1);
  const auto source = make_image_source(set, {.augmentation = {.pad = 1, .flip = 0.5}});
  std::map<std::vector<uint8_t>, int> seen;
  for (int64_t i = 0; i < 400; ++i) ++seen[bytes_of(source->make(i, 1).at("images"))];
  EXPECT_EQ(seen.size(), 18u) << "3 x 3 windows, mirrored or not";
  for (const auto& [pixels, count] : seen) {
    bool known = false;
    for (int top = -1; top <= 1; ++top)
      for (int left = -1; left <= 1; ++left)
        for (const bool mirrored : {false, true}) {
          std::vector<uint8_t> expected;
          for (int y = top; y < top + 4; ++y)
            for (int x = 0; x < 4; ++x) {
              const int column = left + (mirrored ? 3 - x : x);
              const bool inside = y >= 0 && y < 4 && column >= 0 && column < 4;
              expected.push_back(inside ? static_cast<uint8_t>(4 * y + column) : 0);
            }
          known = known || pixels == expected;
        }
    EXPECT_TRUE(known);
    EXPECT_GT(count, 5);
  }
}

TEST(Images, MasksAreCutAndMirroredWithTheirImages) {
  const auto source = make_image_source(
      small_set(8, true), {.augmentation = {.pad = 2, .flip = 0.5}, .labels = false, .masks = true, .classes = 3});
  for (int64_t i = 0; i < 64; ++i) {
    const Batch batch = source->make(i, 1);
    const std::vector<uint8_t> pixels = bytes_of(batch.at("images")), classes = bytes_of(batch.at("masks"));
    for (size_t k = 0; k < pixels.size(); ++k) {
      if (classes[k] == kNoClass)
        EXPECT_EQ(pixels[k], 0);
      else
        EXPECT_EQ(classes[k], pixels[k] % 3);
    }
  }
  const auto narrow = make_image_source(small_set(8, true), {.labels = false, .masks = true, .classes = 2});
  EXPECT_THAT(error_of([&] { narrow->make(0, 1); }), HasSubstr("a class that the model does not have"));
}

TEST(Images, ColoursFollowTheirFormulas) {
  const std::vector<uint8_t> pixels = {10, 20, 30, 40, 110, 120, 130, 140, 210, 220, 230, 240};
  const auto set = image_arrays({column_of("images", "u8", {1, 3, 2, 2}, pixels)}, ChannelAxis::kAuto, "made");
  const auto changed = [&](const Augmentation& augmentation, int64_t sample) {
    return bytes_of(
        make_image_source(set, {.augmentation = augmentation, .labels = false})->make(sample, 1).at("images"));
  };
  for (int64_t i = 0; i < 20; ++i) {
    const std::vector<uint8_t> bright = changed({.brightness = 0.5}, i);
    const double factor = bright[4] / 110.0;
    EXPECT_GE(factor, 0.49);
    EXPECT_LE(factor, 1.51);
    for (size_t k = 0; k < pixels.size(); ++k) EXPECT_NEAR(bright[k], std::min(255.0, factor * pixels[k]), 1.6);
    const std::vector<uint8_t> contrast = changed({.contrast = 0.5}, i);
    double mean = 0;
    for (size_t k = 0; k < 4; ++k) mean += (0.299 * pixels[k] + 0.587 * pixels[4 + k] + 0.114 * pixels[8 + k]) / 4;
    const double stretch = (contrast[0] - mean) / (10 - mean);
    if (contrast[0] > 0)
      for (size_t k = 0; k < pixels.size(); ++k)
        EXPECT_NEAR(contrast[k], std::clamp(mean + stretch * (pixels[k] - mean), 0.0, 255.0), 2);
    const std::vector<uint8_t> saturated = changed({.saturation = 1}, i);
    for (size_t k = 0; k < 4; ++k) {
      const double grey = 0.299 * pixels[k] + 0.587 * pixels[4 + k] + 0.114 * pixels[8 + k];
      if (saturated[k] == 0 || saturated[8 + k] == 255) continue;
      EXPECT_NEAR(0.299 * saturated[k] + 0.587 * saturated[4 + k] + 0.114 * saturated[8 + k], grey, 1.5)
          << "greys stay";
    }
  }
}

TEST(Images, MixturesHaveTheSharesOfTheirLabels) {
  // Every image has one shade, which is its label times 50.
  std::vector<uint8_t> pixels;
  std::vector<int32_t> labels;
  for (int i = 0; i < 5; ++i) pixels.insert(pixels.end(), 64, static_cast<uint8_t>(50 * i)), labels.push_back(i);
  const auto set = image_arrays({column_of("images", "u8", {5, 8, 8}, pixels), column_of("labels", "i32", {5}, labels)},
                                ChannelAxis::kAuto, "made");
  for (const Augmentation& augmentation : {Augmentation{.mixup = 0.4}, Augmentation{.cutmix = 1}}) {
    const auto source = make_image_source(set, {.augmentation = augmentation, .mixed = true});
    double sum = 0, extreme = 0;
    for (int64_t i = 0; i < 500; ++i) {
      const Batch batch = source->make(i, 1);
      const double share = numbers_of<float>(batch.at("label_shares"))[0];
      const double own = 50.0 * numbers_of<int32_t>(batch.at("labels"))[0],
                   other = 50.0 * numbers_of<int32_t>(batch.at("other_labels"))[0];
      double mean = 0;
      for (const uint8_t pixel : bytes_of(batch.at("images"))) mean += pixel / 64.0;
      EXPECT_NEAR(mean, share * own + (1 - share) * other, 0.51);
      EXPECT_GE(share, 0);
      EXPECT_LE(share, 1);
      sum += share, extreme += share < 0.1 || share > 0.9;
    }
    EXPECT_NEAR(sum / 500, augmentation.mixup > 0 ? 0.5 : 0.767, 0.05) << "boxes are cut off at the edge";
    if (augmentation.mixup > 0) EXPECT_NEAR(extreme / 500, 0.42, 0.07) << "Beta(0.4, 0.4)";
  }
}

TEST(Images, AnErasedBoxIsWithinItsLimits) {
  const std::vector<uint8_t> pixels(400, 7);
  const auto set = image_arrays({column_of("images", "u8", {1, 20, 20}, pixels)}, ChannelAxis::kAuto, "made");
  const auto source = make_image_source(set, {.augmentation = {.erase = 0.5}, .labels = false});
  int erased = 0;
  for (int64_t i = 0; i < 300; ++i) {
    const std::vector<uint8_t> found = bytes_of(source->make(i, 1).at("images"));
    const auto other = 400 - std::count(found.begin(), found.end(), 7);
    erased += other > 0;
    EXPECT_LE(other, 400 * 0.37);
  }
  EXPECT_NEAR(erased, 150, 30);
}

TEST(Images, ASampleIsTheSameWhoeverAsksForIt) {
  const auto set = make_synthetic_images({.channels = 3, .height = 12, .width = 10, .classes = 4});
  std::vector<std::shared_ptr<const Source>> sources = {
      make_image_source(small_set(),
                        {.height = 5, .width = 5, .order = {.seed = 5}, .augmentation = everything(), .mixed = true}),
      make_image_source(set, {.order = {.seed = 5}, .augmentation = everything(), .mixed = true})};
  for (const auto& source : sources) {
    const std::string alone = text_of(*source, 19, 1);
    std::vector<std::string> found(4);
    std::vector<std::thread> threads;
    for (size_t i = 0; i < found.size(); ++i)
      threads.emplace_back([&, i] {
        for (int64_t first = 19 - static_cast<int64_t>(i); first >= 0; --first) text_of(*source, first, 3);
        found[i] = text_of(*source, 19, 1);
      });
    for (std::thread& thread : threads) thread.join();
    for (const std::string& each : found) EXPECT_EQ(each, alone);
    const Batch batch = source->make(16, 8);
    const auto bytes = bytes_of(batch.at("images"));
    const size_t size = bytes.size() / 8;
    EXPECT_EQ(std::string(bytes.begin() + 3 * size, bytes.begin() + 4 * size), alone.substr(0, size))
        << "within a batch";
  }
  EXPECT_NE(text_of(*sources[0], 3, 1), text_of(*sources[0], 3 + 8, 1)) << "another epoch";
  const auto other_seed = make_image_source(
      small_set(), {.height = 5, .width = 5, .order = {.seed = 6}, .augmentation = everything(), .mixed = true});
  EXPECT_NE(text_of(*sources[0], 3, 1), text_of(*other_seed, 3, 1));
  EXPECT_NE(sources[0]->identity().hex(), other_seed->identity().hex());
}

TEST(Images, SyntheticOnesShowTheirClass) {
  const auto set = make_synthetic_images({.channels = 1, .height = 16, .width = 16, .classes = 3, .seed = 1});
  const auto other = make_synthetic_images({.channels = 1, .height = 16, .width = 16, .classes = 3, .seed = 2});
  std::map<int32_t, std::vector<double>> means;
  std::map<int32_t, int> counts;
  std::vector<uint8_t> pixels(256);
  for (int64_t row = 0; row < 200; ++row) {
    set->read(row, pixels.data());
    std::vector<double>& mean = means[set->label(row)];
    mean.resize(256);
    for (size_t i = 0; i < 256; ++i) mean[i] += pixels[i];
    ++counts[set->label(row)];
  }
  ASSERT_EQ(counts.size(), 3u);
  int right = 0;
  for (int64_t row = 0; row < 100; ++row) {
    other->read(row, pixels.data());
    std::pair<double, int32_t> nearest = {1e30, -1};
    for (const auto& [label, mean] : means) {
      double distance = 0;
      for (size_t i = 0; i < 256; ++i) distance += std::pow(pixels[i] - mean[i] / counts[label], 2);
      nearest = std::min(nearest, {distance, label});
    }
    right += nearest.second == other->label(row);
  }
  EXPECT_EQ(right, 100) << "classes look alike whatever the seed";
  const auto shapes = make_synthetic_images({.channels = 3, .height = 20, .width = 30, .classes = 4, .masks = true});
  std::set<int> classes;
  std::vector<uint8_t> mask(600);
  for (int64_t row = 0; row < 50; ++row) {
    shapes->read_mask(row, mask.data());
    classes.insert(mask.begin(), mask.end());
  }
  EXPECT_THAT(classes, ElementsAre(0, 1, 2, 3));
}

std::string idx(const std::vector<int>& dims, size_t bytes) {
  std::string file("\0\0\x08", 3);
  file += static_cast<char>(dims.size());
  for (const int dim : dims)
    for (int shift = 24; shift >= 0; shift -= 8) file += static_cast<char>(dim >> shift);
  for (size_t i = 0; i < bytes; ++i) file += static_cast<char>(i % 10);
  return file;
}

TEST(Idx, FilesArePlainOrCompressed) {
  const TemporaryFolder folder;
  const auto write = [&](const std::string& name, const std::string& contents, bool compressed) {
    const std::string path = (folder.path() / name).string();
    const gzFile file = gzopen(path.c_str(), compressed ? "wb" : "wbT");
    gzwrite(file, contents.data(), static_cast<unsigned>(contents.size()));
    gzclose(file);
  };
  write("train-images-idx3-ubyte.gz", idx({3, 2, 2}, 12), true);
  write("train-labels-idx1-ubyte", idx({3}, 3), false);
  const auto set = open_mnist(folder.path(), "train");
  EXPECT_EQ(set->rows(), 3);
  EXPECT_EQ(set->classes(), 3);
  std::vector<uint8_t> pixels(4);
  set->read(1, pixels.data());
  EXPECT_THAT(pixels, ElementsAre(4, 5, 6, 7));
  EXPECT_THAT(error_of([&] { open_mnist(folder.path(), "t10k"); }),
              HasSubstr("the folder lacks a file of the data set; expected t10k-images-idx3-ubyte or"));
  const std::string whole = read_file(folder.path() / "train-images-idx3-ubyte.gz");
  write_file_atomic(folder.path() / "train-images-idx3-ubyte.gz", whole.substr(0, whole.size() - 9));
  EXPECT_THAT(error_of([&] { open_mnist(folder.path(), "train"); }), HasSubstr("damaged"));
}

TEST(Idx, WhatIsNotTheFormIsRefused) {
  const std::pair<std::string, const char*> cases[] = {
      {"", "another beginning"},
      {"\x01\x02\x08\x01", "another beginning"},
      {std::string("\0\0\x0d\x01\0\0\0\x01", 8), "elements of type 13"},
      {std::string("\0\0\x08\x07", 4), "7 dimensions"},
      {idx({3, 2, 2}, 12).substr(0, 9), "the end of the file in its header"},
      {idx({3, 2, 2}, 11), "11 elements; expected 12, as its header says"},
      {idx({0x7fffffff, 0x7fffffff, 0x7fffffff}, 0), "extents that no file has"}};
  for (const auto& [bytes, expected] : cases)
    EXPECT_THAT(error_of([&] { parse_idx(bytes, "x", "file"); }), HasSubstr(expected));
}

TEST(Images, OptionsThatCannotBeAreRefused) {
  const auto error = [](const ImageOptions& options) {
    return error_of([&] { make_image_source(small_set(), options); });
  };
  EXPECT_THAT(error({.labels = false, .masks = true}), HasSubstr("the images have no masks"));
  EXPECT_THAT(error({.augmentation = {.mixup = 1}}), HasSubstr("images are mixed only where"));
  EXPECT_THAT(error({.augmentation = {.flip = 1.5}}), HasSubstr("a probability"));
  EXPECT_THAT(error({.augmentation = {.contrast = NAN}}), HasSubstr("a size of changes"));
  const auto narrow = make_image_source(small_set(), {.order = {.shuffle = false}, .classes = 3});
  EXPECT_EQ(error_of([&] { narrow->make(0, 3); }), "no error");
  EXPECT_THAT(error_of([&] { narrow->make(3, 1); }),
              HasSubstr("image 3: a class that the model does not have; found 3; expected 0 to 2"));
}

}  // namespace
}  // namespace ramet::tests
