// work.h -- what the CPU has done so far: how mt.explain knows which way a verb took
#pragma once
#include <cstdint>

namespace mt {

/// Counts since the program began; `threads` since the latest call of work_so_far().
struct Work {
  int64_t loops;     // that were spread over the pool's threads
  int64_t pieces;    // of these
  int64_t products;  // of matrices, or of panels of them, by OpenBLAS
  int64_t onednn;    // calls of oneDNN for such products, and for convolutions
  int64_t elements;  // by the machine code of expression programs
  int threads;       // that computed pieces
};
Work work_so_far();

void count_product();
void count_onednn();
void count_elements(int64_t n);

}  // namespace mt
