#pragma once

// Ramet as a library: all public headers. docs/library.md explains how to use them.

#include "ramet/array.h"        // numeric arrays, in and out
#include "ramet/data.h"         // where samples come from
#include "ramet/error.h"        // errors
#include "ramet/error_types.h"  // errors that programs treat each in their own way
#include "ramet/graph_net.h"    // networks that read graphs
#include "ramet/graphs.h"       // packs of graphs
#include "ramet/import.h"       // models that PyTorch traced
#include "ramet/knowledge.h"    // models of knowledge graphs
#include "ramet/log.h"          // runs that a program logs to
#include "ramet/memory.h"       // memory of this process
#include "ramet/messages.h"     // messages along edges
#include "ramet/model.h"        // building a model
#include "ramet/onnx.h"         // ONNX files
#include "ramet/ops.h"          // the ops
#include "ramet/optimizer.h"    // optimizers, groups, learning rates
#include "ramet/place.h"        // other places than lines of C++
#include "ramet/plan.h"         // predicted memory and time
#include "ramet/predict.h"      // prediction with a trained model
#include "ramet/sparse.h"       // block-sparse matrices and layers
#include "ramet/tensor.h"       // values of a model under construction
#include "ramet/train.h"        // training
#include "ramet/types.h"        // element types and shapes
#include "ramet/version.h"
