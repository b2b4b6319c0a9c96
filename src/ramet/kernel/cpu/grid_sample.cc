// Sampling at positions, and its gradients: taps and weights of a block of positions are made once for all channels.

#include "ramet/kernel/cpu/grid_sample.h"

#include <algorithm>
#include <cstring>

#include "ramet/kernel/cpu/cpu_features.h"
#include "ramet/kernel/cpu/families.h"
#include "ramet/kernel/cpu/map_steps.h"
#include "ramet/kernel/cpu/targets.h"
#include "ramet/ops/grid_sample.h"
#include "ramet/ops/reduce_order.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ramet/kernel/cpu/grid_sample.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "ramet/kernel/cpu/rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ramet::kernel {
namespace HWY_NAMESPACE {
namespace {

using cpu::GridBlock;
using cpu::GridCall;
using Di = hn::RebindToSigned<Df>;

HWY_INLINE Vf gathered(const float* plane, const int32_t* index) {
  const Df d;
  const Di di;
  const auto at = hn::Load(di, index);
  return hn::IfThenElseZero(hn::RebindMask(d, hn::Gt(at, hn::Set(di, -1))),
                            hn::GatherIndex(d, plane, hn::Max(at, hn::Zero(di))));
}
/// 16-bit elements are put side by side first.
template <class T>
HWY_INLINE Vf gathered(const T* plane, const int32_t* index) {
  HWY_ALIGN T values[hn::MaxLanes(Df())] = {};
  for (int64_t lane = 0; lane < vector_lanes(); ++lane)
    if (index[lane] >= 0) values[lane] = plane[index[lane]];
  return LoadF32(Df(), values);
}

template <class T>
struct GridLoopsOf {
  static constexpr int64_t kTogether = 8;  ///< channels

  static void sample(const GridCall& call, const GridBlock& block) {
    if (call.form->channels_last) return sample_last(call, block);
    switch (block.taps) {
      case 1: return sample_first<1>(call, block);
      case 2: return sample_first<2>(call, block);
      case 4: return sample_first<4>(call, block);
      case 8: return sample_first<8>(call, block);
      case 16: return sample_first<16>(call, block);
      default: return sample_first<64>(call, block);
    }
  }

  /// Taps of a vector of positions serve all channels.
  template <int kTaps>
  static void sample_first(const GridCall& call, const GridBlock& block) {
    const Df d;
    const int64_t pixels = call.form->pixels(), places = call.form->places();
    for (int64_t p = 0; p < block.count; p += vector_lanes()) {
      const T* a = static_cast<const T*>(call.a);
      T* out = static_cast<T*>(call.out) + call.place + p;
      for (int64_t c = 0; c < call.form->channels; ++c, a += pixels, out += places) {
        Vf sum = hn::Zero(d);
        for (int t = 0; t < kTaps; ++t)
          sum = hn::MulAdd(hn::Load(d, block.weights[t] + p), gathered(a, block.index[t] + p), sum);
        store_part(sum, out, block.count - p);
      }
    }
  }

  static void sample_last(const GridCall& call, const GridBlock& block) {
    const Df d;
    const int64_t channels = call.form->channels;
    const T* a = static_cast<const T*>(call.a);
    for (int64_t p = 0; p < block.count; ++p) {
      T* out = static_cast<T*>(call.out) + (call.place + p) * channels;
      walk_vectors(channels, [&](int64_t c, int64_t lanes) HWY_ATTR {
        Vf sum = hn::Zero(d);
        for (int t = 0; t < block.taps; ++t)
          if (block.index[t][p] >= 0)
            sum = hn::MulAdd(hn::Set(d, block.weights[t][p]), load_part(a + block.index[t][p] * channels + c, lanes),
                             sum);
        store_part(sum, out + c, lanes);
      });
    }
  }

  static void sample_grad(const GridCall& call, const GridBlock& block) {
    const Df d;
    const GridForm& form = *call.form;
    const T* dy = static_cast<const T*>(call.dy);
    float* out = static_cast<float*>(call.out);
    if (form.channels_last) return sample_grad_last(call, block);
    const hn::CappedTag<float, 1> one;
    const int64_t pixels = form.pixels(), places = form.places();
    for (int64_t first = call.first; first < call.end; first += kTogether) {
      // Channels are the inner loop: sums of one element would wait for one another.
      const int64_t count = std::min(kTogether, call.end - first);
      HWY_ALIGN float slopes[kTogether][cpu::kGridBlock];
      for (int64_t c = 0; c < count; ++c)
        for (int64_t p = 0; p < block.count; p += vector_lanes())
          hn::Store(load_part(dy + (first + c) * places + call.place + p, block.count - p), d, slopes[c] + p);
      for (int64_t p = 0; p < block.count; ++p)
        for (int t = 0; t < block.taps; ++t) {
          if (block.index[t][p] < 0) continue;
          const auto weight = hn::Set(one, block.weights[t][p]);
          float* to = out + first * pixels + block.index[t][p];
          for (int64_t c = 0; c < count; ++c, to += pixels)
            *to = hn::GetLane(hn::MulAdd(weight, hn::Set(one, slopes[c][p]), hn::Set(one, *to)));
        }
    }
  }

  static void sample_grad_last(const GridCall& call, const GridBlock& block) {
    const Df d;
    const int64_t channels = call.form->channels;
    float* out = static_cast<float*>(call.out);
    for (int64_t p = 0; p < block.count; ++p) {
      const T* dy = static_cast<const T*>(call.dy) + (call.place + p) * channels;
      walk_vectors(call.end - call.first, [&](int64_t i, int64_t lanes) HWY_ATTR {
        const int64_t c = call.first + i;
        const Vf slope = load_part(dy + c, lanes);
        for (int t = 0; t < block.taps; ++t) {
          if (block.index[t][p] < 0) continue;
          float* to = out + block.index[t][p] * channels + c;
          store_part(hn::MulAdd(hn::Set(d, block.weights[t][p]), slope, load_part(to, lanes)), to, lanes);
        }
      });
    }
  }

  static void position_grad(const GridCall& call, const GridBlock& block) {
    const Df d;
    const GridForm& form = *call.form;
    const int dims = static_cast<int>(form.space.size());
    const int64_t run = form.channels / call.chunks, pixels = form.pixels(), places = form.places();
    for (int64_t chunk = 0; chunk < call.chunks; ++chunk) {
      float* sums = call.sums + chunk * 3 * cpu::kGridBlock;
      if (form.channels_last) {
        for (int64_t p = 0; p < block.count; ++p)
          for (int by = 0; by < dims; ++by)
            sums[by * cpu::kGridBlock + p] = sum_last(call, block, p, by, chunk * run, run);
        continue;
      }
      for (int64_t p = 0; p < block.count; p += vector_lanes()) {
        Vf all[3] = {hn::Zero(d), hn::Zero(d), hn::Zero(d)};
        for (int64_t c = chunk * run; c < (chunk + 1) * run; ++c) {
          const Vf dy = load_part(static_cast<const T*>(call.dy) + c * places + call.place + p, block.count - p);
          Vf dots[3] = {hn::Zero(d), hn::Zero(d), hn::Zero(d)};
          for (int t = 0; t < block.taps; ++t) {
            const Vf value = gathered(static_cast<const T*>(call.a) + c * pixels, block.index[t] + p);
            for (int by = 0; by < dims; ++by)
              dots[by] = hn::MulAdd(hn::Load(d, block.slopes[by][t] + p), value, dots[by]);
          }
          for (int by = 0; by < dims; ++by) all[by] = hn::MulAdd(dy, dots[by], all[by]);
        }
        for (int by = 0; by < dims; ++by) hn::Store(all[by], d, sums + by * cpu::kGridBlock + p);
      }
    }
  }

  /// The sum over `run` channels from `first` for one position and coordinate.
  static float sum_last(const GridCall& call, const GridBlock& block, int64_t p, int by, int64_t first, int64_t run) {
    const Df d;
    const int64_t channels = call.form->channels;
    const T* a = static_cast<const T*>(call.a) + first;
    const T* dy = static_cast<const T*>(call.dy) + (call.place + p) * channels + first;
    RowLanes sums(0);
    for_each_vector(run, [&](int64_t c, int64_t v, int64_t lanes) HWY_ATTR {
      Vf dot = hn::Zero(d);
      for (int t = 0; t < block.taps; ++t)
        if (block.index[t][p] >= 0)
          dot = hn::MulAdd(hn::Set(d, block.slopes[by][t][p]), load_part(a + block.index[t][p] * channels + c, lanes),
                           dot);
      sums.lane[v] = hn::MulAdd(load_part(dy + c, lanes), dot, sums.lane[v]);
    });
    return sums.sum();
  }

  static constexpr cpu::GridLoops kTable{sample, sample_grad, position_grad};
};

}  // namespace

const cpu::GridLoops* GetGridLoops(DType dtype) {
  if (dtype == DType::kF32) return &GridLoopsOf<float>::kTable;
  return dtype == DType::kBF16 ? &GridLoopsOf<Bf16>::kTable : &GridLoopsOf<F16>::kTable;
}

}  // namespace HWY_NAMESPACE
}  // namespace ramet::kernel
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ramet::kernel {
HWY_EXPORT(GetGridLoops);

const cpu::GridLoops& cpu::grid_loops(DType dtype) {
  cpu_level();
  return *HWY_DYNAMIC_DISPATCH(GetGridLoops)(dtype);
}

namespace {

using cpu::GridBlock;
using cpu::GridCall;
using cpu::kGridBlock;

/// Channels that a thread takes at a time in the gradient of `a`, for each of which it finds all positions again; any
/// number gives the same bits.
int64_t channel_block(const GridForm& form, int threads) {
  const int64_t groups = std::max<int64_t>(1, (2 * threads + form.samples - 1) / std::max<int64_t>(1, form.samples));
  return std::max<int64_t>(16, (form.channels + groups - 1) / groups);
}

int64_t elements_size(DType dtype) { return static_cast<int64_t>(size_of(dtype)); }

/// Taps of positions [place, place + kGridBlock) of a sample whose coordinates begin at `grid`, f32.
template <bool kSlopes>
void fill_block(const GridForm& form, const float* grid, int64_t place, GridBlock& block) {
  const auto dims = static_cast<int64_t>(form.space.size());
  block.count = std::min(kGridBlock, form.places() - place);
  block.taps = form.taps();
  for (int64_t p = 0; p < block.count; ++p) {
    const auto taps = grid_taps<float, kSlopes>(form, grid + (place + p) * dims);
    for (int t = 0; t < block.taps; ++t) {
      block.index[t][p] = static_cast<int32_t>(taps.index[t]);
      block.weights[t][p] = taps.weights[t];
      for (int64_t by = 0; kSlopes && by < dims; ++by) block.slopes[by][t][p] = taps.slopes[by][t];
    }
  }
  // Vectors are read whole: positions beyond the last are outside.
  for (int64_t p = block.count; p < kGridBlock; ++p)
    for (int t = 0; t < block.taps; ++t) {
      block.index[t][p] = -1;
      block.weights[t][p] = 0;
      for (int64_t by = 0; kSlopes && by < dims; ++by) block.slopes[by][t][p] = 0;
    }
}

int64_t blocks_of(const GridForm& form) { return (form.places() + kGridBlock - 1) / kGridBlock; }
int64_t grid_elements(const GridForm& form) { return form.places() * static_cast<int64_t>(form.space.size()); }

std::function<void(const KernelContext&)> make_grid_sample(const NodeSignature& node) {
  return [form = grid_sample_form(node), size = elements_size(node.inputs[0].dtype),
          loops = cpu::grid_loops(node.inputs[0].dtype)](const KernelContext& context) {
    const int64_t blocks = blocks_of(form);
    context.team.split(form.samples * blocks, 1, [&](int64_t begin, int64_t end, int) {
      GridBlock block;
      for (int64_t index = begin; index < end; ++index) {
        const int64_t n = index / blocks;
        GridCall call{.form = &form, .place = index % blocks * kGridBlock};
        call.a = static_cast<const char*>(context.inputs[0]) + n * form.channels * form.pixels() * size;
        call.out = static_cast<char*>(context.outputs[0]) + n * form.channels * form.places() * size;
        fill_block<false>(form, static_cast<const float*>(context.inputs[1]) + n * grid_elements(form), call.place,
                          block);
        loops.sample(call, block);
      }
    });
  };
}

std::function<void(const KernelContext&)> make_grid_sample_grad(const NodeSignature& node) {
  return [form = grid_sample_grad_form(node), size = elements_size(node.inputs[0].dtype),
          loops = cpu::grid_loops(node.inputs[0].dtype)](const KernelContext& context) {
    const int64_t together = channel_block(form, context.team.size()), pixels = form.pixels();
    const int64_t groups = (form.channels + together - 1) / together;
    context.team.split(form.samples * groups, 1, [&](int64_t begin, int64_t end, int) {
      GridBlock block;
      for (int64_t index = begin; index < end; ++index) {
        const int64_t n = index / groups;
        GridCall call{.form = &form, .first = index % groups * together};
        call.end = std::min(form.channels, call.first + together);
        call.dy = static_cast<const char*>(context.inputs[0]) + n * form.channels * form.places() * size;
        float* out = static_cast<float*>(context.outputs[0]) + n * form.channels * pixels;
        call.out = out;
        const auto bytes = static_cast<size_t>(call.end - call.first) * 4;
        if (form.channels_last)
          for (int64_t pixel = 0; pixel < pixels; ++pixel)
            std::memset(out + pixel * form.channels + call.first, 0, bytes);
        else
          std::memset(out + call.first * pixels, 0, bytes * static_cast<size_t>(pixels));
        const float* grid = static_cast<const float*>(context.inputs[1]) + n * grid_elements(form);
        for (; call.place < form.places(); call.place += kGridBlock) {
          fill_block<false>(form, grid, call.place, block);
          loops.sample_grad(call, block);
        }
      }
    });
  };
}

int64_t sums_floats(int64_t chunks) { return chunks * 3 * kGridBlock; }

std::function<void(const KernelContext&)> make_grid_position_grad(const NodeSignature& node) {
  return [form = grid_position_grad_form(node), size = elements_size(node.inputs[0].dtype),
          chunks = node.attributes.get_int_or("chunks", 1),
          loops = cpu::grid_loops(node.inputs[0].dtype)](const KernelContext& context) {
    const int64_t blocks = blocks_of(form);
    const auto dims = static_cast<int64_t>(form.space.size());
    context.team.split(form.samples * blocks, 1, [&](int64_t begin, int64_t end, int rank) {
      GridBlock block;
      for (int64_t index = begin; index < end; ++index) {
        const int64_t n = index / blocks;
        GridCall call{.form = &form, .place = index % blocks * kGridBlock, .chunks = chunks};
        call.dy = static_cast<const char*>(context.inputs[0]) + n * form.channels * form.places() * size;
        call.a = static_cast<const char*>(context.inputs[1]) + n * form.channels * form.pixels() * size;
        call.sums = static_cast<float*>(context.scratch) + rank * sums_floats(chunks);
        fill_block<true>(form, static_cast<const float*>(context.inputs[2]) + n * grid_elements(form), call.place,
                         block);
        loops.position_grad(call, block);
        float* out = static_cast<float*>(context.outputs[0]) + n * grid_elements(form) + call.place * dims;
        for (int64_t p = 0; p < block.count; ++p)
          for (int64_t by = 0; by < dims; ++by)
            out[p * dims + by] = tree_combine<float>(
                0, chunks, [&](int64_t chunk) { return call.sums[(chunk * 3 + by) * kGridBlock + p]; },
                [](float a, float b) { return a + b; });
      }
    });
  };
}

/// All activations are of one vector type; the grid, input `grid`, is f32.
std::string refuse_grid(const NodeSignature& node, size_t grid) {
  const DType dtype = node.inputs[0].dtype;
  if (!cpu::has_vector_loads(dtype)) return "elements are neither f32, bf16 nor f16";
  if (node.inputs[grid].dtype != DType::kF32) return "the grid is not f32";
  if (grid == 2 && node.inputs[1].dtype != dtype) return "operands of different types";
  return "";
}

}  // namespace

void add_cpu_grid_sample(Backend& backend) {
  cpu::add_hwy(
      backend, "grid_sample", [](const NodeSignature& node) { return refuse_grid(node, 1); },
      [](const NodeSignature& node, int) { return make_grid_sample(node); });
  cpu::add_hwy(
      backend, "grid_sample_grad", [](const NodeSignature& node) { return refuse_grid(node, 1); },
      [](const NodeSignature& node, int) { return make_grid_sample_grad(node); });
  cpu::add_hwy(
      backend, "grid_position_grad", [](const NodeSignature& node) { return refuse_grid(node, 2); },
      [](const NodeSignature& node, int) { return make_grid_position_grad(node); },
      [](const NodeSignature& node, int threads) {
        return threads * sums_floats(node.attributes.get_int_or("chunks", 1)) * 4;
      });
}

}  // namespace ramet::kernel
#endif
