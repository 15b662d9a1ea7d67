// doctor.cpp -- `mtorch doctor`: what was found on this machine, and how to mend what was not
#include <cblas.h>
#include <dlfcn.h>
#include <fmt/core.h>
#include <omp.h>

#include <cstdlib>
#include <string>

#include "bindings/program.h"
#include "engine/device.h"
#include "engine/nvrtc.h"
#include <lua.hpp>

extern "C" char* openblas_get_config(void);
extern "C" int openblas_get_parallel(void);

namespace mt::program {
namespace {

void row(const char* what, bool good, const std::string& found, const std::string& cure = "") {
  say(stdout, "{:<16} {:<4} {}\n", what, good ? "ok" : "off", found);
  if (!good && !cure.empty()) say(stdout, "{:<16}      {}\n", "", cure);
}

bool there(const char* library) {
  void* handle = dlopen(library, RTLD_LAZY);
  if (handle) dlclose(handle);
  return handle;
}

}  // namespace

int doctor() {
  say(stdout, "mtorch {}\n", MT_VERSION);
  row("lua", true, LUAJIT_VERSION);
  row("instructions", true, fmt::format("{} (MTORCH_ISA=base|avx2|avx512 overrides)", cpu_isa()));
  row("threads", true, fmt::format("{} (--threads or OMP_NUM_THREADS)", omp_get_max_threads()));
  const bool openmp = openblas_get_parallel() == 2;
  row("blas", openmp, openblas_get_config(),
      "this is not the OpenMP build, and would run threads of its own: apt-get install "
      "libopenblas0-openmp");
  row("line editing", there("libedit.so.2"), "libedit.so.2",
      "the prompt works without: apt-get install libedit2");
  const std::string trouble = cuda_trouble();
  row("cuda", trouble.empty(), trouble.empty() ? "usable" : trouble);
  const std::string compiler = nvrtc_trouble(), folder = code_cache().folder();
  row("nvrtc", compiler.empty(), compiler.empty() ? "compiles mt.cuda.kernel" : compiler);
  row("code cache", !folder.empty(), folder.empty() ? "MTORCH_CACHE=off, or no HOME" : folder);
  return 0;
}

}  // namespace mt::program
