// gpu_link.cpp -- connects the GPUs of a group's processes, and runs collectives on them (NCCL)
#include "engine/dist/agreement.h"

#include <unistd.h>

#include <cstdio>
#include <fstream>

#include "engine/core/device.h"
#include "engine/core/step_listener.h"

namespace mt::dist {

const Gpu* gpu_for(const Device& d, const Group& group) {
  const GpuLink& link = group.link;
  if (is_cpu(d) || link.refused) return nullptr;
  const Gpu& gpu = mt::gpu_of(d);
  if (link.gpu) return link.gpu == &gpu ? &gpu : nullptr;
  const std::string_view words = gpu.collective_library(true);
  if (words.starts_with("NCCL ")) return &gpu;
  static bool was_printed = rank() != 0 || words.starts_with("off");
  if (!std::exchange(was_printed, true)) fprintf(stderr, "mt.dist: %s\n", words.data());
  return nullptr;
}
const Gpu* gpu_for(const TensorList& list, const Group& group) {
  if (list.empty()) return nullptr;
  for (const Tensor& x : list)
    if (&x.device() != &list[0].device()) return nullptr;
  return gpu_for(list[0].device(), group);
}

namespace {

/// A number that is equal in two processes if they use the same GPU of the same machine.
int64_t place_of(const Gpu& gpu) {
  std::string machine;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> machine;
  if (machine.empty()) {
    char name[256] = "";
    gethostname(name, sizeof name - 1);
    machine = name;
  }
  return int64_t(std::hash<std::string>()(machine + " " + gpu.pci_bus_id()) >> 1);
}

constexpr const char* kThroughCpu = "the GPUs' tensors go through the CPU's memory";

/// Whether each process has another GPU; if not, the first one says so.
bool gpus_differ(const char* operation, const Gpu& gpu, const Group& group) {
  const int64_t mine = place_of(gpu);
  std::vector<int64_t> places(group.ranks.size());
  const Object type = datatype(Dtype::i64);
  check(operation, mpi().all_gather(&mine, 1, type, places.data(), 1, type, group.communicator));
  for (size_t i = 0; i < places.size(); ++i)
    for (size_t k = 0; k < i; ++k) {
      if (places[i] != places[k]) continue;
      if (rank(group) == 0)
        fprintf(stderr, "mt.dist: processes %d and %d use the same GPU: %s\n", group.ranks[k],
                group.ranks[i], kThroughCpu);
      return false;
    }
  return true;
}

GroupState state_of(const GpuLink& link) { return link.gpu->group_state(link.handle); }

/// Waits until joining or the last call is not in progress any more.
void settle(const char* operation, const Group& group) {
  const GpuLink& link = group.link;
  if (state_of(link) != GroupState::working) return;
  try {
    wait_for_group(operation, group, [&] { return state_of(link) != GroupState::working; });
  } catch (...) {
    link.gpu->group_abort(link.handle, "the wait was abandoned");
    throw;
  }
}

bool stop(double seconds) { return seconds > (mt_interrupted ? 1 : time_limit()); }

}  // namespace

bool connect(const char* operation, const Gpu& gpu, const Group& group) {
  GpuLink& link = group.link;
  if (link.gpu) return true;
  if (capturing)
    fail(
        "{}: a graph is being recorded; call mt.dist with a tensor of {} once before, which connects the processes",
        operation, gpu.name);
  link.refused = true;
  const bool several = group.ranks.size() > 1;
  if (several && !gpus_differ(operation, gpu, group)) return false;
  char id[kGroupIdBytes] = "";
  if (rank(group) == 0) gpu.group_id(id);
  const Object byte = datatype(Dtype::u8);
  if (several) check(operation, mpi().broadcast(id, kGroupIdBytes, byte, 0, group.communicator));
  link.gpu = &gpu;
  link.handle = gpu.group_join(id, rank(group), size(group), stop);
  settle(operation, group);
  int64_t failed = state_of(link) == GroupState::failed, any = failed;
  if (failed)
    fprintf(stderr, "mt.dist: process %d: %s; %s\n", rank(), gpu.group_error(link.handle),
            kThroughCpu);
  if (several)
    check(operation, mpi().all_reduce(&failed, &any, 1, datatype(Dtype::i64),
                                      mpi().object("ompi_mpi_op_max"), group.communicator));
  link.refused = any != 0;
  if (!link.refused) return true;
  gpu.group_abort(link.handle, "another process could not join");
  link.gpu = nullptr;
  return false;
}

uint64_t start_on_gpus(const char* operation, const Collective& c, const Group& group) {
  if (c.count == 0) return 0;
  mark_untraceable();
  const GpuLink& link = group.link;
  const uint64_t number = link.gpu->group_start(link.handle, c);
  settle(operation, group);
  if (state_of(link) != GroupState::failed) return number;
  group.lost = link.gpu->group_error(link.handle);
  fail("{}: process {}: {}", operation, rank(), group.lost);
}
void finish_on_gpus(const Group& group, uint64_t number) {
  if (number > 0) group.link.gpu->group_finish(group.link.handle, number);
}
void run_on_gpus(const char* operation, const Collective& c, const Group& group) {
  finish_on_gpus(group, start_on_gpus(operation, c, group));
}

void reduce_alone(const Tensor& x, bool abort) {
  constexpr const char* kName = "reduce_alone";
  static Group& alone = *new Group;
  alone.ranks = {rank()};
  const Gpu* gpu = gpu_for(x.device(), alone);
  if (!gpu || !connect(kName, *gpu, alone)) fail("{}: NCCL cannot be used", kName);
  if (abort) gpu->group_abort(alone.link.handle, "it was aborted");
  void* const all = x.data_as<void>();
  run_on_gpus(kName, {Collective::Kind::all_reduce, all, all, x.numel(), 0, x.dtype()}, alone);
}

}  // namespace mt::dist
