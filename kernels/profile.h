// profile.h -- how the CUDA plug-in tells of the launches that it has timed
#pragma once
#include "kernels/base.h"

namespace mt {

/// One launch: when it began and ended on the GPU, in nanoseconds of the steady clock.
struct KernelTime {
  const void* tag;   // what `KernelTag` answered when it was queued
  const char* name;  // that of the launch
  int device;
  int64_t begin, end;
};
using KernelSink = void (*)(const KernelTime&);
using KernelTag = const void* (*)();

/// `mtorch_cuda_profile(sink, tag)`, which the plug-in exports: waits, hands out what was timed so
/// far, and goes on timing launches; with a null tag it ends that. The sink is called from here and
/// from any launch.
using KernelProfile = void (*)(KernelSink sink, KernelTag tag);

}  // namespace mt
