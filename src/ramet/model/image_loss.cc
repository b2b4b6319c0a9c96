#include "ramet/model/image_loss.h"

namespace ramet::model {
namespace {

constexpr int64_t kFew = 5;

/// How many rows have their label among the likeliest `few` classes; a class as likely as the label's counts as less
/// so.
Tensor count_among_likeliest(Tensor logits, Tensor labels, int64_t few) {
  GraphBuilder& build = *logits.builder;
  const Tensor numbers = cast(logits, DType::kF32);
  const Tensor own = reduce_sum(multiply(one_hot(labels, numbers.dim(1)), numbers), {1}, true);
  const Tensor above = reduce_sum(cast(less(own, numbers), DType::kF32), {1});
  const Tensor near = less(above, full(build, DType::kF32, {}, static_cast<double>(few)));
  const Tensor counts = less(full(build, DType::kI32, {}, -1), labels);
  return reduce_sum(multiply(cast(near, DType::kF32), cast(counts, DType::kF32)));
}

/// The mean over rows whose label counts of -sum_k target_k log softmax(logits)_k, with targets that two labels share
/// and that smoothing spreads.
Tensor soft_loss(ImageBuilder& of, Tensor logits, Tensor labels, Tensor count) {
  GraphBuilder& build = of.build();
  const ImageTask& task = of.task();
  const int64_t rows = task.micro_batch, classes = task.classes;
  Tensor target = one_hot(labels, classes);
  if (task.mixed) {
    const Tensor other = build.input("other_labels", DType::kI32, {rows}, kSampleAxes);
    const Tensor share = reshape(build.input("label_shares", DType::kF32, {rows}, kSampleAxes), {rows, 1});
    target = add(multiply(target, share), multiply(one_hot(other, classes), add_scalar(negate(share), 1)));
  }
  const Tensor counts = less(full(build, DType::kI32, {}, -1), labels);
  if (task.label_smoothing > 0) {
    const double spread = task.label_smoothing / static_cast<double>(classes);
    target = add_scalar(scale(target, 1 - task.label_smoothing), spread);
  }
  target = multiply(target, reshape(cast(counts, DType::kF32), {rows, 1}));
  const Tensor sum = reduce_sum(multiply(log_softmax(cast(logits, DType::kF32)), target));
  return negate(divide(sum, maximum(count, full(build, DType::kF32, {}, 1))));
}

}  // namespace

void add_label_loss(ImageBuilder& of, Tensor logits, bool evaluation) {
  Scope scope(of.build(), "loss");
  GraphBuilder& build = of.build();
  const Tensor labels = build.input("labels", DType::kI32, {of.task().micro_batch}, kSampleAxes);
  const CrossEntropy plain = cross_entropy(logits, labels);
  const bool soft = !evaluation && (of.task().mixed || of.task().label_smoothing > 0);
  build.output("loss", soft ? soft_loss(of, logits, labels, plain.count) : plain.loss);
  build.output("correct", plain.correct);
  build.output("count", plain.count);
  if (evaluation && of.task().classes > kFew) build.output("correct5", count_among_likeliest(logits, labels, kFew));
}

void add_mask_loss(ImageBuilder& of, Tensor logits, bool evaluation) {
  Scope scope(of.build(), "loss");
  GraphBuilder& build = of.build();
  const ImageTask& task = of.task();
  const int64_t pixels = task.micro_batch * task.height * task.width, classes = task.classes;
  const Tensor masks = build.input("masks", DType::kU8, {task.micro_batch, task.height, task.width}, {"batch", "", ""});
  const Tensor of_pixels = reshape(cast(masks, DType::kI32), {pixels});
  const Tensor none = full(build, DType::kI32, {}, 255);
  const Tensor labels = select(equal(of_pixels, none), full(build, DType::kI32, {}, -1), of_pixels);
  const Tensor rows = reshape(channels_to_back(logits), {pixels, classes});
  const CrossEntropy found = cross_entropy(rows, labels);
  build.output("loss", found.loss);
  build.output("correct", found.correct);
  build.output("count", found.count);
  if (!evaluation) return;
  const Tensor counts = reshape(cast(less(full(build, DType::kI32, {}, -1), labels), DType::kF32), {pixels, 1});
  const Tensor taken = multiply(one_hot(argmax(cast(rows, DType::kF32), 1), classes), counts),
               real = one_hot(labels, classes);
  const Tensor hits = reduce_sum(multiply(taken, real), {0});
  const Tensor either = subtract(add(reduce_sum(taken, {0}), reduce_sum(real, {0})), hits);
  for (int64_t k = 0; k < classes; ++k) {
    build.output("hits_" + std::to_string(k), reshape(slice(hits, {k}, {k + 1}), {}));
    build.output("union_" + std::to_string(k), reshape(slice(either, {k}, {k + 1}), {}));
  }
}

void add_answers(ImageBuilder& of, Tensor logits) {
  const Tensor numbers = cast(logits, DType::kF32);
  of.build().output("classes", argmax(numbers, 1));
  of.build().output("probabilities", softmax(numbers, 1));
}

void describe_image_model(Model& model, const ImageTask& task, bool masks) {
  for (const GraphInput& input : model.forward.inputs()) {
    if (input.role != InputRole::kData) continue;
    const Value& value = model.forward.value(input.value);
    model.inputs.push_back({.name = value.name, .type = value.type, .axes = input.axes});
  }
  for (const char* labels : {"labels", "other_labels"})
    limit_input(model, labels, -1, static_cast<double>(task.classes - 1));
  model.metrics = {mean_metric("loss", "count"), share_metric("accuracy", "correct", "count")};
  model.guards = {"loss"};
  model.limit_items("loss", task.micro_batch * (masks ? task.height * task.width : 1));
  if (!masks) {
    if (task.classes > kFew) {
      model.metrics.push_back(share_metric("accuracy_of_5", "correct5", "count"));
      model.metrics.back().held_out_only = true;
    }
    return;
  }
  Metric mean{.name = "mean_iou", .numerator = "", .how = Metric::How::kAverage, .held_out_only = true};
  for (int64_t k = 0; k < task.classes; ++k) {
    const std::string of_class = std::to_string(k);
    Metric iou = share_metric("iou_" + of_class, "hits_" + of_class, "union_" + of_class);
    iou.held_out_only = true;
    mean.parts.push_back(iou.name);
    model.metrics.push_back(std::move(iou));
  }
  model.metrics.push_back(std::move(mean));
}

}  // namespace ramet::model
