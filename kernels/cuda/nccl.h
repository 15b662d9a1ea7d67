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
struct Nccl {
  int (*version)(int*) = nullptr;
  const char* (*text)(int status) = nullptr;
  const char* (*last_error)(ccl::Communicator) = nullptr;
  int (*new_id)(ccl::Id*) = nullptr;
  int (*join)(ccl::Communicator*, int size, ccl::Id, int rank, ccl::Options*) = nullptr;
  int (*state)(ccl::Communicator, int* status) = nullptr;
  int (*abort)(ccl::Communicator) = nullptr;
  int (*begin)() = nullptr;
  int (*end)() = nullptr;
  int (*all_reduce)(const void*, void*, size_t, int type, int op, ccl::Communicator,
                    void* stream) = nullptr;
  int (*reduce_scatter)(const void*, void*, size_t, int type, int op, ccl::Communicator,
                        void* stream) = nullptr;
  int (*broadcast)(const void*, void*, size_t, int type, int root, ccl::Communicator,
                   void* stream) = nullptr;
  int (*all_gather)(const void*, void*, size_t, int type, ccl::Communicator,
                    void* stream) = nullptr;
  int (*send)(const void*, size_t, int type, int to, ccl::Communicator, void* stream) = nullptr;
  int (*recv)(void*, size_t, int type, int from, ccl::Communicator, void* stream) = nullptr;
};
/// Whether an open library has all functions, and communicators that do not block.
inline bool functions_of(const DynamicLibrary& library, Nccl& lib) {
  int version = 0;
  return library.find("ncclGetVersion", lib.version) && lib.version(&version) == ccl::kSuccess &&
         version >= ccl::kVersion &&
         !library.lacks({{"ncclGetErrorString", lib.text},
                         {"ncclGetLastError", lib.last_error},
                         {"ncclGetUniqueId", lib.new_id},
                         {"ncclCommInitRankConfig", lib.join},
                         {"ncclCommGetAsyncError", lib.state},
                         {"ncclCommAbort", lib.abort},
                         {"ncclGroupStart", lib.begin},
                         {"ncclGroupEnd", lib.end},
                         {"ncclAllReduce", lib.all_reduce},
                         {"ncclReduceScatter", lib.reduce_scatter},
                         {"ncclBroadcast", lib.broadcast},
                         {"ncclAllGather", lib.all_gather},
                         {"ncclSend", lib.send},
                         {"ncclRecv", lib.recv}});
}
constexpr const char* kNcclName = "libnccl.so.2";

/// "NCCL 2.28.9, /usr/local/cuda/lib64/libnccl.so.2, 12 collectives", or why it is not used; `open` opens it first.
const char* nccl_words(bool open);

// The functions of Gpu with these names (kernels/gpu.h).
bool group_id(char* id);
void* group_join(const char* id, int rank, int size, bool (*stop)(double seconds));
void group_start(void*, const Collective&);
GroupState group_state(void*);
void group_finish(void*);
void group_abort(void*, const char* why);
const char* group_error(void*);
const char* bus();

/// Waits until the collectives of the current GPU are done. One that failed, or whose group gives up
/// waiting, is aborted and recorded as an error.
void wait_for_groups();

}  // namespace mt::cuda
