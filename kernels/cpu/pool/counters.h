// counters.h -- counters of the CPU's work, from which mt.explain reports how a verb was computed
#pragma once
#include <cstdint>

namespace mt {

/// Counts since the start of the process; `threads` since the last call of cpu_counters().
struct CpuCounters {
  int64_t loops;     // loops that ran on several threads of the pool
  int64_t pieces;    // the pieces of these loops
  int64_t products;  // calls of OpenBLAS for matrix products or panels of them
  int64_t onednn;    // calls of oneDNN for such products, and for convolutions
  int64_t elements;  // elements computed by the machine code of expression programs
  int threads;       // the number of threads that computed pieces
};
CpuCounters cpu_counters();

void count_product();
void count_onednn();
void count_elements(int64_t n);

}  // namespace mt
