#pragma once

// Ramet as a library: all public headers. docs/library.md tells how to use them.

#include "ramet/array.h"      // numbers that go in and come out
#include "ramet/data.h"       // where samples come from
#include "ramet/error.h"      // what goes wrong
#include "ramet/log.h"        // runs that a program logs to
#include "ramet/model.h"      // building a model
#include "ramet/ops.h"        // the ops
#include "ramet/optimizer.h"  // optimizers, groups, learning rates
#include "ramet/plan.h"       // memory and time before anything runs
#include "ramet/predict.h"    // a trained model at work
#include "ramet/tensor.h"     // a value of a model that is being built
#include "ramet/train.h"      // training
#include "ramet/types.h"      // element types and shapes
#include "ramet/version.h"
