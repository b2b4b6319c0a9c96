#include "ramet/memory.h"
#include "builder.h"

namespace ramet_python {

void bind_memory(nb::module_& m) {
  using ramet::MemoryReserve;
  nb::class_<MemoryReserve>(m, "MemoryReserve",
                            "Memory that a thread takes from the system ahead of its use: the next Training on one "
                            "device that takes at least half so many bytes begins with it, and so is there sooner.")
      .def(nb::init<int64_t>(), "bytes"_a)
      .def("grow", &MemoryReserve::grow, "bytes"_a, nb::call_guard<nb::gil_scoped_release>(),
           "Takes so many bytes more, such as those that this process has just given back. Nothing where it is empty, "
           "or where the system has not so much.")
      .def_prop_ro("empty", &MemoryReserve::empty, "Whether a Training has taken it, or the system had not so much.")
      .def(
          "close", [](MemoryReserve& self) { MemoryReserve(std::move(self)); },
          "Gives back what no Training has taken.")
      .def("__enter__", [](nb::object self) { return self; })
      .def("__exit__", [](MemoryReserve& self, const nb::args&) { MemoryReserve(std::move(self)); });
  m.def("trim_memory", &ramet::trim_memory,
        "Gives the system back what this process does not use at this time: free memory of malloc, and pages of "
        "libraries, which come back when they are read again. Returns the bytes of such pages.");
}

}  // namespace ramet_python
