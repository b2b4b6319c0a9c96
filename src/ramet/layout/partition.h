#pragma once

#include "ramet/layout/device_graphs.h"
#include "ramet/transform/recompute.h"

namespace ramet::layout {

/// A step over the devices of a layout: states and values are cut over tensor shards by the ops' sharding rules
/// (spread_graph.h) and over replicas where the layout shards states (RTS), the model is cut into parts on pipeline
/// stages (pipeline_parts.h, pieces.h), and the update into each stage's part (stage_update.h). Takes the step as it is
/// after all passes that decide bits; changes none.
///
/// Weights are cut by their logical axes (StateTensor::axes): "heads", "mlp", "vocab" and "parts" over t1, "embed" over
/// t2, wherever the extent and its chunks divide evenly. Derived states follow from the weights; accumulators and
/// optimizer states are cut by their own axes.
///
/// Where the layout offloads activations, `choices` says whose layers' activations go to streaming memory; when it is
/// empty, all of them do. `step` has its recomputation already. Throws Error, naming the layout's key, when the step
/// cannot be cut in this way.
DeviceGraphs partition(const StepGraph& step, const Layout& layout, const ActivationChoices& choices = {});

/// The dimensions of a state that the tensor shards of a mesh cut, each in equal parts.
std::vector<Cut> cuts_of_state(const StateTensor& state, const Mesh& mesh, const TensorAxes& axes);

}  // namespace ramet::layout
