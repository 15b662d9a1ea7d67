// nccl.h -- NCCL, opened when processes with GPUs first exchange tensors; it is optional
//
// It is searched for where cuDNN is. MTORCH_NCCL=0 disables it, and another value is a file name. Its
// functions and constants are declared here, so that the build does not need NCCL;
// tests/unit/test_nccl.cpp compares them with NCCL's header if it is installed. The emulation's NCCL is
// tests/cuda/nccl.cpp.
#pragma once
#include <cstddef>

#include "kernels/cuda/library.h"
#include "kernels/gpu.h"

namespace mt::cuda {

namespace ccl {
using Communicator = struct CclCommunicator*;
enum Status : int { kSuccess = 0, kInProgress = 7 };
enum Type : int { kInt8 = 0, kUint8 = 1, kInt32 = 2, kInt64 = 4, kFloat = 7, kDouble = 8 };
enum Operation : int { kSum = 0, kMax = 2, kMin = 3 };
struct Id {
  char bytes[128];
};
/// The options that version 2.14 has; later ones accept them by `size` and `version`.
constexpr int kVersion = 21400;
struct Options {
  size_t size = sizeof(Options);
  unsigned magic = 0xcafebeef, version = kVersion;
  int blocking = 0;
};
}  // namespace ccl

/// The functions that are used, with their names in the library.
struct Nccl : LibraryFunctions {
  using LibraryFunctions::LibraryFunctions;
  int (*version)(int*) = find("ncclGetVersion");
  const char* (*text)(int status) = find("ncclGetErrorString");
  const char* (*last_error)(ccl::Communicator) = find("ncclGetLastError");
  int (*new_id)(ccl::Id*) = find("ncclGetUniqueId");
  int (*join)(ccl::Communicator*, int size, ccl::Id, int rank,
              ccl::Options*) = find("ncclCommInitRankConfig");
  int (*state)(ccl::Communicator, int* status) = find("ncclCommGetAsyncError");
  int (*abort)(ccl::Communicator) = find("ncclCommAbort");
  int (*begin)() = find("ncclGroupStart");
  int (*end)() = find("ncclGroupEnd");
  int (*all_reduce)(const void*, void*, size_t, int type, int op, ccl::Communicator,
                    void* stream) = find("ncclAllReduce");
  int (*reduce_scatter)(const void*, void*, size_t, int type, int op, ccl::Communicator,
                        void* stream) = find("ncclReduceScatter");
  int (*broadcast)(const void*, void*, size_t, int type, int root, ccl::Communicator,
                   void* stream) = find("ncclBroadcast");
  int (*all_gather)(const void*, void*, size_t, int type, ccl::Communicator,
                    void* stream) = find("ncclAllGather");
  int (*send)(const void*, size_t, int type, int to, ccl::Communicator,
              void* stream) = find("ncclSend");
  int (*recv)(void*, size_t, int type, int from, ccl::Communicator,
              void* stream) = find("ncclRecv");
  /// Whether the library has them all, and communicators that do not block.
  bool suits() const {
    int v = 0;
    return complete() && version(&v) == ccl::kSuccess && v >= ccl::kVersion;
  }
};
constexpr const char* kNcclName = "libnccl.so.2";

/// "NCCL 2.28.9, /usr/local/cuda/lib64/libnccl.so.2, 12 collectives", or why it is not used; `open` opens it first.
const char* nccl_words(bool open);

// The functions of Gpu with these names (kernels/gpu.h).
bool group_id(char* id);
void* group_join(const char* id, int rank, int size, bool (*stop)(double seconds));
uint64_t group_start(void*, const Collective&);
GroupState group_state(void*);
void group_finish(void*, uint64_t number);
void group_abort(void*, const char* why);
const char* group_error(void*);
const char* pci_bus_id();

/// Waits until the collectives of the current GPU are done. One that failed, or whose group gives up
/// waiting, is aborted and recorded as an error.
void wait_for_groups();

}  // namespace mt::cuda
