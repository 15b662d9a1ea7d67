// onednn.h -- the used part of oneDNN's interface (libdnnl); the library is opened at first use
//
// The library is not linked, and everything works without it, but slower. It is searched for in
// MTORCH_ONEDNN ('off': not at all), as libdnnl.so.3 and as libdnnl.so.2, whose C interfaces
// differ: the classes below hide the difference. oneDNN compiles its kernels at the first use of a
// shape, which takes 1 to 100 ms. Every call runs on the calling thread, and the choice of its
// kernel depends only on layouts, so that bits depend neither on threads nor on the run.
//
//   if (!onednn::open()) return own_kernel();
//   const Layout x(kF32, 4, sizes, strides), any(kF32, 4, weight_sizes, nullptr);
//   const auto p = Primitive::convolution(Pass::forward, Algorithm::direct, x, any, y, window);
//   if (!p || !p.run({{kSource, px}, {kWeights, pw}, {kResult, py}})) return own_kernel();
//
// p.layout(kWeights) is the chosen layout; Primitive::reorder converts the weights to it.
#pragma once
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <memory>
#include <mutex>

namespace mt::onednn {

/// What the doctor prints about the library.
struct Library {
  const char* path;
  int major, minor, patch;
  // Whether its AVX-512 and AMX kernels run: the processor and ONEDNN_MAX_CPU_ISA allow them.
  bool avx512, amx;
  // Whether its bfloat16 kernels are faster than float32's: by AMX, or by AVX-512 on AMD's processors (from Zen 4 on),
  // where dot products of bfloat16 have twice the rate of float32's; on Intel's they have the same. No feature tells.
  bool bf16;
};
/// The library, opened by the first call; null if there is none: then why() is the reason.
const Library* open();
/// The reason with a cure, in one sentence, once open() has returned null.
const char* why();

// The values of dnnl_types.h, which are the same in both versions.
enum Type { kF16 = 1, kBF16 = 2, kF32 = 3 };
enum class Algorithm { direct = 1, winograd = 2, automatic = 3 };
/// Forward, for training or by the kernels for inference, or the gradient by an argument.
enum class Pass { forward, inference, data, weights };
/// An argument of a primitive. A reorder has kSource and kResult; a gradient has the layout of the
/// tensor that it belongs to.
enum Argument {
  kSource = 1,
  kResult = 17,
  kWeights = 33,
  kBias = 41,
  kSourceGradient = 129,
  kResultGradient = 145,
  kWeightsGradient = 161
};

/// c = a . b (+ c), row-major; `a_transposed`: memory holds the transpose of a, with a row stride
/// of lda. Requires open(). Returns false, with nothing done, if oneDNN does not support it.
bool sgemm(bool a_transposed, bool b_transposed, int64_t m, int64_t n, int64_t k, const float* a,
           int64_t lda, const float* b, int64_t ldb, float* c, int64_t ldc, bool accumulate);

/// A blocked layout: elements of inner blocks are contiguous, the last one's innermost.
struct Blocks {
  int count = 0;              // of inner blocks; 0: an opaque layout or one without blocks
  int64_t size[12], dim[12];  // of each inner block
  int64_t stride[12];         // of each dimension, between blocks, in elements
};

/// Sizes, type and strides of an array; copies share it. False if oneDNN does not support it.
class Layout {
 public:
  Layout() = default;
  /// Strides in elements; null: a primitive may choose any layout, including blocked ones.
  Layout(Type type, int dims, const int64_t* sizes, const int64_t* strides);
  explicit operator bool() const { return bool(held_); }
  bool operator==(const Layout& other) const;
  size_t bytes() const;
  Blocks blocks() const;

 private:
  friend class Primitive;
  explicit Layout(std::shared_ptr<const void> held) : held_(std::move(held)) {}
  std::shared_ptr<const void> held_;  // a dnnl_memory_desc
};

/// The parameters of each of the 1 to 3 spatial dimensions. A dilation of 1 is a dense convolution.
struct Window {
  int dims;
  const int64_t *stride, *dilation, *padding_before, *padding_after;
};

/// Source (n, channels, ..), weights (out, in, ..) or (groups, out, in, ..) and result (n, out, ..). The bias of the
/// forward pass may be left out; the gradient of the weights has their layout unless it has its own.
struct ConvLayouts {
  Layout source, weights, result, bias{}, weights_gradient{};
};

struct Data {
  Argument argument;
  const void* at;  // written if the argument is a result
};

/// A compiled operation; copies share it. Several threads may run it at once. False if oneDNN has
/// no kernel for it.
class Primitive {
 public:
  Primitive() = default;
  /// kResult = kSource . kWeights + kBias, with 2 dimensions; the bias has one row. It may be left out.
  static Primitive matmul(const Layout& a, const Layout& b, const Layout& c,
                          const Layout& bias = {});
  static Primitive reorder(const Layout& from, const Layout& to);
  static Primitive convolution(Pass pass, Algorithm algorithm, const ConvLayouts& layouts,
                               const Window& window);
  explicit operator bool() const { return bool(compiled_); }
  Layout layout(Argument argument) const;
  /// The name of its kernel, such as "jit:avx512_core": for mt.explain and tests.
  const char* kernel() const;
  /// Whether this kernel is one of those of Library::bf16.
  bool gains_by_bf16() const;
  /// Returns false, with nothing done, if memory for the scratchpad cannot be allocated.
  bool run(std::initializer_list<Data> data) const;

 private:
  static Primitive compiled(void* description);
  std::shared_ptr<void> description_, compiled_;  // dnnl_primitive_desc, dnnl_primitive
};

/// Caches the results of `make` by key, for up to `most` keys.
template <size_t most, class Key> auto kept(const Key& key, const auto& make) {
  static std::mutex guard;
  static std::map<Key, decltype(make())> all;
  const std::lock_guard lock(guard);
  if (const auto found = all.find(key); found != all.end()) return found->second;
  if (all.size() >= most) all.clear();
  return all[key] = make();
}

}  // namespace mt::onednn
