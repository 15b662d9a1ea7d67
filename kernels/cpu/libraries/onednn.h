// onednn.h -- what is called of oneDNN (libdnnl), which is opened when it is first needed
//
// Nothing links the library and everything works without it, slower. It is looked for in
// MTORCH_ONEDNN ('off': nowhere), as libdnnl.so.3 and as libdnnl.so.2, whose C interfaces differ: the
// classes below hide that. It compiles its kernels for the processor when a shape is first seen, 1 to
// 100 ms. Every call runs on the calling thread, and the kernel that it chooses depends on layouts
// alone, so that bits neither depend on threads nor change between runs.
//
//   if (!onednn::open()) return own_kernel();
//   const Layout x(kF32, 4, sizes, strides), any(kF32, 4, weight_sizes, nullptr);
//   const auto p = Primitive::convolution(Pass::forward, Algorithm::direct, x, any, y, window);
//   if (!p || !p.run({{kSource, px}, {kWeights, pw}, {kResult, py}})) return own_kernel();
//
// p.layout(kWeights) is the layout that was chosen; Primitive::reorder brings the weights into it.
#pragma once
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <memory>
#include <mutex>

namespace mt::onednn {

/// What the doctor says of the library.
struct Library {
  const char* path;
  int major, minor, patch;
  bool avx512,
      bf16;  // its kernels use AVX-512, and its bfloat16: the processor has it, ONEDNN_MAX_CPU_ISA allows it
};
/// The library, opened by the first call; null where there is none: why() says it.
const Library* open();
/// One sentence with a cure, once open() gave null.
const char* why();

// Numbers as dnnl_types.h has them, in both versions.
enum Type { kF16 = 1, kBF16 = 2, kF32 = 3 };
enum class Algorithm { direct = 1, winograd = 2, automatic = 3 };
enum class Pass { forward, data, weights };  // forward; gradients with respect to these
/// An argument of a primitive. A reorder's are kSource and kResult; a gradient has the layout of
/// what it is the gradient of.
enum Argument {
  kSource = 1,
  kResult = 17,
  kWeights = 33,
  kSourceGradient = 129,
  kResultGradient = 145,
  kWeightsGradient = 161
};

/// c = a . b (+ c), by rows; `a_transposed`: the memory holds a's transpose, with rows of lda.
/// Needs open(). False, with nothing done, where oneDNN refuses.
bool sgemm(bool a_transposed, bool b_transposed, int64_t m, int64_t n, int64_t k, const float* a,
           int64_t lda, const float* b, int64_t ldb, float* c, int64_t ldc, bool accumulate);

/// Sizes, type and strides of an array; a copy shares what it holds. False where oneDNN refuses.
class Layout {
 public:
  Layout() = default;
  /// Strides in elements; null: a primitive may choose any layout, blocked ones too.
  Layout(Type type, int dims, const int64_t* sizes, const int64_t* strides);
  explicit operator bool() const { return bool(held_); }
  bool operator==(const Layout& other) const;
  size_t bytes() const;

 private:
  friend class Primitive;
  explicit Layout(std::shared_ptr<const void> held) : held_(std::move(held)) {}
  std::shared_ptr<const void> held_;  // a dnnl_memory_desc
};

/// Of each of the 1 to 3 spatial dimensions. A dilation of 1 is the plain convolution.
struct Window {
  int dims;
  const int64_t *stride, *dilation, *padding_before, *padding_after;
};

struct Data {
  Argument argument;
  const void* at;  // written where the argument is a result
};

/// A compiled operation; a copy shares it. May be run by several threads at once. False where
/// oneDNN has no kernel for it.
class Primitive {
 public:
  Primitive() = default;
  /// kResult = kSource . kWeights, of 2 dimensions, or of 3 with the batch in front.
  static Primitive matmul(const Layout& a, const Layout& b, const Layout& c);
  static Primitive reorder(const Layout& from, const Layout& to);
  /// Source (n, channels, ..), weights (out, in, ..) or (groups, out, in, ..), result (n, out, ..).
  static Primitive convolution(Pass pass, Algorithm algorithm, const Layout& source,
                               const Layout& weights, const Layout& result, const Window& window);
  explicit operator bool() const { return bool(compiled_); }
  Layout layout(Argument argument) const;
  /// Its kernel, as "jit:avx512_core": for mt.explain and tests.
  const char* kernel() const;
  /// False, with nothing done, where memory for intermediate results is missing.
  bool run(std::initializer_list<Data> data) const;

 private:
  static Primitive compiled(void* description);
  std::shared_ptr<void> description_, compiled_;  // dnnl_primitive_desc, dnnl_primitive
};

/// What `make` made for a key, which it did at the first use of at most `most` keys.
template <size_t most, class Key> auto kept(const Key& key, const auto& make) {
  static std::mutex guard;
  static std::map<Key, decltype(make())> all;
  const std::lock_guard lock(guard);
  if (const auto found = all.find(key); found != all.end()) return found->second;
  if (all.size() >= most) all.clear();
  return all[key] = make();
}

}  // namespace mt::onednn
