// cpu.cpp -- the CPU as a device: memory, and the choice of an instruction set at start
#include <omp.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "kernels/cpu/isa.h"

volatile int mt_interrupted = 0;

namespace mt {
namespace {

void* cpu_alloc(size_t bytes) { return std::aligned_alloc(64, (bytes + 63) / 64 * 64); }
void cpu_free(void* data, size_t) { std::free(data); }
void cpu_sync() {}

struct Choice {
  const char* name;
  void (*fill)(Device&);
};

Choice choose() {
  __builtin_cpu_init();
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                    __builtin_cpu_supports("f16c");
  const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
                      __builtin_cpu_supports("avx512bw");
  const Choice base{"base", isa_base::fill_verbs}, two{"avx2", isa_avx2::fill_verbs},
      wide{"avx512", isa_avx512::fill_verbs};
  const char* wish = std::getenv("MTORCH_ISA");
  if (wish && std::strcmp(wish, "base") == 0) return base;
  if (wish && std::strcmp(wish, "avx2") == 0 && avx2) return two;
  if (wish && std::strcmp(wish, "avx512") == 0 && avx512) return wide;
  if (wish && *wish)
    std::fprintf(stderr, "mtorch: MTORCH_ISA=%s is not one of base, avx2, avx512 that this machine has; "
                         "it is ignored\n", wish);
  // AVX-512 only on request, until the tests have passed on a machine that has it.
  return avx2 ? two : base;
}

Device make() {
  Device device{};
  device.abi = kDeviceAbi;
  device.name = "cpu";
  device.alloc = cpu_alloc;
  device.free = cpu_free;
  device.sync = cpu_sync;
  choose().fill(device);
  return device;
}

}  // namespace

const Device* the_cpu = nullptr;

const Device& start_cpu() {
  static Device device = make();  // not const: the profiler writes into it
  the_cpu = &device;
  return device;
}
int cpu_threads() { return omp_get_max_threads(); }
const char* cpu_isa() {
  static const char* const name = choose().name;
  return name;
}

}  // namespace mt
