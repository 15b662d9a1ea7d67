// openblas.cpp -- finds OpenBLAS at first use, and selects its kernels by CPU features
#include "kernels/cpu/libraries/openblas.h"

#include <strings.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "kernels/cpu/libraries/library_loader.h"
#include "kernels/cpu/pool/parallel.h"

namespace mt::openblas {
namespace {

constexpr const char* kName = "libopenblas.so.0";
constexpr const char* kCure =
    "install its OpenMP build (apt-get install libopenblas0-openmp), or "
    "name its file in MTORCH_BLAS";

Library the_library;
LibraryLoader loader{kCure};

// ---- the processor and the kernels for it --------------------------------------------------------

/// The level of a kernel family's instruction set: 3 AVX-512, 2 AVX2 and FMA, 1 AVX, 0 less.
int level_of(const char* core) {
  const char* const families[][8] = {{"Sandybridge", "Bulldozer", "Piledriver", "Steamroller"},
                                     {"Haswell", "Zen", "Excavator"},
                                     {"SkylakeX", "Cooperlake", "SapphireRapids"}};
  for (int level = 3; level > 0; --level)
    for (const char* family : families[level - 1])
      if (family && strcasecmp(family, core) == 0) return level;
  return 0;
}

// OpenBLAS selects by CPU model: an old version treats a newer processor as a Prescott, and on Arm as an ARMV8.
int best_level() {
#ifdef __x86_64__
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw"))
    return 3;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return 2;
  if (__builtin_cpu_supports("avx")) return 1;
#endif
  return 0;
}

/// The number of threads of the process; 0 if it is unknown.
int count_threads() {
  std::FILE* file = std::fopen("/proc/self/status", "re");
  if (!file) return 0;
  char line[256];
  int n = 0;
  while (n == 0 && std::fgets(line, sizeof line, file)) (void)std::sscanf(line, "Threads: %d", &n);
  std::fclose(file);
  return n;
}

/// Whether this is the only thread, after parking the workers. The kernel may count a thread for
/// some microseconds after its end.
bool alone() {
  if (!park_workers()) return false;
  for (int tries = 0; tries < 100; ++tries) {
    if (count_threads() == 1) return true;
    usleep(100);
  }
  return false;
}

/// Sets OPENBLAS_CORETYPE for its lifetime, unless the user has set it. Another thread could read
/// the environment at that time, so it is not changed if there are other threads.
struct CoreType {
  static constexpr const char* kVariable = "OPENBLAS_CORETYPE";
  bool set = false;
  const char* note = "";
  CoreType() {
    if (std::getenv(kVariable)) note = "OPENBLAS_CORETYPE was set";
    else if (!*best_core()) return;
    else if (alone()) set = setenv(kVariable, best_core(), 1) == 0;
    else note = "other threads were running, so that it chose by itself";
  }
  ~CoreType() {
    if (set) unsetenv(kVariable);
  }
  CoreType(const CoreType&) = delete;
};

// ---- the file ------------------------------------------------------------------------------------

/// OpenBLAS retries forever if it cannot allocate memory: a buffer of 128 MiB for each of its
/// threads at start, and one for each thread that calls it.
bool has_room() {
  const size_t mib = size_t(256) * size_t(cpu_threads()) + 64;
  void* probe =
      mmap(nullptr, mib << 20, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (probe != MAP_FAILED) return munmap(probe, mib << 20), true;
  char reason[128];
  std::snprintf(reason, sizeof reason, "it takes %zu MiB of address space for %d threads", mib,
                cpu_threads());
  return loader.refuse("", reason, "raise `ulimit -v`, or use fewer threads (OMP_NUM_THREADS)");
}

/// The name of the first function that the file lacks, or null.
template <class T>
const char* find_routines(const DynamicLibrary& file, char letter, Routines<T>& to) {
  static char name[32];
  const auto lacks = [&](const char* pattern, const char* routine, auto& pointer) {
    std::snprintf(name, sizeof name, pattern, letter, routine);
    return !file.find(name, pointer);
  };
  if (lacks("cblas_%c%s", "gemm", to.gemm)) return name;
#define MT_FIND(routine, arguments) \
  if (lacks("%c%s_", #routine, to.routine)) return name;
  MT_OPENBLAS(MT_FIND)
#undef MT_FIND
  return nullptr;
}

/// Fills the_library from an open file, unless the file is unsuitable.
bool accept(const DynamicLibrary& file, const char* name, const char* note) {
  Library& to = the_library;
  const char* missing = file.lacks({{"openblas_get_parallel", to.get_parallel},
                                    {"openblas_get_config", to.get_config},
                                    {"openblas_get_corename", to.get_corename}});
  if (!missing) missing = find_routines(file, 's', to.single);
  if (!missing) missing = find_routines(file, 'd', to.wide);
  if (missing) return loader.lacks(name, missing);
  if (to.get_parallel() != 2)
    return loader.refuse(name,
                         "this is not OpenBLAS's OpenMP build, and would run threads of its own");
  if (std::strstr(to.get_config(), "USE64BITINT"))
    return loader.refuse(name, "this build of OpenBLAS has 64-bit sizes");
  loader.locate(to.get_parallel, name);
  to.path = loader.path, to.note = note;
  return true;
}

bool open_file(const char* name) {
  const CoreType core;
  DynamicLibrary file = loader.open(name);
  if (!file) return false;
  if (accept(file, name, core.note)) return true;
  file.close();
  return false;
}

bool find_library() {
  // The host program may have loaded one already, with global or local symbols.
  DynamicLibrary here({nullptr});
  if (void* found; !here.find("openblas_get_parallel", found))
    here = DynamicLibrary({kName}, RTLD_LAZY | RTLD_NOLOAD);
  if (here)
    return accept(here, "the OpenBLAS that is in this process already",
                  "it was in this process already");
  if (!has_room()) return false;
  if (const char* wish = std::getenv("MTORCH_BLAS"); wish && *wish) return open_file(wish);
  for (const char* name : {MT_OPENBLAS_NAMES})
    if (open_file(name)) return true;
  return false;
}

}  // namespace

const char* best_core() {
  const char* const names[] = {"", "Sandybridge", "Haswell", "SkylakeX"};
  return names[best_level()];
}
bool suits(const char* core) { return level_of(core) >= best_level(); }

const Library* open() {
  static const bool found = find_library();
  return found ? &the_library : nullptr;
}
const char* why() { return loader.reason; }

}  // namespace mt::openblas
