// module.h -- code that is compiled at run time: loading it on a GPU, launching its kernels
#pragma once
#include "kernels/base.h"

namespace mt {

/// The result of compiling a kernel, and the source.
struct CudaImage {
  const void* image;  // a cubin, or PTX with its zero byte
  size_t bytes;
  const char* symbol;  // the kernel's name in the image
  const char* source;  // the source, if a device cannot run the image; `name` is the kernel in it
  const char* name;
};

/// A kernel that is loaded on a GPU, and the limits of its launches.
struct LoadedKernel {
  void *module, *function;
  int max_threads;        // of a block
  int registers;          // of a thread
  int64_t shared, local;  // bytes: shared memory of a block, memory of a thread besides registers
  int64_t more_shared;    // bytes that a launch may add
  mutable bool stays;     // a recorded graph launches it: it is never unloaded
};

struct Launch {
  const LoadedKernel* kernel;
  const char* name;  // lives as long as the program
  unsigned grid[3], block[3], shared;
  void** arguments;       // a pointer to the value of each parameter
  const unsigned* bytes;  // the size of each value, a multiple of 8
  int count;              // the number of parameters
};

/// A GPU's functions for such code.
struct Modules {
  int arch;  // compute capability, 90 for 9.0
  /// Returns false, and writes the reason to `why`, if the driver rejects the code.
  bool (*load)(const CudaImage&, LoadedKernel&, char* why, size_t room);
  void (*unload)(const LoadedKernel&);
  /// The address of a __constant__ or __device__ variable; null if there is none of that name.
  void* (*variable)(const LoadedKernel&, const char* name, size_t* bytes);
  /// Copies to such a variable, in stream order, from the CPU or this GPU; the source may be
  /// changed after the call.
  void (*write)(void* to, const void* from, size_t bytes);
  void (*launch)(const Launch&);
};

}  // namespace mt
