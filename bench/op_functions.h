#pragma once

// The functions of ops/build*.h by name, for bench/op_server.cc: those that are not ops of the registry, or take other
// arguments than those.
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "ramet/base/error.h"
#include "ramet/ops/build.h"
#include "ramet/ops/build_attention.h"
#include "ramet/ops/build_convolution.h"
#include "ramet/ops/build_elementwise.h"
#include "ramet/ops/build_indexing.h"
#include "ramet/ops/build_loss.h"
#include "ramet/ops/build_norm.h"
#include "ramet/ops/build_pooling.h"
#include "ramet/ops/build_reductions.h"
#include "ramet/ops/build_resize.h"
#include "ramet/ops/build_shapes.h"
#include "ramet/ops/polygamma.h"

namespace ramet::bench {

using Json = nlohmann::json;
using Ints = std::vector<int64_t>;
using Tensors = std::vector<Tensor>;

/// The arguments of one call.
class Arguments {
 public:
  Arguments(GraphBuilder& build, Tensors tensors, const Json& attributes)
      : build_(build), tensors_(std::move(tensors)), attributes_(attributes) {}

  GraphBuilder& build() const { return build_; }
  const Tensors& all() const { return tensors_; }
  Tensor operator[](size_t index) const { return index < tensors_.size() ? tensors_[index] : Tensor{}; }
  const Json& attributes() const { return attributes_; }
  template <typename Value>
  Value get(const char* name) const {
    return attributes_.at(name).get<Value>();
  }
  template <typename Value>
  Value get_or(const char* name, Value otherwise) const {
    return attributes_.contains(name) ? attributes_.at(name).get<Value>() : otherwise;
  }
  Ints ints(const char* name) const { return get_or(name, Ints()); }
  int64_t integer(const char* name, int64_t otherwise) const { return get_or(name, otherwise); }
  double number(const char* name, double otherwise) const {
    if (attributes_.contains(name) && attributes_.at(name).is_string()) return std::stod(get<std::string>(name));
    return get_or(name, otherwise);
  }
  bool flag(const char* name) const { return get_or(name, false); }
  std::string word(const char* name, const std::string& otherwise) const { return get_or(name, otherwise); }

 private:
  GraphBuilder& build_;
  Tensors tensors_;
  const Json& attributes_;
};

using Function = std::function<Tensors(const Arguments&)>;
using FunctionTable = std::map<std::string, Function>;

inline Tensors both(const std::pair<Tensor, Tensor>& pair) { return {pair.first, pair.second}; }

/// Adds a function of one result.
template <typename Make>
void add_function(FunctionTable& table, const char* name, const Make& make) {
  table[name] = [make](const Arguments& a) { return Tensors{make(a)}; };
}

inline void add_basic_functions(FunctionTable& table) {
  add_function(table, "reshape", [](const Arguments& a) { return reshape(a[0], Shape(a.get<Ints>("shape"))); });
  add_function(table, "transpose", [](const Arguments& a) { return transpose(a[0], a.ints("permutation")); });
  add_function(table, "broadcast_to",
               [](const Arguments& a) { return broadcast_to(a[0], Shape(a.get<Ints>("shape"))); });
  add_function(table, "reduce_mean",
               [](const Arguments& a) { return reduce_mean(a[0], a.ints("axes"), a.flag("keep_dims")); });
  add_function(table, "xlogy", [](const Arguments& a) { return xlogy(a[0], a[1]); });
  add_function(table, "polygamma", [](const Arguments& a) { return polygamma(a[0], a.integer("order", 0)); });
  add_function(table, "nan_to_num", [](const Arguments& a) {
    const auto bound = [&](const char* name) {
      return a.attributes().contains(name) ? std::optional(a.number(name, 0)) : std::nullopt;
    };
    return nan_to_num(a[0], a.number("nan", 0), bound("high"), bound("low"));
  });
  add_function(table, "einsum", [](const Arguments& a) { return einsum(a.get<std::string>("equation"), a.all()); });
  add_function(table, "attention", [](const Arguments& a) {
    AttentionOptions options;
    options.causal = a.flag("causal");
    options.scale = a.number("scale", 0);
    return attention(a[0], a[1], a[2], a[3], {}, options);
  });
}

inline void add_resize_functions(FunctionTable& table) {
  add_function(table, "resize", [](const Arguments& a) {
    ResizeOptions options;
    options.rule = resample_rule_of_mode(a.get<std::string>("mode"), a.flag("corners"), a.flag("antialias"));
    options.scales = a.get_or("scales", std::vector<double>());
    return resize(a[0], a.ints("sizes"), options);
  });
  add_function(table, "affine_grid",
               [](const Arguments& a) { return affine_grid(a[0], a.ints("space"), a.flag("corners")); });
  add_function(table, "pixel_shuffle", [](const Arguments& a) { return pixel_shuffle(a[0], a.integer("factor", 1)); });
  add_function(table, "pixel_unshuffle",
               [](const Arguments& a) { return pixel_unshuffle(a[0], a.integer("factor", 1)); });
  add_function(table, "channel_shuffle",
               [](const Arguments& a) { return channel_shuffle(a[0], a.integer("groups", 1)); });
}

inline void add_attention_functions(FunctionTable& table) {
  add_function(table, "attention_with", [](const Arguments& a) {
    ScoreOptions scores;
    scores.mask = a[3];
    scores.bias = a[4];
    AttentionOptions options;
    options.causal = a.flag("causal");
    options.scale = a.number("scale", 0);
    return attention_with(a[0], a[1], a[2], scores, options);
  });
}

inline void add_convolution_functions(FunctionTable& table) {
  const auto options_of = [](const Arguments& a) {
    return ConvolutionOptions{.strides = a.ints("strides"),
                              .dilations = a.ints("dilations"),
                              .low = a.ints("low"),
                              .high = a.ints("high"),
                              .groups = a.integer("groups", 1)};
  };
  add_function(table, "convolution", [=](const Arguments& a) { return convolution(a[0], a[1], a[2], options_of(a)); });
  add_function(table, "convolution_transposed", [=](const Arguments& a) {
    return convolution_transposed(a[0], a[1], a[2], options_of(a), a.ints("output_padding"));
  });
}

inline void add_index_functions(FunctionTable& table) {
  const auto by = [](const Arguments& a) { return UpdateBy{a.word("by", "set"), a.get_or("include_self", true)}; };
  const auto rest = [](const Arguments& a, size_t last) {
    return Tensors(a.all().begin() + 1, a.all().end() - static_cast<long>(last));
  };
  add_function(table, "index_select",
               [](const Arguments& a) { return index_select(a[0], a[1], a.integer("axis", 0)); });
  add_function(table, "gather_elements",
               [](const Arguments& a) { return gather_elements(a[0], a[1], a.integer("axis", 0)); });
  add_function(table, "scatter_elements",
               [=](const Arguments& a) { return scatter_elements(a[0], a[1], a[2], a.integer("axis", 0), by(a)); });
  add_function(table, "index", [=](const Arguments& a) { return index(a[0], rest(a, 0)); });
  add_function(table, "index_put",
               [=](const Arguments& a) { return index_put(a[0], rest(a, 1), a.all().back(), a.flag("accumulate")); });
  add_function(table, "put_along", [=](const Arguments& a) {
    return put(a[0], a[2], {a[1]}, {.axes = {a.integer("axis", 0)}, .before = a.integer("axis", 0)}, by(a));
  });
  add_function(table, "masked_scatter", [](const Arguments& a) { return masked_scatter(a[0], a[1], a[2]); });
  table["sort"] = [](const Arguments& a) { return both(sort(a[0], a.integer("axis", -1), a.flag("descending"))); };
  add_function(table, "argsort",
               [](const Arguments& a) { return argsort(a[0], a.integer("axis", -1), a.flag("descending")); });
  table["top_k_along"] = [](const Arguments& a) {
    return both(top_k(a[0], a.integer("k", 1), a.integer("axis", -1), a.get_or("largest", true)));
  };
  add_function(table, "search_sorted",
               [](const Arguments& a) { return search_sorted(a[0], a[1], a.flag("right"), a[2]); });
  add_function(table, "cumprod", [](const Arguments& a) { return cumprod(a[0], a.integer("axis", 0)); });
  table["cummax"] = [](const Arguments& a) { return both(cummax(a[0], a.integer("axis", 0))); };
  table["cummin"] = [](const Arguments& a) { return both(cummin(a[0], a.integer("axis", 0))); };
}

inline void add_reduction_functions(FunctionTable& table) {
  add_function(table, "variance", [](const Arguments& a) {
    return variance(a[0], a.ints("axes"), a.number("correction", 1), a.flag("keep_dims"));
  });
  add_function(table, "standard_deviation", [](const Arguments& a) {
    return standard_deviation(a[0], a.ints("axes"), a.number("correction", 1), a.flag("keep_dims"));
  });
  add_function(table, "log_sum_exp",
               [](const Arguments& a) { return log_sum_exp(a[0], a.ints("axes"), a.flag("keep_dims")); });
  add_function(table, "vector_norm", [](const Arguments& a) {
    return vector_norm(a[0], a.number("order", 2), a.ints("axes"), a.flag("keep_dims"));
  });
  add_function(table, "any", [](const Arguments& a) { return any(a[0], a.ints("axes"), a.flag("keep_dims")); });
  add_function(table, "all", [](const Arguments& a) { return all(a[0], a.ints("axes"), a.flag("keep_dims")); });
  add_function(table, "count_nonzero", [](const Arguments& a) { return count_nonzero(a[0], a.ints("axes")); });
}

inline void add_shape_functions(FunctionTable& table) {
  add_function(table, "roll", [](const Arguments& a) { return roll(a[0], a.ints("shifts"), a.ints("axes")); });
  add_function(table, "tile", [](const Arguments& a) { return tile(a[0], a.ints("repeats")); });
  add_function(table, "repeat_interleave", [](const Arguments& a) {
    const Json& repeats = a.attributes().at("repeats");
    if (repeats.is_array()) return repeat_interleave(a[0], repeats.get<Ints>(), a.integer("axis", 0));
    return repeat_interleave(a[0], repeats.get<int64_t>(), a.integer("axis", 0));
  });
  add_function(table, "tril", [](const Arguments& a) { return tril(a[0], a.integer("diagonal", 0)); });
  add_function(table, "triu", [](const Arguments& a) { return triu(a[0], a.integer("diagonal", 0)); });
  table["meshgrid"] = [](const Arguments& a) { return meshgrid(a.all(), a.flag("xy")); };
  add_function(table, "pad_by",
               [](const Arguments& a) { return pad_by(a[0], a.ints("low"), a.ints("high"), a.word("mode", "")); });
  add_function(table, "slice_scatter", [](const Arguments& a) {
    return slice_scatter(a[0], a[1], a.integer("axis", 0), a.integer("start", 0), a.integer("stop", 0),
                         a.integer("step", 1));
  });
  add_function(table, "select_scatter", [](const Arguments& a) {
    return select_scatter(a[0], a[1], a.integer("axis", 0), a.integer("index", 0));
  });
  add_function(table, "diagonal_scatter", [](const Arguments& a) {
    return diagonal_scatter(a[0], a[1], a.integer("offset", 0), a.integer("axis1", 0), a.integer("axis2", 1));
  });
  add_function(table, "diagonal", [](const Arguments& a) {
    return diagonal(a[0], a.integer("offset", 0), a.integer("axis1", 0), a.integer("axis2", 1));
  });
  add_function(table, "diagonal_embed",
               [](const Arguments& a) { return diagonal_embed(a[0], a.integer("offset", 0)); });
  add_function(table, "windows", [](const Arguments& a) {
    return unfold(a[0], a.integer("axis", 0), a.integer("size", 1), a.integer("step", 1));
  });
  add_function(table, "difference",
               [](const Arguments& a) { return difference(a[0], a.integer("axis", -1), a.integer("n", 1)); });
}

inline void add_norm_functions(FunctionTable& table) {
  table["batch_norm"] = [](const Arguments& a) {
    const BatchNorm made = batch_norm(a[0], a[1], a[2], a.number("epsilon", 1e-5));
    return Tensors{made.output, made.mean, made.variance};
  };
  add_function(table, "batch_norm_apply", [](const Arguments& a) {
    return batch_norm_apply(a[0], a[1], a[2], a[3], a[4], a.number("epsilon", 1e-5));
  });
  add_function(table, "group_norm", [](const Arguments& a) {
    return group_norm(a[0], a[1], a[2], a.integer("groups", 1), a.number("epsilon", 1e-5));
  });
  add_function(table, "instance_norm",
               [](const Arguments& a) { return instance_norm(a[0], a[1], a[2], a.number("epsilon", 1e-5)); });
  add_function(table, "local_response_norm", [](const Arguments& a) {
    return local_response_norm(a[0], a.integer("size", 1), a.number("alpha", 1e-4), a.number("beta", 0.75),
                               a.number("k", 1));
  });
}

inline void add_pooling_functions(FunctionTable& table) {
  const auto options_of = [](const Arguments& a) {
    return PoolOptions{.taps = a.ints("taps"),
                       .strides = a.ints("strides"),
                       .dilations = a.ints("dilations"),
                       .low = a.ints("low"),
                       .high = a.ints("high"),
                       .ceil_mode = a.flag("ceil_mode"),
                       .count_padding = a.get_or("count_padding", true)};
  };
  table["max_pool"] = [=](const Arguments& a) { return both(max_pool_with_indices(a[0], options_of(a))); };
  add_function(table, "average_pool",
               [=](const Arguments& a) { return average_pool(a[0], options_of(a), a.integer("divisor", 0)); });
  add_function(table, "adaptive_average_pool",
               [](const Arguments& a) { return adaptive_average_pool(a[0], a.ints("sizes")); });
  table["adaptive_max_pool"] = [](const Arguments& a) {
    return both(adaptive_max_pool_with_indices(a[0], a.ints("sizes")));
  };
}

inline LossReduction reduction_of(const Arguments& a) {
  const std::string word = a.word("reduction", "mean");
  return word == "none" ? LossReduction::kNone : word == "sum" ? LossReduction::kSum : LossReduction::kMean;
}

inline void add_loss_functions(FunctionTable& table) {
  const auto add = [&](const char* name, const auto& make) {
    add_function(table, name, [make](const Arguments& a) { return make(a, reduction_of(a)); });
  };
  using By = LossReduction;
  add("cross_entropy_loss", [](const Arguments& a, By by) {
    return cross_entropy_loss(a[0], a[1], {a[2], a.number("label_smoothing", 0), a.integer("ignore_index", -100), by});
  });
  add("nll_loss",
      [](const Arguments& a, By by) { return nll_loss(a[0], a[1], {a[2], a.integer("ignore_index", -100), by}); });
  add("binary_cross_entropy", [](const Arguments& a, By by) { return binary_cross_entropy(a[0], a[1], a[2], by); });
  add("binary_cross_entropy_with_logits",
      [](const Arguments& a, By by) { return binary_cross_entropy_with_logits(a[0], a[1], a[2], a[3], by); });
  add("mse_loss", [](const Arguments& a, By by) { return mse_loss(a[0], a[1], by); });
  add("l1_loss", [](const Arguments& a, By by) { return l1_loss(a[0], a[1], by); });
  add("smooth_l1_loss", [](const Arguments& a, By by) { return smooth_l1_loss(a[0], a[1], a.number("beta", 1), by); });
  add("huber_loss", [](const Arguments& a, By by) { return huber_loss(a[0], a[1], a.number("delta", 1), by); });
  add("kl_divergence", [](const Arguments& a, By by) {
    return kl_divergence(a[0], a[1], a.flag("log_target"), by, a.flag("batch_mean"));
  });
  add("gaussian_nll_loss", [](const Arguments& a, By by) {
    return gaussian_nll_loss(a[0], a[1], a[2], a.flag("full"), a.number("epsilon", 1e-6), by);
  });
  add("poisson_nll_loss", [](const Arguments& a, By by) {
    return poisson_nll_loss(a[0], a[1], a.get_or("log_input", true), a.flag("full"), a.number("epsilon", 1e-8), by);
  });
  add("margin_ranking_loss",
      [](const Arguments& a, By by) { return margin_ranking_loss(a[0], a[1], a[2], a.number("margin", 0), by); });
  add("hinge_embedding_loss",
      [](const Arguments& a, By by) { return hinge_embedding_loss(a[0], a[1], a.number("margin", 1), by); });
  add("soft_margin_loss", [](const Arguments& a, By by) { return soft_margin_loss(a[0], a[1], by); });
  add("multilabel_soft_margin_loss",
      [](const Arguments& a, By by) { return multilabel_soft_margin_loss(a[0], a[1], a[2], by); });
  add("multi_margin_loss", [](const Arguments& a, By by) {
    return multi_margin_loss(a[0], a[1], a.number("p", 1), a.number("margin", 1), a[2], by);
  });
  add("multilabel_margin_loss", [](const Arguments& a, By by) { return multilabel_margin_loss(a[0], a[1], by); });
  add("cosine_embedding_loss",
      [](const Arguments& a, By by) { return cosine_embedding_loss(a[0], a[1], a[2], a.number("margin", 0), by); });
  add("triplet_margin_loss", [](const Arguments& a, By by) {
    return triplet_margin_loss(
        a[0], a[1], a[2], {a.number("margin", 1), a.number("p", 2), a.number("epsilon", 1e-6), a.flag("swap"), by});
  });
  add("ctc_loss", [](const Arguments& a, By by) {
    return ctc_loss(a[0], a[1], a[2], a[3], {a.integer("blank", 0), a.flag("zero_infinity"), by});
  });
  add_function(table, "cosine_similarity", [](const Arguments& a) {
    return cosine_similarity(a[0], a[1], a.integer("axis", 1), a.number("epsilon", 1e-8));
  });
  add_function(table, "pairwise_distance", [](const Arguments& a) {
    return pairwise_distance(a[0], a[1], a.number("p", 2), a.number("epsilon", 1e-6), a.flag("keep_dims"));
  });
}

inline const FunctionTable& functions() {
  static const FunctionTable table = [] {
    FunctionTable all;
    add_basic_functions(all);
    add_resize_functions(all);
    add_attention_functions(all);
    add_convolution_functions(all);
    add_index_functions(all);
    add_reduction_functions(all);
    add_shape_functions(all);
    add_loss_functions(all);
    add_norm_functions(all);
    add_pooling_functions(all);
    return all;
  }();
  return table;
}

}  // namespace ramet::bench
