// test_nccl.cpp -- what is declared of NCCL, against its own header and library where they are
#include "kernels/cuda/nccl.h"

#include "tests/unit/catch.h"

#if __has_include(<nccl.h>) && __has_include(<cuda_runtime_api.h>)
#include <nccl.h>

#include <type_traits>

namespace {

using namespace mt::cuda;

/// Whether values are passed alike: pointers, numbers of one size, or structures of one size.
template <class Ours, class Theirs>
constexpr bool kAlike = std::is_pointer_v<Ours> == std::is_pointer_v<Theirs> &&
                        sizeof(Ours) == sizeof(Theirs) &&
                        (std::is_enum_v<Theirs> ? std::is_same_v<Ours, int>
                         : std::is_class_v<Theirs>
                             ? std::is_same_v<Ours, ccl::Id> && std::is_same_v<Theirs, ncclUniqueId>
                             : std::is_pointer_v<Ours> || std::is_same_v<Ours, Theirs>);
template <class Ours, class Theirs> struct Calls : std::false_type {};
template <class R, class... A, class S, class... B> struct Calls<R (*)(A...), S (*)(B...)> {
  static constexpr bool value = [] {
    if constexpr (sizeof...(A) == sizeof...(B)) return kAlike<R, S> && (kAlike<A, B> && ...);
    else return false;
  }();
};
#define SAME_CALL(ours, theirs) \
  static_assert(Calls<std::remove_cvref_t<decltype(Nccl().ours)>, decltype(&theirs)>::value)

SAME_CALL(version, ncclGetVersion);
SAME_CALL(text, ncclGetErrorString);
SAME_CALL(last_error, ncclGetLastError);
SAME_CALL(new_id, ncclGetUniqueId);
SAME_CALL(join, ncclCommInitRankConfig);
SAME_CALL(state, ncclCommGetAsyncError);
SAME_CALL(abort, ncclCommAbort);
SAME_CALL(begin, ncclGroupStart);
SAME_CALL(end, ncclGroupEnd);
SAME_CALL(all_reduce, ncclAllReduce);
SAME_CALL(reduce_scatter, ncclReduceScatter);
SAME_CALL(broadcast, ncclBroadcast);
SAME_CALL(all_gather, ncclAllGather);
SAME_CALL(send, ncclSend);
SAME_CALL(recv, ncclRecv);

static_assert(NCCL_MAJOR == 2 && ccl::kVersion == NCCL_VERSION(2, 14, 0));
static_assert(ccl::kSuccess == int(ncclSuccess) && ccl::kInProgress == int(ncclInProgress));
static_assert(ccl::kInt8 == int(ncclInt8) && ccl::kUint8 == int(ncclUint8) &&
              ccl::kInt32 == int(ncclInt32) && ccl::kInt64 == int(ncclInt64) &&
              ccl::kFloat == int(ncclFloat32) && ccl::kDouble == int(ncclFloat64));
static_assert(ccl::kSum == int(ncclSum) && ccl::kMax == int(ncclMax) && ccl::kMin == int(ncclMin));
static_assert(mt::kGroupIdBytes == NCCL_UNIQUE_ID_BYTES);
static_assert(sizeof(ccl::Options) <= sizeof(ncclConfig_t) &&
              offsetof(ccl::Options, magic) == offsetof(ncclConfig_t, magic) &&
              offsetof(ccl::Options, version) == offsetof(ncclConfig_t, version) &&
              offsetof(ccl::Options, blocking) == offsetof(ncclConfig_t, blocking));

TEST_CASE("the first fields of NCCL's options are as its own initializer sets them", "[nccl]") {
  const ncclConfig_t theirs = NCCL_CONFIG_INITIALIZER;
  CHECK(ccl::Options().magic == theirs.magic);
}

constexpr bool kCompared = true;

}  // namespace
#else
namespace {
constexpr bool kCompared = false;
}
#endif

TEST_CASE("the declarations of NCCL are those of its header", "[nccl]") {
  if (!kCompared) WARN("skipped: there was no nccl.h (with CUDA's headers) when this was built");
  SUCCEED("compared by the compiler");
}

TEST_CASE("the library of NCCL has every function in use", "[nccl]") {
  using namespace mt::cuda;
  const std::string own = setting("MTORCH_NCCL");
  const auto files = own.empty() || own == "0" ? library_files(kNcclName, {"nccl"})
                                               : std::vector<std::string>{own};
  if (files.empty()) {
    WARN("skipped: libnccl.so.2 was not found; MTORCH_NCCL may name it");
    return;
  }
  const mt::DynamicLibrary library({files[0].c_str()});
  INFO(files[0] << " " << library.error());
  REQUIRE(library);
  const Nccl lib(library);
  REQUIRE(lib.suits());
  CHECK(lib.text(ccl::kSuccess) == std::string("no error"));
  ccl::Id one{}, two{};  // ids need no GPU
  REQUIRE(lib.new_id(&one) == ccl::kSuccess);
  REQUIRE(lib.new_id(&two) == ccl::kSuccess);
  CHECK(std::string_view(one.bytes, sizeof one) != std::string_view(two.bytes, sizeof two));
}
