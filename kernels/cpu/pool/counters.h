// counters.h -- counts of what the CPU has done, from which mt.explain says how a verb was computed
#pragma once
#include <cstdint>

namespace mt {

/// Counts since the program began; `threads` since the latest call of cpu_counters().
struct CpuCounters {
  int64_t loops;     // that were spread over the pool's threads
  int64_t pieces;    // of these
  int64_t products;  // of matrices, or of panels of them, by OpenBLAS
  int64_t onednn;    // calls of oneDNN for such products, and for convolutions
  int64_t elements;  // by the machine code of expression programs
  int threads;       // that computed pieces
};
CpuCounters cpu_counters();

void count_product();
void count_onednn();
void count_elements(int64_t n);

}  // namespace mt
