#pragma once

#include <string>
#include <vector>

#include "ramet/layout/layout.h"
#include "ramet/model/model.h"
#include "ramet/train/train_options.h"

namespace ramet::train {

/// The facts that a layout must fit (layout/layout.h): layers and work from the model's graph, widths from the logical
/// axes of its weights, the length of a sequence from its inputs, lanes and chunks from the options, and this machine.
LayoutFacts layout_facts(const Model& model, const TrainOptions& options);

/// Whether two regions of a model's forward graph read one state that is on one stage only, as embeddings and the loss
/// head often do with a weight. Constants are on every stage that reads them.
bool has_tied_weights(const Model& model);
/// Decides where the loss head lies when the layout leaves it open: beside embeddings that share a weight with it.
void settle_head(Layout& layout, const Model& model);

/// The layout with its head settled, once it is known to fit the model and the options: otherwise throws Error
/// (`source` and the key). Returns what could be better about it in `remarks`.
Layout fitted_layout(Layout layout, const Model& model, const TrainOptions& options, const std::string& source,
                     std::vector<std::string>& remarks);

}  // namespace ramet::train
