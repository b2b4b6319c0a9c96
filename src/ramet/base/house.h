#pragma once

// The public headers (include/ramet/) define what the engine shares with its users: errors, element types, shapes.
#ifdef RAMET_OUTSIDE
#error "include a header of src/ramet before the public headers: both have names of their own, as Model"
#endif
#define RAMET_INSIDE

// Every folder X of src/ramet has a namespace of its own, ramet::X; what base/ declares stands in ramet itself. A
// folder sees the names of the folders above it without a prefix, because each directive below passes on those before
// it. It never sees the names of later folders, even where a header of one comes in by mistake. So no two types can
// collide. (Of two types with one full name, the linker would silently keep the functions of either.)
namespace ramet {}
namespace ramet::ir {
using namespace ramet;
}
namespace ramet::ops {
using namespace ramet::ir;
}
namespace ramet::transform {
using namespace ramet::ops;
}
namespace ramet::machine {
using namespace ramet::transform;
}
namespace ramet::layout {
using namespace ramet::machine;
}
namespace ramet::program {
using namespace ramet::layout;
}
namespace ramet::device {
using namespace ramet::program;
}
namespace ramet::kernel {
using namespace ramet::device;
}
namespace ramet::transport {
using namespace ramet::kernel;
}
namespace ramet::runtime {
using namespace ramet::transport;
}
namespace ramet::measure {
using namespace ramet::runtime;
}
namespace ramet::sim {
using namespace ramet::measure;
}
namespace ramet::plan {
using namespace ramet::sim;
}
namespace ramet::data {
using namespace ramet::plan;
}
namespace ramet::text {
using namespace ramet::data;
}
namespace ramet::graphs {
using namespace ramet::text;
}
namespace ramet::weights {
using namespace ramet::graphs;
}
namespace ramet::model {
using namespace ramet::weights;
}
namespace ramet::front {
using namespace ramet::model;
}
namespace ramet::track {
using namespace ramet::front;
}
namespace ramet::train {
using namespace ramet::track;
}
namespace ramet::recipe {
using namespace ramet::train;
}
namespace ramet::sweep {
using namespace ramet::recipe;
}
namespace ramet::report {
using namespace ramet::sweep;
}
namespace ramet::serve {
using namespace ramet::report;
}
namespace ramet::cli {
using namespace ramet::serve;
}
namespace ramet::api {
using namespace ramet::serve;
}

// Tests see all folders. Benchmarks also see the tests' support code.
namespace ramet::tests {
using namespace ramet::cli;
}
namespace ramet::bench {
using namespace ramet::tests;
}
