#pragma once

namespace ramet::cli {

/// Gives the calling thread the processors that the program was started with. With OMP_PROC_BIND in the environment,
/// OpenMP's runtime, which is a library of a library here, binds the first thread to one processor before `main`; all
/// threads that it starts would then share that one.
void use_first_processors();

}  // namespace ramet::cli
