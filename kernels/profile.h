// profile.h -- how the CUDA plug-in reports the launches that it has timed
#pragma once
#include "kernels/base.h"

namespace mt {

/// One launch: its start and end on the GPU, in nanoseconds of the steady clock.
struct KernelTime {
  const void* tag;   // the result of `KernelTag` when the launch was queued
  const char* name;  // the name of the launch
  int device;
  int64_t begin, end;
};
using KernelSink = void (*)(const KernelTime&);
using KernelTag = const void* (*)();

/// `mtorch_cuda_profile(sink, tag)`, which the plug-in exports: waits, passes the launches timed so
/// far to the sink, and keeps timing launches; a null tag stops the timing. The sink is called from
/// this function and from any launch.
using KernelProfile = void (*)(KernelSink sink, KernelTag tag);

}  // namespace mt
