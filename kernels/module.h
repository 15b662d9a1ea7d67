// module.h -- code that is compiled while the program runs: loading it on a GPU, launching its kernels
#pragma once
#include "kernels/base.h"

namespace mt {

/// What a compiler made of a kernel, and of what.
struct CudaImage {
  const void* image;  // a cubin, or PTX with its zero byte
  size_t bytes;
  const char* symbol;  // the kernel's name in it
  const char* source;  // the text, and the kernel's name there: for what cannot run the image
  const char* name;
};

/// A kernel that lies on a GPU, and what a launch of it may ask for.
struct LoadedKernel {
  void *module, *function;
  int max_threads;        // of a block
  int registers;          // of a thread
  int64_t shared, local;  // bytes: shared memory of a block, memory of a thread beside registers
  int64_t more_shared;    // bytes that a launch may add
  mutable bool stays;     // a recorded graph launches it: it is never unloaded
};

struct Launch {
  const LoadedKernel* kernel;
  const char* name;  // lives as long as the program
  unsigned grid[3], block[3], shared;
  void** arguments;       // of each parameter where its value lies
  const unsigned* bytes;  // how many that are, a multiple of 8
  int count;              // of them
};

/// A GPU's verbs for such code.
struct Modules {
  int arch;  // compute capability, 90 for 9.0
  /// False with a sentence where the driver refuses the code.
  bool (*load)(const CudaImage&, LoadedKernel&, char* why, size_t room);
  void (*unload)(const LoadedKernel&);
  /// Where a __constant__ or __device__ variable lies; null: there is none of that name.
  void* (*variable)(const LoadedKernel&, const char* name, size_t* bytes);
  /// Copies to such a variable, in the stream's order, from the CPU or this GPU; the source may be
  /// changed at once.
  void (*write)(void* to, const void* from, size_t bytes);
  void (*launch)(const Launch&);
};

}  // namespace mt
