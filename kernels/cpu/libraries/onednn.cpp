// onednn.cpp -- finds oneDNN at first use, and calls its C interface of version 2 or 3
#include "kernels/cpu/libraries/onednn.h"

#include <omp.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <type_traits>

#include "kernels/cpu/libraries/library_loader.h"

namespace mt::onednn {
namespace {

// ---- declarations from dnnl.h, as far as they are used. Handles are pointers; 0 is success. -------

struct ExecArg {
  int argument;
  void* memory;
};
struct Version {
  int major, minor, patch;
};

// The functions of both versions whose arguments mean the same. A memory descriptor is a struct of
// the caller in version 2 and a handle in version 3, but these functions take a pointer to it.
#define MT_ONEDNN(X)                                                                             \
  X(const Version*, dnnl_version, (void))                                                        \
  X(int, dnnl_get_effective_cpu_isa, (void))                                                     \
  X(int, dnnl_sgemm,                                                                             \
    (char, char, int64_t, int64_t, int64_t, float, const float*, int64_t, const float*, int64_t, \
     float, float*, int64_t))                                                                    \
  X(int, dnnl_engine_create, (void**, int kind, size_t index))                                   \
  X(int, dnnl_stream_create, (void**, void* engine, unsigned flags))                             \
  X(int, dnnl_stream_destroy, (void*))                                                           \
  X(int, dnnl_primitive_attr_create, (void**))                                                   \
  X(int, dnnl_primitive_attr_set_scratchpad_mode, (void*, int))                                  \
  X(int, dnnl_memory_desc_equal, (const void*, const void*))                                     \
  X(size_t, dnnl_memory_desc_get_size, (const void*))                                            \
  X(int, dnnl_memory_create, (void**, const void* layout, void* engine, void* at))               \
  X(int, dnnl_memory_destroy, (void*))                                                           \
  X(const void*, dnnl_primitive_desc_query_md, (const void*, int what, int index))               \
  X(int, dnnl_primitive_desc_query, (const void*, int what, int index, void*))                   \
  X(int, dnnl_primitive_desc_destroy, (void*))                                                   \
  X(int, dnnl_reorder_primitive_desc_create,                                                     \
    (void**, const void* from, void* from_engine, const void* to, void* to_engine,               \
     const void* attr))                                                                          \
  X(int, dnnl_primitive_create, (void**, const void* description))                               \
  X(int, dnnl_primitive_execute, (const void*, void* stream, int n, const ExecArg*))             \
  X(int, dnnl_primitive_destroy, (void*))

// Version 2: operation descriptors are structs too.
#define MT_ONEDNN_2(X)                                                                          \
  X(int, dnnl_memory_desc_init_by_strides, (void*, int, const int64_t*, int, const int64_t*))   \
  X(int, dnnl_memory_desc_init_by_tag, (void*, int, const int64_t*, int, int tag))              \
  X(int, dnnl_primitive_desc_create,                                                            \
    (void**, const void* operation, const void* attr, void* engine, const void* forward))       \
  X(int, dnnl_matmul_desc_init,                                                                 \
    (void*, const void* a, const void* b, const void* bias, const void* c))                     \
  X(int, dnnl_dilated_convolution_forward_desc_init,                                            \
    (void*, int kind, int algorithm, const void* source, const void* weights, const void* bias, \
     const void* result, const int64_t*, const int64_t*, const int64_t*, const int64_t*))       \
  X(int, dnnl_dilated_convolution_backward_data_desc_init,                                      \
    (void*, int algorithm, const void* source, const void* weights, const void* result,         \
     const int64_t*, const int64_t*, const int64_t*, const int64_t*))                           \
  X(int, dnnl_dilated_convolution_backward_weights_desc_init,                                   \
    (void*, int algorithm, const void* source, const void* weights, const void* bias,           \
     const void* result, const int64_t*, const int64_t*, const int64_t*, const int64_t*))

#define MT_ONEDNN_3(X)                                                                             \
  X(int, dnnl_memory_desc_create_with_strides, (void**, int, const int64_t*, int, const int64_t*)) \
  X(int, dnnl_memory_desc_create_with_tag, (void**, int, const int64_t*, int, int tag))            \
  X(int, dnnl_memory_desc_destroy, (void*))                                                        \
  X(int, dnnl_memory_desc_query, (const void*, int what, void* result))                            \
  X(int, dnnl_matmul_primitive_desc_create,                                                        \
    (void**, void* engine, const void* a, const void* b, const void* bias, const void* c,          \
     const void* attr))                                                                            \
  X(int, dnnl_convolution_forward_primitive_desc_create,                                           \
    (void**, void* engine, int kind, int algorithm, const void* source, const void* weights,       \
     const void* bias, const void* result, const int64_t*, const int64_t*, const int64_t*,         \
     const int64_t*, const void* attr))                                                            \
  X(int, dnnl_convolution_backward_data_primitive_desc_create,                                     \
    (void**, void* engine, int algorithm, const void* source, const void* weights,                 \
     const void* result, const int64_t*, const int64_t*, const int64_t*, const int64_t*,           \
     const void* forward, const void* attr))                                                       \
  X(int, dnnl_convolution_backward_weights_primitive_desc_create,                                  \
    (void**, void* engine, int algorithm, const void* source, const void* weights,                 \
     const void* bias, const void* result, const int64_t*, const int64_t*, const int64_t*,         \
     const int64_t*, const void* forward, const void* attr))

struct Functions {
#define MT_MEMBER(Result, name, arguments) Result(*name) arguments;
  MT_ONEDNN(MT_MEMBER) MT_ONEDNN_2(MT_MEMBER) MT_ONEDNN_3(MT_MEMBER)
#undef MT_MEMBER
};

constexpr int kCpu = 1, kInOrder = 1, kUserScratchpad = 1, kAnyTag = 1, kTraining = 64,
              kInference = 96, kQueryKernel = 8, kQueryScratchpad = 136, kScratchpad = 80,
              kAvx512 = 0x27, kBf16 = 0xe7, kAmx = 0x200;
constexpr int kQueryStrides = 14, kQueryFormat = 262, kQueryBlockCount = 263;
constexpr size_t kLayoutRoom = 2048, kOperationRoom = 16384;  // 696 and 5976 bytes in 2.6

/// The first members of dnnl_memory_desc_t of version 2; in version 3 it is opaque.
struct Description2 {
  int dims;
  int64_t sizes[12];
  int type;
  int64_t padded_sizes[12], padded_offsets[12], offset;
  int format;
  int64_t strides[12];
  int inner_blocks;
  int64_t block_sizes[12], block_dims[12];
};

constexpr const char* kCure =
    "install it (apt-get install libdnnl2, or libdnnl3.6 from Debian 13 on), or name its file in "
    "MTORCH_ONEDNN";

Library the_library;
Functions dnnl;
void *the_engine, *the_attributes;  // attributes: the caller provides the scratchpad memory
LibraryLoader loader{kCure};

bool is_amd() {
#ifdef __x86_64__
  return __builtin_cpu_is("amd");
#else
  return false;
#endif
}

// ---- the file ------------------------------------------------------------------------------------

/// The name of the first function that the file lacks, or null.
const char* find_all(const DynamicLibrary& file) {
  const char* missing = nullptr;
#define MT_FIND(Result, name, arguments) \
  if (!missing && !file.find(#name, dnnl.name)) missing = #name;
  MT_ONEDNN(MT_FIND)
  if (missing) return missing;
  if (dnnl.dnnl_version()->major == 2) {
    MT_ONEDNN_2(MT_FIND)
  } else {
    MT_ONEDNN_3(MT_FIND)
  }
#undef MT_FIND
  return missing;
}

bool accept(const DynamicLibrary& file, const char* name) {
  if (const char* missing = find_all(file)) return loader.lacks(name, missing);
  const Version& version = *dnnl.dnnl_version();
  the_library = {loader.path, version.major, version.minor, version.patch, false, false, false};
  if (version.major != 2 && version.major != 3) {
    char reason[128];
    std::snprintf(reason, sizeof reason, "this is version %d of oneDNN", version.major);
    return loader.refuse(name, reason);
  }
  if (dnnl.dnnl_engine_create(&the_engine, kCpu, 0) != 0 ||
      dnnl.dnnl_primitive_attr_create(&the_attributes) != 0 ||
      dnnl.dnnl_primitive_attr_set_scratchpad_mode(the_attributes, kUserScratchpad) != 0)
    return loader.refuse(name, "this build of oneDNN does not run on processors");
  const int isa = dnnl.dnnl_get_effective_cpu_isa();
  the_library.avx512 = (isa & kAvx512) == kAvx512, the_library.amx = (isa & kAmx) != 0;
  the_library.bf16 = (isa & kBf16) == kBf16 && (the_library.amx || is_amd());
  loader.locate(dnnl.dnnl_sgemm, name);
  return true;
}

bool open_file(const char* name) {
  const DynamicLibrary file = loader.open(name);
  return file && accept(file, name);  // never closed: thread-local data may be in use
}

bool find_library() {
  if (const char* wish = std::getenv("MTORCH_ONEDNN"); wish && *wish) {
    if (std::strcmp(wish, "off") == 0) return loader.refuse("", "MTORCH_ONEDNN is off", "unset it");
    return open_file(wish);
  }
#ifdef __aarch64__  // without the Arm Compute Library it has plain loops, slower than OpenBLAS
  return loader.refuse("", "only a build with the Arm Compute Library is faster",
                       "name its file in MTORCH_ONEDNN");
#endif
  // Debian 13 names it 3.6.
  return open_file("libdnnl.so.3") || open_file("libdnnl.so.3.6") || open_file("libdnnl.so.2");
}

// ---- calls ---------------------------------------------------------------------------------------

/// Calls oneDNN with one thread in its OpenMP regions and signals blocked. Its float matmul kernels
/// keep the stack pointer in a heap workspace, where a signal handler would write below it.
struct Call {
  const int threads = omp_get_max_threads();
  sigset_t before;
  Call() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    if (threads > 1) omp_set_num_threads(1);
  }
  ~Call() {
    if (threads > 1) omp_set_num_threads(threads);
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }
  Call(const Call&) = delete;
};

/// The stream and the scratchpad of each thread.
struct Thread {
  void *stream = nullptr, *scratch = nullptr;
  size_t room = 0;
  ~Thread() {
    if (stream) dnnl.dnnl_stream_destroy(stream);
    std::free(scratch);
  }
  bool reserve(size_t bytes) {
    if (!stream && dnnl.dnnl_stream_create(&stream, the_engine, kInOrder) != 0) return false;
    if (bytes <= room) return true;
    std::free(scratch);
    room = (bytes + 4095) / 4096 * 4096;
    scratch = std::aligned_alloc(4096, room);
    if (!scratch) room = 0;
    return scratch;
  }
};
Thread& this_thread() {
  thread_local Thread thread;
  return thread;
}

bool version_2() { return the_library.major == 2; }

/// A descriptor: by version 2 `init` fills the operation's struct, by version 3 `create` makes it. A gradient needs
/// the forward descriptor as a hint. Null if it is unsupported.
template <class Create, class... A>
void* described(const void* forward, auto init, Create create, const A&... given) {
  void* description = nullptr;
  int status;
  if (version_2()) {
    alignas(64) std::byte operation[kOperationRoom]{};
    if (init(operation, given...) != 0) return nullptr;
    status = dnnl.dnnl_primitive_desc_create(&description, operation, the_attributes, the_engine,
                                             forward);
  } else if constexpr (std::is_invocable_v<Create, void**, void*, A..., const void*, const void*>) {
    status = create(&description, the_engine, given..., forward, the_attributes);
  } else {
    status = create(&description, the_engine, given..., the_attributes);
  }
  return status == 0 ? description : nullptr;
}

}  // namespace

const Library* open() {
  static const bool found = find_library();
  return found ? &the_library : nullptr;
}
const char* why() { return loader.reason; }

bool sgemm(bool a_transposed, bool b_transposed, int64_t m, int64_t n, int64_t k, const float* a,
           int64_t lda, const float* b, int64_t ldb, float* c, int64_t ldc, bool accumulate) {
  const Call call;
  return dnnl.dnnl_sgemm(a_transposed ? 'T' : 'N', b_transposed ? 'T' : 'N', m, n, k, 1, a, lda, b,
                         ldb, accumulate ? 1 : 0, c, ldc) == 0;
}

Layout::Layout(Type type, int dims, const int64_t* sizes, const int64_t* strides) {
  void* made = nullptr;
  if (version_2()) {
    made = std::calloc(1, kLayoutRoom);
    held_.reset(made, std::free);
    if (!made ||
        (strides ? dnnl.dnnl_memory_desc_init_by_strides(made, dims, sizes, type, strides)
                 : dnnl.dnnl_memory_desc_init_by_tag(made, dims, sizes, type, kAnyTag)) != 0)
      held_.reset();
  } else if ((strides ? dnnl.dnnl_memory_desc_create_with_strides(&made, dims, sizes, type, strides)
                      : dnnl.dnnl_memory_desc_create_with_tag(&made, dims, sizes, type, kAnyTag)) ==
             0) {
    held_.reset(made, dnnl.dnnl_memory_desc_destroy);
  }
}

bool Layout::operator==(const Layout& other) const {
  return held_ && other.held_ && dnnl.dnnl_memory_desc_equal(held_.get(), other.held_.get());
}
size_t Layout::bytes() const { return held_ ? dnnl.dnnl_memory_desc_get_size(held_.get()) : 0; }

Blocks Layout::blocks() const {
  constexpr int kBlocked = 2;
  Blocks result;
  if (!held_) return result;
  int format = 0, count = 0;
  const int64_t *stride = nullptr, *size = nullptr, *dim = nullptr;
  if (version_2()) {
    const auto& held = *static_cast<const Description2*>(held_.get());
    format = held.format, count = held.inner_blocks;
    stride = held.strides, size = held.block_sizes, dim = held.block_dims;
  } else {
    const auto query = [&](int what, void* to) {
      return dnnl.dnnl_memory_desc_query(held_.get(), what, to) == 0;
    };
    if (!query(kQueryFormat, &format) || format != kBlocked || !query(kQueryBlockCount, &count) ||
        !query(kQueryBlockCount + 1, &size) || !query(kQueryBlockCount + 2, &dim) ||
        !query(kQueryStrides, &stride))
      return result;
  }
  if (format != kBlocked) return result;
  result.count = count;
  std::copy(size, size + count, result.size);
  std::copy(dim, dim + count, result.dim);
  std::copy(stride, stride + 6, result.stride);
  return result;
}

Primitive Primitive::compiled(void* description) {
  Primitive made;
  if (!description) return made;
  made.description_.reset(description, dnnl.dnnl_primitive_desc_destroy);
  void* primitive = nullptr;
  if (dnnl.dnnl_primitive_create(&primitive, description) == 0)
    made.compiled_.reset(primitive, dnnl.dnnl_primitive_destroy);
  return made;
}

Primitive Primitive::matmul(const Layout& a, const Layout& b, const Layout& c, const Layout& bias) {
  const Call call;
  const void *x = a.held_.get(), *y = b.held_.get(), *z = c.held_.get(), *v = bias.held_.get();
  if (!x || !y || !z) return {};
  return compiled(described(nullptr, dnnl.dnnl_matmul_desc_init,
                            dnnl.dnnl_matmul_primitive_desc_create, x, y, v, z));
}

Primitive Primitive::reorder(const Layout& from, const Layout& to) {
  const Call call;
  if (!from || !to) return {};
  void* made = nullptr;
  const int status = dnnl.dnnl_reorder_primitive_desc_create(
      &made, from.held_.get(), the_engine, to.held_.get(), the_engine, the_attributes);
  return compiled(status == 0 ? made : nullptr);
}

Primitive Primitive::convolution(Pass pass, Algorithm algorithm, const ConvLayouts& l,
                                 const Window& window) {
  const Call call;
  const void *x = l.source.held_.get(), *w = l.weights.held_.get(), *y = l.result.held_.get(),
             *b = l.bias.held_.get(), *dw = l.weights_gradient ? l.weights_gradient.held_.get() : w;
  if (!x || !w || !y) return {};
  const int how = int(algorithm);
  const int64_t *stride = window.stride, *before = window.padding_before,
                *after = window.padding_after;
  int64_t between[3];  // oneDNN counts the elements skipped between two taps
  for (int d = 0; d < window.dims; ++d) between[d] = window.dilation[d] - 1;
  const int64_t* const skipped = between;
  const void* const no_bias = nullptr;
  void* made = nullptr;
  const int kind = pass == Pass::inference ? kInference : kTraining;
  void* const forward = described(nullptr, dnnl.dnnl_dilated_convolution_forward_desc_init,
                                  dnnl.dnnl_convolution_forward_primitive_desc_create, kind, how, x,
                                  w, b, y, stride, skipped, before, after);
  if (forward && pass == Pass::data)
    made = described(forward, dnnl.dnnl_dilated_convolution_backward_data_desc_init,
                     dnnl.dnnl_convolution_backward_data_primitive_desc_create, how, x, w, y,
                     stride, skipped, before, after);
  if (forward && pass == Pass::weights)
    made = described(forward, dnnl.dnnl_dilated_convolution_backward_weights_desc_init,
                     dnnl.dnnl_convolution_backward_weights_primitive_desc_create, how, x, dw,
                     no_bias, y, stride, skipped, before, after);
  if (pass == Pass::forward || pass == Pass::inference) return compiled(forward);
  if (forward) dnnl.dnnl_primitive_desc_destroy(forward);
  return compiled(made);
}

Layout Primitive::layout(Argument argument) const {
  const int queries[][2] = {
      {kSource, 129}, {kSourceGradient, 130}, {kWeights, 131}, {kWeightsGradient, 132},
      {kResult, 133}, {kResultGradient, 134}, {kBias, 131}};
  for (const auto& [of, what] : queries)
    if (of == argument)
      return Layout(std::shared_ptr<const void>(
          description_,
          dnnl.dnnl_primitive_desc_query_md(description_.get(), what, argument == kBias)));
  return {};
}

const char* Primitive::kernel() const {
  const char* name = nullptr;
  if (description_) dnnl.dnnl_primitive_desc_query(description_.get(), kQueryKernel, 0, &name);
  return name ? name : "";
}

bool Primitive::gains_by_bf16() const {
  const bool amx = std::strstr(kernel(), "amx");  // without it also "gemm:jit" gains
  return the_library.bf16 && (the_library.amx ? amx : !std::strstr(kernel(), "ref"));
}

bool Primitive::run(std::initializer_list<Data> data) const {
  constexpr size_t kMaxArguments = 8;
  ExecArg arguments[kMaxArguments];
  int n = 0;
  const auto add = [&](int argument, const void* layout, const void* at) {
    arguments[n] = {argument, nullptr};
    return dnnl.dnnl_memory_create(&arguments[n].memory, layout, the_engine,
                                   const_cast<void*>(at)) == 0 &&
           ++n > 0;
  };
  const Call call;
  Thread& thread = this_thread();
  const void* scratch = dnnl.dnnl_primitive_desc_query_md(description_.get(), kQueryScratchpad, 0);
  const size_t bytes = dnnl.dnnl_memory_desc_get_size(scratch);
  bool good = data.size() < kMaxArguments && thread.reserve(bytes);
  for (const Data& d : data) good = good && add(d.argument, layout(d.argument).held_.get(), d.at);
  if (bytes > 0) good = good && add(kScratchpad, scratch, thread.scratch);
  good = good && dnnl.dnnl_primitive_execute(compiled_.get(), thread.stream, n, arguments) == 0;
  for (int i = 0; i < n; ++i) dnnl.dnnl_memory_destroy(arguments[i].memory);
  return good;
}

}  // namespace mt::onednn
