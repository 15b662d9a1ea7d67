// gpu_link.h -- collectives of tensors on the GPUs of a group's processes, by NCCL: without copies to the CPU
//
// The processes decide together, when they agree on a call, whether it goes this way: all tensors must be on one GPU in
// each process, another one in each. A group is connected at its first such call. Where it cannot be, in any process,
// its tensors go through the CPU's memory from then on.
#pragma once
#include "kernels/gpu.h"

#include "engine/core/tensor.h"

namespace mt::dist {

struct Group;
/// The connection of the GPUs of a group.
struct GpuLink {
  void* handle = nullptr;  // of Gpu's functions
  const Gpu* gpu = nullptr;
  bool refused = false;
};

/// The GPU of all these tensors, or this device, if this process can use NCCL for it; otherwise null.
const Gpu* gpu_for(const TensorList&, const Group&);
const Gpu* gpu_for(const Device&, const Group&);
/// Connects the group at the first call, which all its processes make; returns whether it is connected.
bool connect(const char* operation, const Gpu&, const Group&);
/// Queues a collective; the GPU's later work does not wait for it until `finish_on_gpus`, before which the tensors must
/// neither be written nor freed.
void start_on_gpus(const char* operation, const Collective&, const Group&);
void finish_on_gpus(const Group&);
/// Both.
void run_on_gpus(const char* operation, const Collective&, const Group&);

/// For a check of NCCL on one GPU: reduces x, in place, in a group of this process alone; `abort` ends that group.
void reduce_alone(const Tensor& x, bool abort);

}  // namespace mt::dist
