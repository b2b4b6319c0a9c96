#pragma once

#include "arguments.h"

namespace ramet_python {

/// Options with those of keywords set. Throws Error for a name that is no option and for a value of a wrong type.
ramet::TrainOptions train_options_of(const std::optional<ramet::TrainOptions>& options, const nb::kwargs& more);
ramet::PredictOptions predict_options_of(const nb::kwargs& given);

/// The classes of optimizers; generated from ramet/optimizer.h.
void bind_optimizers(nb::module_& m);

}  // namespace ramet_python
