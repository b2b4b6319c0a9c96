#include "ramet/kernel/cpu/guard.h"

#include <cstring>
#include <filesystem>
#include <map>
#include <optional>
#include <sstream>
#include <vector>

#include "ramet/base/cache_folder.h"
#include "ramet/base/error.h"
#include "ramet/base/file.h"
#include "ramet/base/hash.h"
#include "ramet/base/rng.h"
#include "ramet/kernel/cpu/blocking.h"
#include "ramet/kernel/cpu/cpu_features.h"
#include "ramet/kernel/cpu/onednn.h"
#include "ramet/kernel/cpu/strided_pairs.h"
#include "ramet/kernel/cpu/strided_product.h"

namespace ramet::kernel {
namespace {

/// To be raised when the guard proves other things than before, or oneDNN is held to other instruction sets.
constexpr int kGuardVersion = 4;

/// Verdicts by "TYPE IMPLEMENTATION"; "" is good.
using Verdicts = std::map<std::string, std::string>;

struct Sample {
  int64_t m, n, k;
};
// Odd and even, one block and several in each dimension, k beyond oneDNN's blocks of it.
constexpr Sample kSamples[] = {{37, 80, 64},  {65, 200, 129}, {129, 96, 1000}, {48, 64, 3072},
                               {7, 129, 768}, {64, 50, 1100}, {33, 17, 512},   {5, 64, 1024}};

/// Of a verdict on the order of sums.
std::string chains_key(DType compute, const std::string& implementation) {
  return std::string(name_of(compute)) + "-chains " + implementation;
}

std::vector<char> random_matrix(uint64_t which, int64_t elements, DType dtype) {
  const RandomStream random(which, RandomPurpose::kTest, 0, 1);
  std::vector<char> out(static_cast<size_t>(elements) * size_of(dtype));
  for (int64_t i = 0; i < elements; ++i)
    store_element(out.data(), dtype, i, random.uniform(static_cast<uint64_t>(i)) - 0.5);
  return out;
}

/// One sample: its operands, and products of parts of it by any form.
class Trial {
 public:
  Trial(const Sample& sample, DType compute, Verdicts& verdicts)
      : sample_(sample), compute_(compute), verdicts_(verdicts) {
    blocked_ = {.compute = compute,
                .k = sample.k,
                .n = sample.n,
                .n_block = onednn::preferred_block(compute, sample.k, sample.n)};
  }

  void run() {
    if (blocked_.n_block == 0) return;
    a_ = random_matrix(1, sample_.m * sample_.k, compute_);
    const auto source = random_matrix(2, sample_.k * sample_.n, compute_);
    b_.resize(static_cast<size_t>(blocked_.bytes()) + 64);
    b_begin_ = b_.data() + (64 - reinterpret_cast<uintptr_t>(b_.data()) % 64) % 64;
    fill_blocks(blocked_, source.data(), compute_, compute_, {0, blocked_.blocks()}, b_begin_);
    whole_ = product({}, 0, sample_.m, 0, sample_.n);
    check_chains(source.data());
    for (int64_t cut : {int64_t{1}, sample_.m / 2, sample_.m - 3}) check_rows(cut);
    for (int64_t cut = blocked_.n_block; cut < sample_.n; cut += blocked_.n_block) check_columns(cut);
    for (DType out : {DType::kF32, DType::kBF16})
      if (out == DType::kF32 || compute_ == DType::kBF16) check_forms(out);
  }

 private:
  struct Form {
    DType out = DType::kF32;
    std::optional<DType> bias;
    bool accumulate = false;
  };

  std::vector<char> product(const Form& form, int64_t row, int64_t row_end, int64_t column, int64_t column_end) {
    std::string why;
    const onednn::GemmShape shape{.m = row_end - row,
                                  .n = column_end - column,
                                  .k = sample_.k,
                                  .compute = compute_,
                                  .out = form.out,
                                  .bias = form.bias,
                                  .accumulate = form.accumulate,
                                  .n_block = blocked_.n_block};
    const int64_t elements = shape.m * shape.n;
    std::vector<char> out(static_cast<size_t>(elements) * size_of(form.out));
    const auto gemm = onednn::Gemm::make(shape, 1, &why);
    if (!gemm) return out;  // the product that needs this form is refused by itself
    verdicts_.try_emplace(key(*gemm));
    if (form.accumulate) out = random_matrix(3, elements, form.out);
    const auto bias = random_matrix(4, shape.n, form.bias.value_or(DType::kF32));
    std::vector<char> scratch(static_cast<size_t>(gemm->scratch_bytes()) + 64);
    const char* b = b_begin_ + column / blocked_.n_block * blocked_.block_bytes();
    gemm->run(0, a_.data() + static_cast<size_t>(row * sample_.k) * size_of(compute_), b, bias.data(), out.data(),
              scratch.data() + (64 - reinterpret_cast<uintptr_t>(scratch.data()) % 64) % 64);
    last_ = key(*gemm);
    return out;
  }

  std::string key(const onednn::Gemm& gemm) const {
    return std::string(ramet::name_of(compute_)) + " " + gemm.implementation();
  }

  void differs(const std::string& what) {
    verdicts_[last_] = "differs: " + what + " of " + std::to_string(sample_.m) + "x" + std::to_string(sample_.n) + "x" +
                       std::to_string(sample_.k);
  }

  /// The same product of operands as they lie: in f32 of a as it is, in bf16 of its transpose.
  void check_chains(const char* b) {
    const bool pairs = compute_ == DType::kBF16;
    if (pairs && cpu_level() < CpuLevel::kAvx512Bf16) return;
    const int64_t m = sample_.m, n = sample_.n, k = sample_.k, stride = (n + 15) / 16 * 16, row = n * 4;
    std::vector<float> sums(static_cast<size_t>(m * stride)), work(sums.size());
    if (pairs) {
      std::vector<uint16_t> turned(static_cast<size_t>(m * k));
      const auto* const a = reinterpret_cast<const uint16_t*>(a_.data());
      for (int64_t i = 0; i < m; ++i)
        for (int64_t p = 0; p < k; ++p) turned[static_cast<size_t>(p * m + i)] = a[i * k + p];
      work.resize(static_cast<size_t>(strided_pairs_work(m, n, stride)) / 4);
      strided_pairs({.m = m,
                     .n = n,
                     .k = k,
                     .a = turned.data(),
                     .a_stride = m,
                     .b = reinterpret_cast<const uint16_t*>(b),
                     .b_stride = n,
                     .c = sums.data(),
                     .c_stride = stride,
                     .work = work.data()});
    } else {
      strided_product({.m = m,
                       .n = n,
                       .k = k,
                       .a = reinterpret_cast<const float*>(a_.data()),
                       .a_row = k,
                       .a_k = 1,
                       .b = reinterpret_cast<const float*>(b),
                       .b_stride = n,
                       .c = sums.data(),
                       .c_stride = stride,
                       .work = work.data()});
    }
    std::string& verdict = verdicts_[chains_key(compute_, last_.substr(last_.find(' ') + 1))];
    for (int64_t i = 0; i < m; ++i)
      if (std::memcmp(sums.data() + i * stride, whole_.data() + i * row, static_cast<size_t>(row)) != 0)
        verdict = "differs: sums of " + std::to_string(k);
  }

  void check_rows(int64_t cut) {
    if (cut <= 0 || cut >= sample_.m) return;
    const size_t bytes = static_cast<size_t>(cut * sample_.n) * 4;
    const auto top = product({}, 0, cut, 0, sample_.n), bottom = product({}, cut, sample_.m, 0, sample_.n);
    if (std::memcmp(top.data(), whole_.data(), bytes) != 0 ||
        std::memcmp(bottom.data(), whole_.data() + bytes, bottom.size()) != 0)
      differs("row blocks");
  }

  void check_columns(int64_t cut) {
    const auto left = product({}, 0, sample_.m, 0, cut), right = product({}, 0, sample_.m, cut, sample_.n);
    for (int64_t i = 0; i < sample_.m; ++i) {
      const char* row = whole_.data() + i * sample_.n * 4;
      if (std::memcmp(row, left.data() + i * cut * 4, static_cast<size_t>(cut) * 4) != 0 ||
          std::memcmp(row + cut * 4, right.data() + i * (sample_.n - cut) * 4,
                      static_cast<size_t>(sample_.n - cut) * 4) != 0)
        return differs("column blocks");
    }
  }

  /// Rounding, bias and accumulation inside oneDNN against the same by finish_rows.
  void check_forms(DType out) {
    std::vector<Form> forms{{out, std::nullopt, false}, {out, DType::kF32, false}};
    if (compute_ == DType::kBF16) forms.push_back({out, DType::kBF16, false});
    if (out == DType::kF32) forms.push_back({out, std::nullopt, true});
    for (const Form& form : forms) {
      const auto found = product(form, 0, sample_.m, 0, sample_.n);
      const DType bias_type = form.bias.value_or(DType::kF32);
      const auto bias = random_matrix(4, sample_.n, bias_type), c = random_matrix(3, sample_.m * sample_.n, out);
      std::vector<char> expected(found.size()), sums = whole_;
      finish_rows({.sums = reinterpret_cast<float*>(sums.data()),
                   .sum_stride = sample_.n,
                   .rows = sample_.m,
                   .n = sample_.n,
                   .bias = form.bias ? bias.data() : nullptr,
                   .bias_type = bias_type,
                   .c = form.accumulate ? reinterpret_cast<const float*>(c.data()) : nullptr,
                   .c_stride = sample_.n,
                   .out_type = out,
                   .out = expected.data(),
                   .out_stride = sample_.n * static_cast<int64_t>(size_of(out))});
      if (expected != found)
        differs(form.bias ? "fused bias" : form.accumulate ? "accumulation" : "rounding of the output");
    }
  }

  Sample sample_;
  DType compute_;
  Verdicts& verdicts_;
  BlockedMatrix blocked_;
  std::vector<char> a_, b_, whole_;
  char* b_begin_ = nullptr;
  std::string last_;
};

Verdicts prove() {
  Verdicts verdicts;
  const onednn::OneThread one_thread;
  for (DType compute : {DType::kF32, DType::kBF16})
    for (const Sample& sample : kSamples) Trial(sample, compute, verdicts).run();
  return verdicts;
}

std::string text_of(const Verdicts& verdicts) {
  std::string text;
  for (const auto& [key, fault] : verdicts) text += key + " " + (fault.empty() ? "equal" : fault) + "\n";
  return text;
}

Verdicts parse(std::istream& text) {
  Verdicts verdicts;
  for (std::string line; std::getline(text, line);) {
    std::istringstream words(line);
    std::string type, implementation, fault;
    words >> type >> implementation;
    std::getline(words >> std::ws, fault);
    verdicts[type + " " + implementation] = fault == "equal" ? "" : fault;
  }
  return verdicts;
}

/// Verdicts from the cache, or proven now and stored there. The first line of the file must name exactly the processor
/// and library that they hold for, the second the hash of the rest; any other file is ignored.
Verdicts load_or_prove() {
  const std::string subject = "guard " + std::to_string(kGuardVersion) + "; " + cpu_model() + "; " +
                              name_of(cpu_level()) + "; oneDNN " + onednn::version();
  const auto folder = cache_folder();
  const auto path = folder / ("guard-" + hash_text(subject).hex() + ".txt");
  std::error_code ignored;
  if (!folder.empty() && std::filesystem::exists(path, ignored)) {
    try {
      const std::string text = read_file(path);
      std::istringstream lines(text);
      std::string first, second;
      std::getline(lines, first);
      std::getline(lines, second);
      const std::string rest(std::istreambuf_iterator<char>(lines), {});
      if (first == subject && second == hash_text(rest).hex()) {
        std::istringstream verdicts(rest);
        return parse(verdicts);
      }
    } catch (const Error&) {
      // Unreadable: proven again below.
    }
  }
  const Verdicts verdicts = prove();
  if (!folder.empty()) {
    try {
      std::filesystem::create_directories(folder, ignored);
      const std::string text = text_of(verdicts);
      write_file_atomic(path, subject + "\n" + hash_text(text).hex() + "\n" + text);
    } catch (const Error&) {
      // Not writable: the next process proves again.
    }
  }
  return verdicts;
}

const Verdicts& kept_verdicts() {
  cpu_level();
  static const Verdicts verdicts = load_or_prove();
  return verdicts;
}

}  // namespace

std::string guard_refuses(DType compute, const std::string& implementation) {
  const Verdicts& verdicts = kept_verdicts();
  const auto found = verdicts.find(std::string(name_of(compute)) + " " + implementation);
  if (found == verdicts.end()) return "oneDNN's " + implementation + " is not proven to give equal bits";
  return found->second.empty() ? "" : "oneDNN's " + implementation + " " + found->second;
}

bool guard_knows_chains(DType compute, const std::string& implementation) {
  const auto found = kept_verdicts().find(chains_key(compute, implementation));
  return found != kept_verdicts().end() && found->second.empty();
}

std::string guard_prove() {
  cpu_level();
  return text_of(prove());
}

}  // namespace ramet::kernel
