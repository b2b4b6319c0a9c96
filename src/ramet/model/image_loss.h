#pragma once

// What networks for images learn from and give. Inside model/ only.

#include "ramet/model/image_blocks.h"

namespace ramet::model {

/// The loss of logits [B,K] on labels, and counts of right ones; `evaluation` also counts labels among the five
/// likeliest classes.
void add_label_loss(ImageBuilder& of, Tensor logits, bool evaluation);
/// The loss of logits [B,K,H,W] on masks, a pixel an item; `evaluation` also gives "hits_K" and "union_K" of each
/// class: pixels of the class that were found, and pixels that are of the class or were taken for it.
void add_mask_loss(ImageBuilder& of, Tensor logits, bool evaluation);
/// "classes" and "probabilities" of logits of either form.
void add_answers(ImageBuilder& of, Tensor logits);
/// Declares the inputs, metrics and guards of a model with such a loss.
void describe_image_model(Model& model, const ImageTask& task, bool masks);

}  // namespace ramet::model
