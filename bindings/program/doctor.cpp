// doctor.cpp -- `mtorch doctor`: the libraries and devices found, and how to get missing ones
#include <fmt/core.h>

#include <cstdlib>
#include <string>

#include <lua.hpp>
#include "bindings/core/module.h"
#include "bindings/program/program.h"
#include "engine/core/device.h"
#include "engine/core/error.h"
#include "engine/gpu/nvrtc.h"
#include "kernels/cpu/jit/jit_x64.h"
#include "kernels/cpu/libraries/onednn.h"
#include "kernels/cpu/libraries/openblas.h"
#include "kernels/cpu/pool/parallel.h"
#include "kernels/dynamic_library.h"

namespace mt::program {
namespace {

void row(const char* what, bool good, const std::string& found, const std::string& remedy = "") {
  say(stdout, "{:<16} {:<4} {}\n", what, good ? "ok" : "off", found);
  if (!good && !remedy.empty()) say(stdout, "{:<16}      {}\n", "", remedy);
}

bool can_load(const char* library) {
  DynamicLibrary found({library});
  const bool loaded = bool(found);
  found.close();
  return loaded;
}

void machine_code_row() {
#ifdef MT_WITH_COMPILER
  Isa isa;
  if (jit_isa(isa))
    return row("machine code", true, "of mt.map, mt.fuse and kernels (MTORCH_JIT=vm overrides)");
  row("machine code", false,
      fmt::format("mt.map, mt.fuse and kernels are interpreted: there is none for {}", cpu_isa()));
#endif
}

/// Prints the BLAS library, and whether it uses its best kernels.
void blas() {
  const openblas::Library* library = openblas::open();
  if (!library)
    return row("blas", false,
               fmt::format("large products and mt.linalg need OpenBLAS: {}", openblas::why()));
  const std::string core = library->get_corename(), best = openblas::best_core();
  const std::string note = *library->note ? fmt::format(" ({})", library->note) : "";
  row("blas", true, fmt::format("{}, {}", library->get_config(), library->path));
  row("blas kernels", openblas::suits(core.c_str()), core + note,
      fmt::format("this processor has instructions for faster ones: set OPENBLAS_CORETYPE={}{}",
                  best, std::getenv("OPENBLAS_CORETYPE") ? ", or unset it" : ""));
}

void onednn_row() {
  const onednn::Library* library = onednn::open();
  if (!library)
    return row("onednn", false,
               fmt::format("large products and convolutions are slower without oneDNN: {}",
                           onednn::why()));
  row("onednn", true,
      fmt::format("oneDNN {}.{}.{}, {}", library->major, library->minor, library->patch,
                  library->path));
}

void lua_row() {
  lua_State* const L = luaL_newstate();
  luaL_openlibs(L);
  const lua::LuaJit found = lua::luajit_of(L);
  lua_close(L);
  row("lua", !found.old, found.name + (*MT_LUAJIT_DATE ? " of " MT_LUAJIT_DATE : ""),
      fmt::format(
          "it {}; mtorch's own stay interpreted, yours do not: apt-get install libluajit2-5.1-dev, and build "
          "mtorch again",
          lua::kOldLuaJit));
}

}  // namespace

const char* version() { return MT_VERSION; }

int doctor() {
  say(stdout, "mtorch {}\n", version());
  lua_row();
  row("instructions", true, fmt::format("{} (MTORCH_ISA={} overrides)", cpu_isa(), kIsaNames));
  machine_code_row();
  row("threads", true, fmt::format("{} (--threads or OMP_NUM_THREADS)", cpu_threads()));
  blas();
  onednn_row();
  row("line editing", can_load("libedit.so.2"), "libedit.so.2",
      "the prompt works without it: apt-get install libedit2");
  row("npz, .pt", can_load("libzip.so.5") || can_load("libzip.so.4"), "libzip",
      "zip archives cannot be read: apt-get install libzip-dev");
  row("PNG", can_load("libpng16.so.16"), "libpng", "apt-get install libpng16-16");
  row("JPEG", can_load("libturbojpeg.so.0"), "TurboJPEG", "apt-get install libturbojpeg0");
  row("PNG of figures", can_load("librsvg-2.so.2"), "librsvg",
      "figures can only be SVG files: apt-get install librsvg2-2");
  row("downloads", can_load("libcurl.so.4") || can_load("libcurl-gnutls.so.4"), "libcurl",
      "apt-get install libcurl4");
  row("tokenizers", can_load("libutf8proc.so.3") || can_load("libutf8proc.so.2"), "libutf8proc",
      "normal forms and lower case are missing: apt-get install libutf8proc-dev");
  row("mpi", can_load("libmpi.so.40"), "libmpi.so.40 (Open MPI)",
      "mt.dist is a world of one process: apt-get install openmpi-bin");
  const Gpu* gpu = nullptr;
  std::string why = cuda_unavailable_reason();
  try {
    if (why.empty()) gpu = &gpu_of(device_named("cuda"));
  } catch (const Error& e) { why = e.what(); }
  row("cuda", gpu, gpu ? fmt::format("usable; 'cuda' is {}, {}", gpu->name, gpu->model) : why);
  if (gpu) {
    const std::string products = gpu->gemm_library(true);
    row("cublas", products.starts_with("cuBLAS"), products);
    const std::string convolutions = gpu->conv_library(true);
    row("cudnn", convolutions.starts_with("cuDNN"), convolutions);
    const std::string collectives = gpu->collective_library(true);
    row("nccl", collectives.starts_with("NCCL "),
        collectives + (collectives.starts_with("NCCL ") ? ", for processes with a GPU each" : ""));
  }
  const std::string compiler = nvrtc_unavailable_reason(), folder = code_cache().folder();
  row("nvrtc", compiler.empty(), compiler.empty() ? "compiles mt.cuda.kernel" : compiler);
  row("code cache", !folder.empty(), folder.empty() ? "MTORCH_CACHE=off, or no HOME" : folder);
  row("log", true,
      "MTORCH_LOG=verbs writes a line to standard error for each call of a device's verb");
  return 0;
}

}  // namespace mt::program
