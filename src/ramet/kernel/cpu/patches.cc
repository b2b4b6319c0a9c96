// Patches of images as columns, and back: copies, and sums in f32 in order of taps.

#include <algorithm>
#include <cstring>

#include "ramet/kernel/cpu/families.h"
#include "ramet/kernel/cpu/map_steps.h"
#include "ramet/ops/patches.h"

namespace ramet::kernel {
namespace {

/// A run of patches along the last dimension of space, for one tap: patches [begin, end) of the line read pixels from
/// `pixel` on, a stride apart; the others read the padding.
struct PatchRun {
  int64_t patch = 0;  ///< number of the line's first patch
  int64_t begin = 0, end = 0, pixel = 0;
};

/// Calls `visit(run)` for each line of patches.
template <typename Visit>
void for_each_line(const PatchForm& form, int64_t tap, const Visit& visit) {
  const size_t last = form.space.size() - 1;
  const int64_t width = form.counts[last], lines = width == 0 ? 0 : form.patches() / width;
  const int64_t offset = tap % form.taps[last] * form.dilations[last] - form.low[last], stride = form.strides[last];
  const int64_t begin = std::clamp<int64_t>(offset < 0 ? (-offset + stride - 1) / stride : 0, 0, width);
  const int64_t room = form.space[last] - offset;  // positions up to the last pixel
  const int64_t end = std::clamp<int64_t>(room <= 0 ? 0 : (room + stride - 1) / stride, begin, width);
  for (int64_t line = 0; line < lines; ++line) {
    PatchRun run{line * width, begin, end, 0};
    int64_t rest = line, rest_tap = tap / form.taps[last], scale = form.space[last];
    bool inside = true;
    for (size_t i = last; i-- > 0;) {
      const int64_t at =
          rest % form.counts[i] * form.strides[i] + rest_tap % form.taps[i] * form.dilations[i] - form.low[i];
      inside = inside && at >= 0 && at < form.space[i];
      run.pixel += at * scale;
      scale *= form.space[i];
      rest /= form.counts[i];
      rest_tap /= form.taps[i];
    }
    run.pixel += begin * stride + offset;
    if (!inside) run.begin = run.end = 0;
    visit(run);
  }
}

/// One element of `kSize` bytes.
template <int kSize>
struct Bytes {
  char bytes[kSize];
};

/// im2col of channels [first, end) of a sample (of all samples, channels first: planes).
template <class T>
void fill_columns(const PatchForm& form, const T* a, T* columns, int64_t plane) {
  const int64_t taps = form.taps_each(), patches = form.patches(), stride = form.strides.back();
  const T* image = a + plane * form.pixels();
  for (int64_t tap = 0; tap < taps; ++tap) {
    T* row = columns + (plane * taps + tap) * patches;
    for_each_line(form, tap, [&](const PatchRun& run) {
      T* to = row + run.patch;
      const int64_t width = form.counts.back();
      std::memset(static_cast<void*>(to), 0, static_cast<size_t>(run.begin) * sizeof(T));
      if (stride == 1)
        std::memcpy(to + run.begin, image + run.pixel, static_cast<size_t>(run.end - run.begin) * sizeof(T));
      else
        for (int64_t i = run.begin; i < run.end; ++i) to[i] = image[run.pixel + (i - run.begin) * stride];
      std::memset(static_cast<void*>(to + run.end), 0, static_cast<size_t>(width - run.end) * sizeof(T));
    });
  }
}

/// Channels last: the columns of one patch lie together.
template <class T>
void fill_columns_last(const PatchForm& form, const T* a, T* columns, int64_t first, int64_t end) {
  const int64_t taps = form.taps_each(), patches = form.patches(), channels = form.channels;
  for (int64_t index = first; index < end; ++index) {
    const T* image = a + index / patches * form.pixels() * channels;
    T* column = columns + index * taps * channels;
    for (int64_t tap = 0; tap < taps; ++tap) {
      const int64_t pixel = form.pixel(index % patches, tap);
      for (int64_t c = 0; c < channels; ++c) column[c * taps + tap] = pixel < 0 ? T{} : image[pixel * channels + c];
    }
  }
}

template <class T>
void im2col(const PatchForm& form, const KernelContext& context) {
  const T* a = static_cast<const T*>(context.inputs[0]);
  T* columns = static_cast<T*>(context.outputs[0]);
  if (form.channels_last)
    context.team.split(form.samples * form.patches(), 16,
                       [&](int64_t begin, int64_t end, int) { fill_columns_last(form, a, columns, begin, end); });
  else
    context.team.split(form.samples * form.channels, 1, [&](int64_t begin, int64_t end, int) {
      for (int64_t plane = begin; plane < end; ++plane) fill_columns(form, a, columns, plane);
    });
}

std::function<void(const KernelContext&)> make_im2col(const NodeSignature& node) {
  const PatchForm form = patch_form(node, true);
  const auto made = [&](auto run) { return [form, run](const KernelContext& context) { run(form, context); }; };
  switch (size_of(node.inputs[0].dtype)) {
    case 1: return made(im2col<Bytes<1>>);
    case 2: return made(im2col<uint16_t>);
    case 4: return made(im2col<uint32_t>);
    default: return made(im2col<uint64_t>);
  }
}

int64_t padded(int64_t count) { return (count + cpu::kMapPad - 1) / cpu::kMapPad * cpu::kMapPad; }

/// Floats that a thread needs: a row of columns (for all channels of a sample, one line of patches) and an image of one
/// channel.
int64_t sum_floats(const PatchForm& form) { return padded(form.counts.back()) + padded(form.pixels()); }

/// Adds the columns of one plane up, in order of taps.
std::function<void(const KernelContext&)> make_col2im(const NodeSignature& node) {
  const DType dtype = node.inputs[0].dtype;
  return [form = patch_form(node, false), dtype, size = static_cast<int64_t>(size_of(dtype)),
          load = cpu::map_steps().load(dtype), store = cpu::map_steps().store(dtype)](const KernelContext& context) {
    const int64_t taps = form.taps_each(), patches = form.patches(), pixels = form.pixels(), channels = form.channels;
    const int64_t stride = form.strides.back();
    context.team.split(form.samples * channels, 1, [&](int64_t begin, int64_t end, int rank) {
      float* line = static_cast<float*>(context.scratch) + rank * sum_floats(form);
      float* image = line + padded(form.counts.back());
      for (int64_t plane = begin; plane < end; ++plane) {
        std::fill_n(image, pixels, 0.0f);
        const int64_t n = plane / channels, c = plane % channels;
        for (int64_t tap = 0; tap < taps; ++tap)
          for_each_line(form, tap, [&](const PatchRun& run) {
            if (run.begin == run.end) return;
            const int64_t row = c * taps + tap, patch = run.patch + run.begin,
                          apart = form.channels_last ? channels * taps : 1;
            const int64_t first = form.channels_last ? (n * patches + patch) * apart + row
                                                     : (n * channels * taps + row) * patches + patch;
            load(static_cast<const char*>(context.inputs[0]) + first * size, apart, run.end - run.begin, line);
            float* to = image + run.pixel;
            for (int64_t i = 0; i < run.end - run.begin; ++i) to[i * stride] += line[i];
          });
        char* out = static_cast<char*>(context.outputs[0]);
        if (!form.channels_last) {
          store(image, pixels, out + plane * pixels * size);
          continue;
        }
        for (int64_t pixel = 0; pixel < pixels; ++pixel)
          store(image + pixel, 1, out + ((n * pixels + pixel) * channels + c) * size);
      }
    });
  };
}

}  // namespace

void add_cpu_patches(Backend& backend) {
  cpu::add_hwy(backend, "im2col", {}, [](const NodeSignature& node, int) { return make_im2col(node); });
  cpu::add_hwy(
      backend, "col2im",
      [](const NodeSignature& node) {
        return std::string(cpu::has_vector_loads(node.inputs[0].dtype) ? "" : "elements are neither f32, bf16 nor f16");
      },
      [](const NodeSignature& node, int) { return make_col2im(node); },
      [](const NodeSignature& node, int threads) { return threads * sum_floats(patch_form(node, false)) * 4; });
}

}  // namespace ramet::kernel
